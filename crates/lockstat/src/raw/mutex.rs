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

use super::sync::{Acquire, Futex, Relaxed, Release, spin_loop};

pub(super) const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// The lock; a waiter looks `SPINS` times before it sleeps.
pub struct FutexMutex<const SPINS: u32> {
    word: Futex,
}

impl<const SPINS: u32> FutexMutex<SPINS> {
    pub(super) const fn from_word(word: Futex) -> Self {
        Self { word }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.word.word().compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    #[cold]
    pub(crate) fn lock_slow(&self) {
        let mut seen = self.spin();
        if seen == FREE && self.try_lock() {
            return;
        }
        loop {
            if seen != AWAITED && self.word.word().swap(AWAITED, Acquire) == FREE {
                return;
            }
            self.word.wait(AWAITED);
            seen = self.spin();
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

    #[cold]
    fn wake(&self) {
        self.word.wake_one();
    }

    /// Looks until the lock is free or others sleep for it already: to go on spinning would be to jump the queue.
    fn spin(&self) -> u32 {
        let mut seen = self.word.word().load(Relaxed);
        for _ in 0..SPINS {
            if seen != HELD {
                break;
            }
            spin_loop();
            seen = self.word.word().load(Relaxed);
        }
        seen
    }
}
