//! The state of an operation: whether it rests, is queued or takes a step. It has one thread at a time take a
//! step.

use crate::sync::{AtomicU8, Ordering};

/// It waits to be woken.
const RESTS: u8 = 0;
/// It is in the driver's queue.
const QUEUED: u8 = 1;
/// A thread takes a step.
const STEPS: u8 = 2;
/// A thread takes a step, and the operation was woken meanwhile.
const WOKEN: u8 = 3;

/// The state of one operation.
///
/// Each change is AcqRel: a step sees what the last step did, and what was done before the wake-ups that it
/// answers. One total order of the changes of this one word is all that is needed; nothing is decided by two
/// words.
#[derive(Debug)]
pub(crate) struct Word(AtomicU8);

impl Word {
    /// The state during the first step, which the thread that starts the operation takes.
    pub(crate) fn stepping() -> Self {
        Self(AtomicU8::new(STEPS))
    }

    /// Notes a wake-up. Returns whether the caller must queue the operation.
    pub(crate) fn wake(&self) -> bool {
        // Where a step follows anyway, the value stays, and is written nevertheless: with a mere look at it,
        // that step need not see what was done before the wake-up.
        let next = |state| match state {
            RESTS | QUEUED => QUEUED,
            _ => WOKEN,
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| Some(next(state))) == Ok(RESTS)
    }

    /// Begins a step of an operation from the queue.
    pub(crate) fn begin(&self) {
        // A swap, not a store: it acquires what was done before a wake-up that changed nothing.
        self.0.swap(STEPS, Ordering::AcqRel);
    }

    /// Ends a step after which the operation waits. Returns whether the caller must queue it again.
    pub(crate) fn end(&self) -> bool {
        let rests = self.0.compare_exchange(STEPS, RESTS, Ordering::AcqRel, Ordering::Acquire);
        if rests.is_err() {
            self.0.swap(QUEUED, Ordering::AcqRel);
        }
        rests.is_err()
    }
}
