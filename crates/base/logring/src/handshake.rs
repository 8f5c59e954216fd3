//! Requests from other threads and signal handlers to the log thread, and waiting for their completion.
//!
//! A requester draws a number ([`Ticket::ask`]) and rings the [`Bell`]. The log thread reads the bell
//! first, then the requests; it handles them, stores the number it has reached, and sleeps unless the
//! bell has been rung since it was read. So the log thread never sleeps while a request is pending.
//! Nothing here allocates or takes a lock.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use crate::futex;
use crate::sync::AtomicU32;

/// Wakes the log thread.
pub struct Bell {
    rung: AtomicU32,
}

impl Bell {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { rung: AtomicU32::new(0) }
    }

    #[cfg(loom)]
    #[allow(clippy::new_without_default, missing_docs)]
    pub fn new() -> Self {
        Self { rung: AtomicU32::new(0) }
    }

    /// Ends the log thread's sleep, or the next one before it begins.
    pub fn ring(&self) {
        // Release: the woken log thread sees the requests made before.
        self.rung.fetch_add(1, Release);
        futex::wake(&self.rung);
    }

    /// Returns the value for [`wait`](Self::wait); to be read before the requests.
    pub fn look(&self) -> u32 {
        self.rung.load(Acquire)
    }

    /// Sleeps until the bell has been rung since `seen`, or until the timeout.
    pub fn wait(&self, seen: u32, timeout: Duration) {
        futex::wait(&self.rung, seen, timeout);
    }
}

/// Numbered requests of one kind. All requests up to a number are handled together.
pub struct Ticket {
    wanted: AtomicU32,
    done: AtomicU32,
}

impl Ticket {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { wanted: AtomicU32::new(0), done: AtomicU32::new(0) }
    }

    #[cfg(loom)]
    #[allow(clippy::new_without_default, missing_docs)]
    pub fn new() -> Self {
        Self { wanted: AtomicU32::new(0), done: AtomicU32::new(0) }
    }

    /// Makes a request and returns its number. The caller must ring the bell afterwards.
    pub fn ask(&self) -> u32 {
        // Release: the log thread sees everything the requester did before. Acquire: see `wait`.
        self.wanted.fetch_add(1, AcqRel).wrapping_add(1)
    }

    /// Returns the newest request if it has not been handled.
    pub fn pending(&self) -> Option<u32> {
        let wanted = self.wanted.load(Acquire);
        (wanted != self.done.load(Acquire)).then_some(wanted)
    }

    /// Completes the requests that will never be handled. The log thread has declared before that it is
    /// not open.
    pub fn close(&self) {
        // A read-modify-write, see `wait`.
        let wanted = self.wanted.fetch_add(0, AcqRel);
        self.finish(wanted);
    }

    /// Completes all requests up to this one. Only the log thread calls this.
    pub fn finish(&self, number: u32) {
        self.done.store(number, Release);
        futex::wake(&self.done);
    }

    /// Whether a request has been completed.
    pub fn is_done(&self, number: u32) -> bool {
        self.done.load(Acquire).wrapping_sub(number) as i32 >= 0
    }

    /// Waits for a request, in steps of `step`, as long as `is_open` returns true. False if it has given
    /// up.
    ///
    /// The log thread first stops being open, then [closes](Self::close). `close` and [`ask`](Self::ask)
    /// change the same word, so one comes first: either `close` completes the request, or the requester
    /// acquires the fact that the log thread is not open.
    pub fn wait(&self, number: u32, step: Duration, is_open: impl Fn() -> bool) -> bool {
        loop {
            let done = self.done.load(Acquire);
            if done.wrapping_sub(number) as i32 >= 0 {
                return true;
            }
            if !is_open() {
                return self.is_done(number);
            }
            futex::wait(&self.done, done, step);
        }
    }
}
