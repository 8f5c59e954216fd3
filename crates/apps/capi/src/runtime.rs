//! The threads of a process: one runtime and one set of threads for callbacks, whatever the number of
//! handles.
//!
//! The runtime has a worker for each core. Calls that block run their operation on the caller's thread
//! ([`wait`]). Callbacks run on the threads of `strand.rs`.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::Runtime;

use crate::border;

/// Returns the process's runtime, which starts with the first use.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        border::watch_for_forks();
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(thread::available_parallelism().map_or(2, usize::from))
            .thread_name("loligo-io")
            .on_thread_start(block_signals)
            .enable_all()
            .build()
            .expect("the system refuses to start threads")
    })
}

/// Keeps signal handlers of the program off this thread, as librados does.
pub(crate) fn block_signals() {
    // SAFETY: an all-zero set is a valid place for sigfillset to write to.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

/// Runs an operation on this thread until it is complete. May be nested: a progress callback that is
/// called within an operation may wait for others.
pub(crate) fn wait<F: Future>(operation: F) -> F::Output {
    loligo_lockstat::blocking_point("a call of the C interface");
    let _context = runtime().enter();
    let mut operation = pin!(operation);
    let parker = Arc::new(Parker { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&parker));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = operation.as_mut().poll(&mut context) {
            return output;
        }
        // Acquire pairs with the Release in `wake_by_ref`: what the waker did is seen.
        while !parker.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_may_be_nested() {
        let inner = async { wait(async { tokio::time::sleep(Duration::from_millis(1)).await }) };
        wait(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            inner.await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        });
    }
}
