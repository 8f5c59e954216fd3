//! Requests to the log thread, by callers that wait for it and by callers that do not.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::handshake::{Bell, Ticket};
use crate::subsys;

/// A thread that waits for the log thread checks at this interval whether it still exists.
const WAIT_STEP: Duration = Duration::from_millis(100);

pub(crate) static BELL: Bell = Bell::new();
pub(crate) static FLUSH: Ticket = Ticket::new();
pub(crate) static DUMP: Ticket = Ticket::new();
pub(crate) static REOPEN: Ticket = Ticket::new();
/// The log thread handles requests. See `Ticket::wait` for how this ends.
pub(crate) static OPEN: AtomicBool = AtomicBool::new(false);
/// `nudge` has rung the bell since the log thread last woke up: once is enough.
pub(crate) static NUDGED: AtomicBool = AtomicBool::new(false);
/// The log thread's identifier, so that it does not wait for itself.
pub(crate) static THREAD: AtomicU64 = AtomicU64::new(0);

/// Waits until everything logged before this call is written. False if there is no log.
pub fn flush() -> bool {
    ask(&FLUSH)
}

/// Writes the kept entries, including those above the log's level, and discards them: `log dump`. False
/// if there is no log.
pub fn dump() -> bool {
    ask(&DUMP)
}

/// Reopens the log file after the old one has been renamed, as on SIGHUP. False if there is no log.
pub fn reopen() -> bool {
    ask(&REOPEN)
}

fn ask(ticket: &Ticket) -> bool {
    is_open() && !is_log_thread() && {
        let number = ticket.ask();
        BELL.ring();
        ticket.wait(number, WAIT_STEP, is_open)
    }
}

/// Like [`dump`], for a crash: waits at most `steps` tenths of a second. Uses only atomics and futexes;
/// takes no lock and allocates nothing.
pub(crate) fn dump_within(steps: u32) -> bool {
    if !is_open() || is_log_thread() {
        return false;
    }
    let number = DUMP.ask();
    BELL.ring();
    let left = std::cell::Cell::new(steps);
    DUMP.wait(number, WAIT_STEP, || {
        left.set(left.get().saturating_sub(1));
        is_open() && left.get() > 0
    })
}

pub(crate) fn is_open() -> bool {
    OPEN.load(SeqCst)
}

/// Whether the caller is the log thread itself.
pub(crate) fn is_log_thread() -> bool {
    THREAD.load(SeqCst) == this_thread()
}

/// Called in the child of a fork, which has no log thread. Uses only atomics.
pub(crate) fn forked() {
    subsys::set_recording(false);
    OPEN.store(false, SeqCst);
}

/// Wakes the log thread before its next round: a ring fills up, or an error was logged.
#[inline]
pub(crate) fn nudge() {
    // Relaxed: if a nudge is lost, the next round makes up for it.
    if !NUDGED.load(Relaxed) && !NUDGED.swap(true, Relaxed) {
        BELL.ring();
    }
}

/// Returns `pthread_self`. Async-signal-safe.
pub(crate) fn this_thread() -> u64 {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() as u64 }
}
