//! A lock of one word, on which waiters sleep.
//!
//! | word | meaning |
//! |---|---|
//! | `FREE` | not held |
//! | `HELD` | held; no thread sleeps |
//! | `AWAITED` | held; threads may sleep, so the release wakes one |
//! | `HELD` or `AWAITED`, with `CALLED` | as above, and a thread that did not wait has called the holder |
//!
//! A thread that has slept takes the lock as `AWAITED`, since it cannot know whether others still sleep:
//! at worst one wake-up finds no sleeper. A thread that goes to sleep may overwrite a call, so the
//! release of an awaited lock always reports a call.

use super::sync::{AcqRel, Acquire, Futex, Relaxed, pause};

pub(super) const FREE: u32 = 0;
pub(super) const HELD: u32 = 1;
pub(super) const AWAITED: u32 = 2;
const CALLED: u32 = 4;

/// The lock. A waiter checks the word `LOOKS` times, at growing intervals, before it sleeps.
pub struct FutexMutex<const LOOKS: u32> {
    word: Futex,
}

impl<const LOOKS: u32> FutexMutex<LOOKS> {
    pub(super) const fn from_word(word: Futex) -> Self {
        Self { word }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.take(HELD)
    }

    /// Takes the lock, or marks it as called, in one step.
    #[inline]
    pub(crate) fn try_lock_or_call(&self) -> bool {
        // Release: the holder that learns of the call sees what the caller did before it. Calls and
        // sleeps change the word by read-modify-writes, so this holds for each of several callers.
        self.word.word().fetch_or(HELD | CALLED, AcqRel) == FREE
    }

    #[cold]
    pub(crate) fn lock_slow(&self) {
        if self.spin(HELD) {
            return;
        }
        while self.word.word().swap(AWAITED, Acquire) != FREE {
            self.word.wait(AWAITED);
            if self.spin(AWAITED) {
                return;
            }
        }
    }

    /// Releases the lock. Returns whether a thread may have called since it was taken.
    #[inline]
    pub(crate) fn unlock(&self) -> bool {
        // Acquire: to see what the callers have done.
        let was = self.word.word().swap(FREE, AcqRel);
        was != HELD && self.unlocked(was)
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.word.word().load(Relaxed) != FREE
    }

    #[inline]
    fn take(&self, how: u32) -> bool {
        self.word.word().compare_exchange(FREE, how, Acquire, Relaxed).is_ok()
    }

    #[cold]
    fn unlocked(&self, was: u32) -> bool {
        if was & AWAITED != 0 {
            self.word.wake_one();
        }
        true
    }

    /// Spins for a while, unless others sleep already: to spin on would be to jump the queue. Returns
    /// true if it has taken the lock.
    fn spin(&self, how: u32) -> bool {
        for step in 0..LOOKS {
            match self.word.word().load(Relaxed) {
                FREE if self.take(how) => return true,
                word if word & AWAITED != 0 => return false,
                _ => pause(step),
            }
        }
        false
    }
}
