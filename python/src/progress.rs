//! Callbacks that tell how far a change of a whole image has come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loligo_wire::Errno;
use pyo3::prelude::*;

use crate::border::{Home, call_back};
use crate::error::Failure;

/// A program's callback `on_progress(done, total)`, which may be absent.
pub(crate) struct Progress {
    home: Arc<Home>,
    callback: Option<Py<PyAny>>,
    /// Whether the operation runs on the caller's thread, which then calls back as well.
    is_here: bool,
}

/// What an operation tells its progress to.
pub(crate) type Tell = Box<dyn FnMut(u64, u64) + Send>;

impl Progress {
    pub(crate) fn new(home: &Arc<Home>, callback: Option<Py<PyAny>>, done: Option<&Py<PyAny>>) -> Self {
        Self { home: Arc::clone(home), callback, is_here: done.is_none() }
    }

    /// Runs an operation. If the callback returns a negative number, the operation is abandoned at its next
    /// step, and fails with that errno.
    pub(crate) async fn run<T, E, F>(self, operation: impl FnOnce(Tell) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, E>>,
        Failure: From<E>,
    {
        let stop = Arc::new(AtomicBool::new(false));
        let operation = operation(self.tell(Arc::clone(&stop)));
        match loligo_rbd::stoppable(operation, || stop.load(Ordering::Relaxed)).await {
            Some(done) => Ok(done?),
            None => Err(Errno::ECANCELED.into()),
        }
    }

    fn tell(self, stop: Arc<AtomicBool>) -> Tell {
        let Some(callback) = self.callback else { return Box::new(|_, _| {}) };
        let callback = Arc::new(callback);
        Box::new(move |done, total| {
            let (callback, stop) = (Arc::clone(&callback), Arc::clone(&stop));
            let call = move |py: Python<'_>| {
                let said = call_back(py, &callback, (done, total));
                if said.is_some_and(|said| said.extract::<i64>().is_ok_and(|said| said < 0)) {
                    stop.store(true, Ordering::Relaxed);
                }
            };
            if self.is_here {
                Python::attach(call);
            } else {
                self.home.events.push(Box::new(call));
            }
        })
    }
}
