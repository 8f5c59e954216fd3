//! How far a change of a whole image has come, and its end before that.

use std::future::poll_fn;
use std::task::Poll;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

tokio::task_local! {
    /// Hears of images of this task's operation that close in the background: one handle for each image that
    /// the operation drops instead of closing it.
    static CLOSING: UnboundedSender<JoinHandle<()>>;
}

/// Runs an operation until it ends, or until `stops` says after a step that it shall go no further: then the
/// operation is dropped, and `None` is the result. By that time the images that the operation had open are
/// closed, so that it can be repeated: an image that is still open is in use.
///
/// An operation that reports how far it has come takes a step after each report.
pub async fn stoppable<T>(operation: impl Future<Output = T>, stops: impl Fn() -> bool) -> Option<T> {
    let (closing, mut images) = unbounded_channel();
    let mut operation = Box::pin(CLOSING.scope(closing, operation));
    let done = poll_fn(|context| match operation.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if stops() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    let done = done.await;
    drop(operation);
    if done.is_none() {
        // The sender went with the operation.
        while let Some(image) = images.recv().await {
            let _ = image.await;
        }
    }
    done
}

/// An image of the current operation closes in the background.
pub(crate) fn is_closing(image: JoinHandle<()>) {
    // Nobody waits for it, unless the operation is stoppable and was stopped.
    let _ = CLOSING.try_with(|to| to.send(image));
}

/// Reports to a progress, then returns to the executor once: a caller that wants to stop after this report
/// can drop the change before its next step. Without that, a change whose replies arrive while the callback
/// runs would go on to its end within one poll.
pub(crate) async fn report(progress: &mut impl FnMut(u64, u64), done: u64, all: u64) {
    progress(done, all);
    tokio::task::yield_now().await;
}
