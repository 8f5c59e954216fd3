//! How far a change of a whole image has come.

/// Reports to a progress, then returns to the executor once: a caller that wants to stop after this report
/// can drop the change before its next step. Without that, a change whose replies arrive while the callback
/// runs would go on to its end within one poll.
pub(crate) async fn report(progress: &mut impl FnMut(u64, u64), done: u64, all: u64) {
    progress(done, all);
    tokio::task::yield_now().await;
}
