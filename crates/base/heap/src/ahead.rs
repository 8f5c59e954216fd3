//! The thread that prepares memory ahead of demand.

use std::thread;

use crate::{area, wake};

/// Stores much from now on: a thread prepares memory once some is in use, and freed memory is kept for a
/// while. The second call in a process changes nothing.
pub fn serve() {
    static BEGUN: std::sync::Once = std::sync::Once::new();
    BEGUN.call_once(|| {
        if !area::is_there() {
            return;
        }
        let thread = thread::Builder::new().name("loligo-memory".to_owned()).spawn(run);
        if let Ok(thread) = thread {
            wake::is_run_by(thread.thread().clone());
        }
    });
}

/// Waits until blocks are wanted, and prepares them.
fn run() {
    while !area::is_filling() {
        thread::park();
    }
    area::grow();
    // A kernel that cannot prepare pages has them made by their first user.
    while area::prepare() {
        thread::park();
    }
}
