//! The thread that prepares memory ahead of demand.

use std::sync::OnceLock;
use std::thread::{self, Thread};

use crate::area;

/// The thread, once it runs.
static THREAD: OnceLock<Thread> = OnceLock::new();

/// Stores much from now on: a thread prepares memory once some is in use, and freed memory is kept for a
/// while. The second call in a process changes nothing.
pub fn serve() {
    static BEGUN: std::sync::Once = std::sync::Once::new();
    BEGUN.call_once(|| {
        if !area::grow() {
            return;
        }
        let thread = thread::Builder::new().name("loligo-memory".to_owned()).spawn(run);
        if let Ok(thread) = thread {
            let _ = THREAD.set(thread.thread().clone());
        }
    });
}

/// There are wanted blocks. Does not allocate.
pub(crate) fn wake() {
    if let Some(thread) = THREAD.get() {
        thread.unpark();
    }
}

/// Waits until blocks are wanted, and prepares them.
fn run() {
    while !area::is_filling() {
        thread::park();
    }
    // A kernel that cannot prepare pages has them made by their first user.
    while area::prepare() {
        thread::park();
    }
}
