//! Wakes the thread that prepares memory.

use std::sync::OnceLock;
use std::thread::Thread;

/// The thread, once it runs.
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Names the thread.
pub(crate) fn is_run_by(thread: Thread) {
    // There is one only.
    let _ = THREAD.set(thread);
}

/// There are wanted blocks. Does not allocate.
pub(crate) fn wake() {
    if let Some(thread) = THREAD.get() {
        thread.unpark();
    }
}
