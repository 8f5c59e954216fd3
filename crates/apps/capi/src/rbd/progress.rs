//! Progress callbacks: how far a change of a whole image has come.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::border::{Arg, Fail, Lent};
use crate::runtime::wait;

/// `librbd_progress_fn_t`.
pub(super) type Callback = unsafe extern "C" fn(offset: u64, total: u64, arg: *mut c_void) -> c_int;

/// A program's progress callback, which may be absent.
#[derive(Clone, Copy)]
pub(super) struct Progress {
    callback: Option<Callback>,
    arg: Arg,
}

impl Progress {
    pub(super) fn new(callback: Option<Callback>, arg: *mut c_void) -> Self {
        Self { callback, arg: Lent(arg) }
    }

    /// Runs an operation that tells its progress. If the callback returns a negative number, the operation
    /// is abandoned at the next step, and the number is the result.
    pub(super) fn run<T, E, F>(
        self,
        operation: impl FnOnce(Box<dyn FnMut(u64, u64) + Send>) -> F,
    ) -> Result<T, Fail>
    where
        F: Future<Output = Result<T, E>>,
        Fail: From<E>,
    {
        let stop = std::sync::Arc::new(AtomicI32::new(0));
        let heard = std::sync::Arc::clone(&stop);
        let operation = operation(Box::new(move |done, total| {
            let Some(callback) = self.callback else { return };
            // SAFETY: the program gave the callback for this argument, which is valid during the call.
            let said = unsafe { callback(done, total, { self }.arg.0) };
            if said < 0 {
                stop.store(said, Ordering::Relaxed);
            }
        }));
        let said = || heard.load(Ordering::Relaxed);
        match wait(loligo_rbd::stoppable(operation, || said() < 0)) {
            Some(done) => done.map_err(Fail::from),
            None => Err(Fail(said())),
        }
    }
}
