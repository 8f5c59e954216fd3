//! A lock whose waiters spin only while its holds are shorter than a sleep and a wake-up.
//!
//! The word and what it means are those of `mutex.rs`. Beside it lie three figures:
//!
//! | figure | written by | means |
//! |---|---|---|
//! | `since` | a waiter that finds 0, a holder that has waited; the holder clears it | ticks at which the present hold began, or was first waited for; 0: nobody waits for it |
//! | `hold_x8` | the holder | eight times the mean hold, an average in which each new hold weighs an eighth |
//! | `released` | the holder | ticks at which the last such hold ended |
//!
//! Only holds that somebody waited for are measured, so an undisturbed acquisition reads no clock; others do
//! not matter. A hold is measured from the time its first waiter came, which is the part of it that matters
//! to waiters: by the waiter itself if the lock becomes free while it spins, else by the holder. A waiter may
//! set `since` just after the hold has ended; then the next hold is taken for longer, until that waiter gets
//! the lock itself and sets `since` anew.
//!
//! What a sleep and a wake-up cost is learnt from those that happen, for the whole process
//! (`sync::wake_cost`): from the moment a holder begins to release the lock to the moment the waiter runs.
//!
//! A long hold counts as [`HOLD_MAX`] times that cost at most. So one is enough to stop the spinning, for an
//! acquisition or two; and after a series of them 16 short ones bring it back. A holder that loses its
//! processor is a long hold, too: on a machine with more threads than processors the waiters do not burn what
//! the holder needs.

use super::sync::{
    Acquire, AtomicU32, AtomicU64, Futex, Relaxed, Release, learn_wake_cost, now, pause, wake_cost,
};

const FREE: u32 = super::mutex::FREE;
const HELD: u32 = super::mutex::HELD;
const AWAITED: u32 = super::mutex::AWAITED;

/// The longest hold that is believed, in costs of a sleep and a wake-up: a new hold weighs an eighth, so one
/// of this length moves the mean of a lock that was never held by just that cost.
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
        // Whoever has slept takes the lock as awaited, since it cannot know whether others still sleep.
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
        // Relaxed: nothing hangs on it but a decision about spinning. A wake-up is never missed through it:
        // the word says who sleeps.
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

    /// Looks for the lock as long as a sleep and a wake-up would take, if its holds are shorter than that.
    /// True if it has been taken; else the holder knows that somebody waits.
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
                // Others sleep for it already: to go on would be to jump the queue.
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

    /// Whether a waiter spins: the mean hold is shorter than what it costs to sleep and be woken.
    pub(super) fn spins_for(&self, wake_cost: u64) -> bool {
        u64::from(self.hold_x8.load(Relaxed)) / 8 < wake_cost
    }

    /// Takes the present hold into the mean. The caller holds the lock.
    #[cold]
    fn learn_hold(&self) {
        let now = now();
        let hold = now.saturating_sub(self.since.load(Relaxed));
        self.learn(hold.min(HOLD_MAX * wake_cost()));
        self.since.store(0, Relaxed);
        self.released.store(now, Relaxed);
    }

    /// Takes a hold into the mean. The caller holds the lock.
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
