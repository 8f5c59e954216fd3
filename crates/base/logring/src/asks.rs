//! What the log thread is asked for, by callers that wait for it and by those that do not.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::handshake::{Bell, Ticket};
use crate::subsys;

/// Who waits for the log thread looks this often whether it is still there.
const WAIT_STEP: Duration = Duration::from_millis(100);

pub(crate) static BELL: Bell = Bell::new();
pub(crate) static FLUSH: Ticket = Ticket::new();
pub(crate) static DUMP: Ticket = Ticket::new();
pub(crate) static REOPEN: Ticket = Ticket::new();
/// It answers. See `Ticket::wait` for how this ends.
pub(crate) static OPEN: AtomicBool = AtomicBool::new(false);
/// The bell was rung by `nudge` since the log thread last woke up: once is enough.
pub(crate) static NUDGED: AtomicBool = AtomicBool::new(false);
/// The log thread, so that it does not wait for itself.
pub(crate) static THREAD: AtomicU64 = AtomicU64::new(0);

/// Waits until all that was logged before this call is written. False: there is no log.
pub fn flush() -> bool {
    ask(&FLUSH)
}

/// Writes the newest entries that are kept, those above the log's level too, and forgets them: `log dump`.
pub fn dump() -> bool {
    ask(&DUMP)
}

/// Opens the log file again, after somebody has moved the old one away: what SIGHUP is for.
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

/// As [`dump`], for a crash: waits no longer than so many tenths of a second. Only atomics and futexes, no
/// lock and no memory.
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

/// In the child of a fork there is no log thread. Atomics only.
pub(crate) fn forked() {
    subsys::set_recording(false);
    OPEN.store(false, SeqCst);
}

/// Something should not wait for the next round: a ring fills, or an error was logged.
#[inline]
pub(crate) fn nudge() {
    // Relaxed: a nudge that gets lost is made up for by the next round.
    if !NUDGED.load(Relaxed) && !NUDGED.swap(true, Relaxed) {
        BELL.ring();
    }
}

/// `pthread_self`; safe in a signal handler.
pub(crate) fn this_thread() -> u64 {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() as u64 }
}
