//! Completions: how a program learns that an asynchronous operation is complete.

use std::ffi::{c_int, c_void};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Poll, Waker};

use az::SaturatingAs as _;
use loligo_flight::Flight;
use loligo_lockstat::{Class, Mutex};
use loligo_wire::Errno;

use crate::border::{Arg, Fail};
use crate::handle;
use crate::runtime::wait;
use crate::strand::Strand;

static COMPLETION: Class = Class::new("capi.completion");

/// `rados_callback_t` and `rbd_callback_t`.
pub(crate) type Callback = unsafe extern "C" fn(completion: *mut c_void, arg: *mut c_void);

/// The operation is not complete.
const PENDING: u8 = 0;
/// It is complete, its callbacks have not returned yet.
const COMPLETE: u8 = 1;
/// Its callbacks have returned.
const TOLD: u8 = 2;

/// `rados_completion_t` and `rbd_completion_t`: a pointer to it is a counted reference of the program's.
pub(crate) struct Completion {
    pub(crate) arg: Arg,
    /// Called one after the other, in this order.
    callbacks: [Option<Callback>; 2],
    phase: AtomicU8,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outcome: Outcome,
    waiters: Vec<Waker>,
    /// Cancels the operation.
    flight: Option<Arc<Flight>>,
}

impl Completion {
    /// Creates a completion and returns the program's reference.
    pub(crate) fn create(arg: *mut c_void, callbacks: [Option<Callback>; 2]) -> *mut Self {
        let completion = Self {
            arg: crate::border::Lent(arg),
            callbacks,
            phase: AtomicU8::new(PENDING),
            state: Mutex::new(&COMPLETION, State::default()),
        };
        Arc::into_raw(Arc::new(completion)).cast_mut()
    }

    /// Returns the completion behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is NULL, or a completion that was not released.
    pub(crate) unsafe fn of<'a>(pointer: *mut c_void) -> Result<&'a Self, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::borrowed(pointer) }
    }

    /// Gives the program's reference back.
    ///
    /// # Safety
    /// It is the program's reference, and is not used again.
    pub(crate) unsafe fn release(pointer: *mut Self) {
        // SAFETY: by this function's contract.
        drop(unsafe { Arc::from_raw(pointer) });
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= COMPLETE
    }

    pub(crate) fn is_told(&self) -> bool {
        self.phase.load(Ordering::Acquire) >= TOLD
    }

    pub(crate) fn value(&self) -> i64 {
        self.state.lock().outcome.value
    }

    pub(crate) fn version(&self) -> u64 {
        self.state.lock().outcome.version
    }

    /// Waits until the operation is complete.
    pub(crate) fn wait_complete(&self) {
        self.wait_for(COMPLETE);
    }

    /// Waits until the operation is complete and its callbacks have returned.
    pub(crate) fn wait_told(&self) {
        self.wait_for(TOLD);
    }

    fn wait_for(&self, phase: u8) {
        if self.phase.load(Ordering::Acquire) >= phase {
            return;
        }
        wait(std::future::poll_fn(|context| {
            let mut state = self.state.lock();
            if self.phase.load(Ordering::Acquire) >= phase {
                return Poll::Ready(());
            }
            if !state.waiters.iter().any(|waiter| waiter.will_wake(context.waker())) {
                state.waiters.push(context.waker().clone());
            }
            Poll::Pending
        }));
    }

    fn reach(&self, phase: u8, outcome: Option<Outcome>) {
        let waiters = {
            let mut state = self.state.lock();
            state.outcome = outcome.unwrap_or(state.outcome);
            self.phase.store(phase, Ordering::Release);
            // The operation holds this completion: the circle ends here.
            state.flight = None;
            std::mem::take(&mut state.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    /// The operation is complete. The callbacks and then `told` run on the strand.
    fn finish(self: Arc<Self>, strand: &Arc<Strand>, outcome: Outcome, told: Option<Told>) {
        if self.callbacks.iter().all(Option::is_none) && told.is_none() {
            self.reach(TOLD, Some(outcome));
            return;
        }
        self.reach(COMPLETE, Some(outcome));
        strand.push(move || {
            let pointer = Arc::as_ptr(&self).cast_mut().cast();
            for callback in self.callbacks.into_iter().flatten() {
                // SAFETY: the program gave the callback for this argument, and the completion lives.
                unsafe { callback(pointer, self.arg.0) };
            }
            self.reach(TOLD, None);
            if let Some(told) = told {
                told(self);
            }
        });
    }

    /// Cancels the operation; returns whether it was under way.
    pub(crate) fn cancel(&self) -> bool {
        let flight = self.state.lock().flight.take();
        let is_pending = !self.is_complete();
        if let Some(flight) = flight {
            flight.cancel();
        }
        is_pending
    }
}

/// What runs on the strand after the callbacks.
pub(crate) type Told = Box<dyn FnOnce(Arc<Completion>) + Send>;

/// The result of an operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    /// The number for `get_return_value`.
    pub(crate) value: i64,
    /// The object's version.
    pub(crate) version: u64,
}

impl Outcome {
    /// The outcome of an operation that failed.
    pub(crate) fn failed(why: impl Into<Fail>) -> Self {
        let Fail(why) = why.into();
        Self { value: why.into(), version: 0 }
    }

    /// The value as synchronous functions return it.
    pub(crate) fn returned(self) -> Result<c_int, Fail> {
        let value = self.value.saturating_as::<c_int>();
        if value < 0 { Err(Fail(value)) } else { Ok(value) }
    }
}

/// An operation under way. If it is dropped before it is complete, it was cancelled, or it panicked.
struct Underway {
    parts: Option<(Arc<Completion>, Arc<Strand>, Option<Told>)>,
}

impl Underway {
    fn finish(mut self, outcome: Outcome) {
        self.end(outcome);
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some((completion, strand, told)) = self.parts.take() {
            completion.finish(&strand, outcome, told);
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        let why = if std::thread::panicking() { Errno::EIO } else { Errno::ECANCELED };
        self.end(Outcome::failed(why));
    }
}

/// Starts an operation that completes `completion`. Its first steps, which give it its place in the order
/// of operations on an object, are taken before this returns. `held` is dropped when the completion is
/// complete.
///
/// # Errors
/// EINVAL if `completion` is NULL.
///
/// # Safety
/// `completion` is the program's, or NULL.
pub(crate) unsafe fn submit(
    completion: *mut c_void,
    strand: &Arc<Strand>,
    told: Option<Told>,
    held: impl Send + 'static,
    operation: impl Future<Output = Outcome> + Send + 'static,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let completion: Arc<Completion> = unsafe { handle::shared(completion) }?;
    let underway = Underway { parts: Some((Arc::clone(&completion), Arc::clone(strand), told)) };
    // In one binding, so that they are dropped in this order, and after the operation.
    let parts = (underway, held);
    let flight = strand.driver.start(operation, move |outcome| {
        let (underway, held) = parts;
        underway.finish(outcome);
        drop(held);
    });
    let mut state = completion.state.lock();
    if !completion.is_complete() {
        state.flight = Some(flight);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;
    use std::sync::atomic::AtomicU64;

    extern "C" fn count(_: *mut c_void, arg: *mut c_void) {
        // SAFETY: the tests give a counter.
        unsafe { &*arg.cast::<AtomicU64>() }.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn both_callbacks_are_called_before_the_end_of_the_wait() {
        let called = AtomicU64::new(0);
        let strand = Strand::new();
        let arg = (&raw const called).cast_mut().cast();
        let completion = Completion::create(arg, [Some(count), Some(count)]);
        // SAFETY: the completion is this test's and is released once.
        unsafe {
            let submitted = submit(completion.cast(), &strand, None, (), async {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                Outcome { value: 7, version: 9 }
            });
            assert_eq!(submitted, Ok(0));
            (*completion).wait_told();
            assert_eq!(((*completion).value(), (*completion).version()), (7, 9));
            Completion::release(completion);
        }
        assert_eq!(called.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_cancelled_operation_completes() {
        let strand = Strand::new();
        let completion = Completion::create(ptr::null_mut(), [None, None]);
        // SAFETY: the completion is this test's and is released once.
        unsafe {
            assert_eq!(submit(completion.cast(), &strand, None, (), std::future::pending()), Ok(0));
            assert!(!(*completion).is_complete());
            assert!((*completion).cancel());
            (*completion).wait_complete();
            assert_eq!((*completion).value(), i64::from(Errno::ECANCELED.to_result()));
            assert!(!(*completion).cancel());
            Completion::release(completion);
        }
    }
}
