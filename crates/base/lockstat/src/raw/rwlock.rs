//! A lock that many threads may hold for reading, or one for writing.
//!
//! | bits of `state` | meaning |
//! |---|---|
//! | 0–29 | the number of readers that hold it; all ones: a writer holds it |
//! | 30 `READERS_SLEEP` | readers may be asleep, on `state` |
//! | 31 `WRITERS_SLEEP` | writers may be asleep, on `turn` |
//!
//! A waiting writer keeps new readers out, so a stream of readers cannot starve it. When a writer
//! releases the lock and both readers and writers wait, a writer is woken first. `turn` counts the
//! wake-ups of writers: a writer reads it before its last check of `state`, so a wake-up in between ends
//! its sleep at once.

use super::LOOKS;
use super::sync::{Acquire, Futex, Relaxed, Release, pause};

const COUNT: u32 = READERS_SLEEP - 1;
const READERS_SLEEP: u32 = 1 << 30;
const WRITERS_SLEEP: u32 = 1 << 31;
const SLEEPERS: u32 = READERS_SLEEP | WRITERS_SLEEP;
const ONE_READER: u32 = 1;
const A_WRITER: u32 = COUNT;
const READERS_MAX: u32 = COUNT - 1;

/// The lock of [`RwLock`](crate::RwLock).
pub struct FutexRwLock {
    state: Futex,
    turn: Futex,
}

impl FutexRwLock {
    pub(super) const fn from_words(state: Futex, turn: Futex) -> Self {
        Self { state, turn }
    }

    #[inline]
    pub(crate) fn try_lock_shared(&self) -> bool {
        let mut state = self.state.word().load(Relaxed);
        while admits_reader(state) {
            match self.state.word().compare_exchange_weak(state, state + ONE_READER, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    #[cold]
    pub(crate) fn lock_shared_slow(&self) {
        let mut has_slept = false;
        let mut state = self.spin(|s| !admits_reader(s) && s & SLEEPERS == 0);
        loop {
            // A woken reader has waited its turn: a writer that came later does not keep it out again.
            let admitted = admits_reader(state) || (has_slept && admits_woken_reader(state));
            if admitted {
                match self.state.word().compare_exchange_weak(state, state + ONE_READER, Acquire, Relaxed) {
                    Ok(_) => return,
                    Err(now) => state = now,
                }
                continue;
            }
            assert!(state & COUNT != READERS_MAX, "a read-write lock is held by too many readers");
            if !self.announce(&mut state, READERS_SLEEP) {
                continue;
            }
            self.state.wait(state);
            has_slept = true;
            state = self.spin(|s| !admits_reader(s) && s & SLEEPERS == 0);
        }
    }

    #[inline]
    pub(crate) fn unlock_shared(&self) {
        let state = self.state.word().fetch_sub(ONE_READER, Release) - ONE_READER;
        // Readers sleep only behind a writer, so if there is a thread to wake, a writer waits too.
        if state & COUNT == 0 && state & WRITERS_SLEEP != 0 {
            self.wake(state);
        }
    }

    #[inline]
    pub(crate) fn try_lock_exclusive(&self) -> bool {
        // The lock is usually free, and a load first would take as long as the exchange.
        let Err(state) = self.state.word().compare_exchange(0, A_WRITER, Acquire, Relaxed) else {
            return true;
        };
        state & COUNT == 0
            && self.state.word().compare_exchange(state, state | A_WRITER, Acquire, Relaxed).is_ok()
    }

    #[cold]
    pub(crate) fn lock_exclusive_slow(&self) {
        // Other writers may sleep beside this one, so once it has announced itself, it takes the lock
        // with `WRITERS_SLEEP` set.
        let mut others = 0;
        let mut state = self.spin(|s| s & COUNT != 0 && s & WRITERS_SLEEP == 0);
        loop {
            if state & COUNT == 0 {
                let taken = state | A_WRITER | others;
                match self.state.word().compare_exchange_weak(state, taken, Acquire, Relaxed) {
                    Ok(_) => return,
                    Err(now) => state = now,
                }
                continue;
            }
            if !self.announce(&mut state, WRITERS_SLEEP) {
                continue;
            }
            others = WRITERS_SLEEP;
            let turn = self.turn.word().load(Acquire);
            state = self.state.word().load(Relaxed);
            if state & COUNT == 0 || state & WRITERS_SLEEP == 0 {
                continue;
            }
            self.turn.wait(turn);
            state = self.spin(|s| s & COUNT != 0 && s & WRITERS_SLEEP == 0);
        }
    }

    #[inline]
    pub(crate) fn unlock_exclusive(&self) {
        let state = self.state.word().fetch_sub(A_WRITER, Release) - A_WRITER;
        if state & SLEEPERS != 0 {
            self.wake(state);
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.state.word().load(Relaxed) & COUNT != 0
    }

    pub(crate) fn is_locked_exclusive(&self) -> bool {
        self.state.word().load(Relaxed) & COUNT == A_WRITER
    }

    /// Sets a bit that tells that a thread is about to sleep. False if the state has changed: check it
    /// again.
    fn announce(&self, state: &mut u32, bit: u32) -> bool {
        if *state & bit != 0 {
            return true;
        }
        match self.state.word().compare_exchange(*state, *state | bit, Relaxed, Relaxed) {
            Ok(_) => {
                *state |= bit;
                true
            }
            Err(now) => {
                *state = now;
                false
            }
        }
    }

    /// Wakes a writer or, if there is none, all readers. `state` is the value that the last holder left:
    /// free, with sleepers.
    ///
    /// A compare-exchange that fails because the lock was taken again leaves the bits to the new holder.
    #[cold]
    fn wake(&self, mut state: u32) {
        if state == WRITERS_SLEEP {
            match self.state.word().compare_exchange(state, 0, Relaxed, Relaxed) {
                Ok(_) => {
                    self.wake_writer();
                    return;
                }
                // Readers may have gone to sleep since.
                Err(now) => state = now,
            }
        }
        if state == SLEEPERS {
            if self.state.word().compare_exchange(state, READERS_SLEEP, Relaxed, Relaxed).is_err() {
                return;
            }
            if self.wake_writer() {
                return;
            }
            // The writer that had announced itself does not sleep yet and will check again; the readers
            // must not depend on it.
            state = READERS_SLEEP;
        }
        if state == READERS_SLEEP && self.state.word().compare_exchange(state, 0, Relaxed, Relaxed).is_ok() {
            self.state.wake_all();
        }
    }

    fn wake_writer(&self) -> bool {
        self.turn.word().fetch_add(1, Release);
        self.turn.wake_one()
    }

    fn spin(&self, wait: impl Fn(u32) -> bool) -> u32 {
        let mut state = self.state.word().load(Relaxed);
        for step in 0..LOOKS {
            if !wait(state) {
                break;
            }
            pause(step);
            state = self.state.word().load(Relaxed);
        }
        state
    }
}

fn admits_reader(state: u32) -> bool {
    state & COUNT < READERS_MAX && state & SLEEPERS == 0
}

fn admits_woken_reader(state: u32) -> bool {
    state & COUNT < READERS_MAX && state & READERS_SLEEP == 0
}
