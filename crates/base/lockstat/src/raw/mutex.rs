//! A lock of one word with three values, on which waiters sleep.
//!
//! | word | means |
//! |---|---|
//! | `FREE` | nobody holds it |
//! | `HELD` | somebody holds it; nobody sleeps |
//! | `AWAITED` | somebody holds it; perhaps somebody sleeps, so whoever releases it wakes one |
//! | `HELD` or `AWAITED`, with `CALLED` | as above, and somebody who did not wait wants the holder to know |
//!
//! A thread that has slept takes the lock as `AWAITED`, since it cannot know whether others still sleep: at
//! worst one wake-up finds nobody. Who goes to sleep may wipe out a call, so whoever releases an awaited lock
//! believes that it was called.

use super::sync::{AcqRel, Acquire, Futex, Relaxed, pause};

pub(super) const FREE: u32 = 0;
pub(super) const HELD: u32 = 1;
pub(super) const AWAITED: u32 = 2;
const CALLED: u32 = 4;

/// The lock; a waiter looks `LOOKS` times, at growing distances, before it sleeps.
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

    /// Takes the lock, or leaves word with whoever has it, in one step.
    #[inline]
    pub(crate) fn try_lock_or_call(&self) -> bool {
        // Release: who learns of the call sees what was done before it. What calls and sleeps add are
        // read-modify-writes, so that holds for each of several callers.
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

    /// Releases the lock. Whether somebody may have called since it was taken.
    #[inline]
    pub(crate) fn unlock(&self) -> bool {
        // Acquire: for what callers have done.
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

    /// Looks for a while, unless others sleep for it already: to go on would be to jump the queue. True if
    /// the lock has been taken.
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
