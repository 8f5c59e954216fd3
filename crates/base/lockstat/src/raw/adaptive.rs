//! A lock whose waiters spin only while its holds are shorter than a sleep and a wake-up.
//!
//! The lock's word has the values of `mutex.rs`. There are three more fields:
//!
//! - `since`: ticks at which the current hold began or was first waited for; 0: no thread waits for it.
//!   Written by a waiter that finds 0 and by a holder that has waited; cleared by the holder.
//! - `hold_x8`: eight times the mean hold, a moving average in which each new hold has the weight 1/8.
//!   Written by the holder.
//! - `released`: ticks at which the last such hold ended. Written by the holder.
//!
//! Only holds for which a thread waited are measured, so an uncontended acquisition reads no clock.
//! Other holds do not matter. A hold is measured from the arrival of its first waiter, since only this
//! part of it matters to waiters. The waiter measures it if the lock becomes free while it spins;
//! otherwise the holder does. A waiter may set `since` just after the hold has ended. Then the next hold
//! is measured as too long, until that waiter takes the lock and sets `since` anew.
//!
//! The cost of a sleep and a wake-up is learnt for the whole process (`sync::wake_cost`), from the
//! moment at which a holder begins the release to the moment at which the woken waiter runs.
//!
//! A long hold counts as at most [`HOLD_MAX`] times that cost. One such hold is enough to stop the
//! spinning for an acquisition or two; after a series of them, 16 short ones restore it. A holder that
//! is preempted causes a long hold, too: on a machine with more threads than processors, the waiters do
//! not spin away the CPU time that the holder needs.

use super::sync::{
    Acquire, AtomicU32, AtomicU64, Futex, Relaxed, Release, learn_wake_cost, now, pause, wake_cost,
};

const FREE: u32 = super::mutex::FREE;
const HELD: u32 = super::mutex::HELD;
const AWAITED: u32 = super::mutex::AWAITED;

/// The most that a hold counts, in costs of a sleep and a wake-up: a new hold has the weight 1/8, so
/// a hold of this length moves a mean of 0 to exactly that cost.
pub(super) const HOLD_MAX: u64 = 8;

/// The lock of [`AdaptiveMutex`](crate::AdaptiveMutex).
pub struct Adaptive {
    word: Futex,
    hold_x8: AtomicU32,
    since: AtomicU64,
    released: AtomicU64,
}

impl Adaptive {
    pub(super) const fn from_parts(word: Futex, hold_x8: AtomicU32, times: [AtomicU64; 2]) -> Self {
        let [since, released] = times;
        Self { word, hold_x8, since, released }
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        self.take(HELD)
    }

    #[cold]
    pub(crate) fn lock_slow(&self) {
        // A thread that has slept takes the lock as `AWAITED`, since it cannot know whether others still
        // sleep.
        let mut how = HELD;
        while !self.spin(how) {
            how = AWAITED;
            if self.word.word().swap(AWAITED, Acquire) == FREE {
                break;
            }
            if self.word.wait(AWAITED) {
                learn_wake_cost(now().saturating_sub(self.released.load(Relaxed)));
            }
        }
        if how == AWAITED {
            self.since.store(now(), Relaxed);
        }
    }

    #[inline]
    pub(crate) fn unlock(&self) {
        // Relaxed: only decisions about spinning depend on it. No wake-up is missed: the word tells
        // whether a thread sleeps.
        if self.since.load(Relaxed) != 0 {
            self.learn_hold();
        }
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

    /// Spins as long as a sleep and a wake-up would take, if the mean hold is shorter than that. Returns
    /// true if it has taken the lock; otherwise `since` tells the holder that a thread waits.
    fn spin(&self, how: u32) -> bool {
        let came = now();
        let patience = wake_cost();
        let (mut waited, mut step) = (0, 0);
        while self.spins_for(patience) && waited < patience {
            match self.word.word().load(Relaxed) {
                FREE if self.take(how) => {
                    self.learn(waited);
                    return true;
                }
                // Others sleep already: to spin on would be to jump the queue.
                AWAITED => break,
                _ => pause(step),
            }
            step += 1;
            waited = now().saturating_sub(came);
        }
        if self.since.load(Relaxed) == 0 {
            self.since.store(came, Relaxed);
        }
        false
    }

    /// Whether a waiter spins: the mean hold is shorter than a sleep and a wake-up.
    pub(super) fn spins_for(&self, wake_cost: u64) -> bool {
        u64::from(self.hold_x8.load(Relaxed)) / 8 < wake_cost
    }

    /// Adds the current hold to the mean. The caller holds the lock.
    #[cold]
    fn learn_hold(&self) {
        let now = now();
        let hold = now.saturating_sub(self.since.load(Relaxed));
        self.learn(hold.min(HOLD_MAX * wake_cost()));
        self.since.store(0, Relaxed);
        self.released.store(now, Relaxed);
    }

    /// Adds a hold to the mean. The caller holds the lock.
    pub(super) fn learn(&self, hold: u64) {
        let mean_x8 = u64::from(self.hold_x8.load(Relaxed));
        let next = mean_x8 - mean_x8 / 8 + hold;
        self.hold_x8.store(u32::try_from(next).unwrap_or(u32::MAX), Relaxed);
    }

    #[cold]
    fn wake(&self) {
        self.word.wake_one();
    }
}
