//! How other threads, and signal handlers, ask the log thread for something and wait for it.
//!
//! Whoever asks takes a number ([`Ticket::ask`]) and rings the [`Bell`]. The log thread looks at the bell
//! first, then at what is asked for, works, says how far it got, and sleeps unless the bell has been rung
//! since it looked: so nothing that was asked for is slept over. Nothing here allocates or takes a lock.

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
        // Release: who is woken sees what was asked for before.
        self.rung.fetch_add(1, Release);
        futex::wake(&self.rung);
    }

    /// What [`wait`](Self::wait) is to be told; read it before looking for work.
    pub fn look(&self) -> u32 {
        self.rung.load(Acquire)
    }

    /// Sleeps until the bell has been rung since `seen`, or the time is over.
    pub fn wait(&self, seen: u32, timeout: Duration) {
        futex::wait(&self.rung, seen, timeout);
    }
}

/// Requests of one kind, numbered; all up to a number are done together.
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

    /// Asks; the result is the request's number. Ring the bell afterwards.
    pub fn ask(&self) -> u32 {
        // Release: who answers sees what was done before. Acquire: see `wait`.
        self.wanted.fetch_add(1, AcqRel).wrapping_add(1)
    }

    /// The newest request, if it has not been done.
    pub fn pending(&self) -> Option<u32> {
        let wanted = self.wanted.load(Acquire);
        (wanted != self.done.load(Acquire)).then_some(wanted)
    }

    /// Answers what nobody will do any more. The log thread has said before that it is not open.
    pub fn close(&self) {
        // A read-modify-write, see `wait`.
        let wanted = self.wanted.fetch_add(0, AcqRel);
        self.finish(wanted);
    }

    /// All requests up to this one are done. Only the log thread says so.
    pub fn finish(&self, number: u32) {
        self.done.store(number, Release);
        futex::wake(&self.done);
    }

    /// Whether a request is done.
    pub fn is_done(&self, number: u32) -> bool {
        self.done.load(Acquire).wrapping_sub(number) as i32 >= 0
    }

    /// Waits for a request, in steps of `step`, as long as `is_open` says that somebody works. False: given
    /// up.
    ///
    /// The log thread first stops being open, then [closes](Self::close). That and [`ask`](Self::ask) change
    /// the same word, so one comes first: either the request is answered there, or the one who asks acquires
    /// that it is not open.
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
