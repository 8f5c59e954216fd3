//! A lock of one word with three values, on which waiters sleep.
//!
//! | word | means |
//! |---|---|
//! | `FREE` | nobody holds it |
//! | `HELD` | somebody holds it; nobody sleeps |
//! | `AWAITED` | somebody holds it; perhaps somebody sleeps, so whoever releases it wakes one |
//!
//! A thread that has slept takes the lock as `AWAITED`, since it cannot know whether others still sleep: at worst one
//! wake-up finds nobody.

use super::sync::{Acquire, Futex, Relaxed, Release, pause};

pub(super) const FREE: u32 = 0;
pub(super) const HELD: u32 = 1;
pub(super) const AWAITED: u32 = 2;

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

    #[inline]
    pub(crate) fn unlock(&self) {
        if self.word.word().swap(FREE, Release) == AWAITED {
            self.wake();
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.word.word().load(Relaxed) != FREE
    }

    #[inline]
    fn take(&self, how: u32) -> bool {
        self.word.word().compare_exchange(FREE, how, Acquire, Relaxed).is_ok()
    }

    #[cold]
    fn wake(&self) {
        self.word.wake_one();
    }

    /// Looks for a while, unless others sleep for it already: to go on would be to jump the queue. True if the lock has
    /// been taken.
    fn spin(&self, how: u32) -> bool {
        for step in 0..LOOKS {
            match self.word.word().load(Relaxed) {
                FREE if self.take(how) => return true,
                AWAITED => return false,
                _ => pause(step),
            }
        }
        false
    }
}
