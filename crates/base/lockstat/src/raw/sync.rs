//! The algorithms' interface to the outside: atomics, a futex, a pause. `tests/loom.rs` has a version of
//! this module made with loom.

use std::hint::spin_loop;
use std::{mem, ptr};

pub(super) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

pub(super) use crate::clock::now;

/// The number of growing pauses between a waiter's checks; each is twice as long as the one before.
pub(super) const PAUSES: u32 = 3;
/// The first pause in ticks: about 300 ns, in which a holder takes and releases a lock of short sections
/// several times.
const FIRST_PAUSE: u64 = 768;

/// Pauses before the next check; `step` is the number of checks so far.
///
/// A waiter that checks all the time takes the lock's cache line away from the holder, which needs it
/// next; then both wait for the line more than they work. With pauses, two threads take a lock 1.3 to 2
/// times as often as with a check after every pause instruction. The pauses are measured by the clock,
/// since that instruction takes 13 ns on one processor and 50 ns on another. The waiter does not yield
/// its processor: with 1,000 threads on two processors it would get it back milliseconds later, and
/// waits took several times as long in sum.
pub(super) fn pause(step: u32) {
    let began = now();
    let ticks = FIRST_PAUSE << step.min(PAUSES - 1);
    while now().saturating_sub(began) < ticks {
        spin_loop();
    }
}

/// A word on which threads can sleep.
pub(super) struct Futex(AtomicU32);

impl Futex {
    pub(super) const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Sleeps if the word still has this value, until woken or spuriously. Returns whether it slept and
    /// was woken.
    pub(super) fn wait(&self, value: u32) -> bool {
        // SAFETY: the word outlives the call; a null time-out means none. An error (the value has
        // changed, a signal) counts as a spurious return.
        let result = unsafe {
            let forever: *const libc::timespec = ptr::null();
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                value,
                forever,
            )
        };
        result == 0
    }

    /// Wakes one sleeping thread; returns whether there was one.
    pub(super) fn wake_one(&self) -> bool {
        self.wake(1) > 0
    }

    /// Wakes all sleeping threads.
    pub(super) fn wake_all(&self) {
        self.wake(i32::MAX);
    }

    fn wake(&self, threads_max: i32) -> libc::c_long {
        // SAFETY: the kernel only compares the address and reads nothing there, so the word may even be
        // gone: the next holder may have dropped the lock already.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                threads_max,
            )
        }
    }
}

/// The cost of a sleep and a wake-up, in ticks, before any has been measured; and the bounds of what is
/// learnt. With a counter of 2 to 4 GHz the bounds are about 1 µs and 50 µs: the fastest wake-up between
/// two processors, and a slow one of a virtual machine.
const WAKE_COST_FIRST: u32 = 10_000;
const WAKE_COST_BOUNDS: (u32, u32) = (3_000, 150_000);
/// Spinning is pointless: while a waiter occupies the only processor, the holder cannot run.
const ONE_PROCESSOR: u32 = u32::MAX;

/// 0 until the first use.
static WAKE_COST: AtomicU32 = AtomicU32::new(0);

/// Returns the cost of a sleep and a wake-up, in ticks; 0 on a machine with one processor.
pub(super) fn wake_cost() -> u64 {
    match WAKE_COST.load(Relaxed) {
        0 => first_wake_cost(),
        ONE_PROCESSOR => 0,
        cost => cost.into(),
    }
}

/// Learns from one sleep and wake-up. The estimate is a low quantile, about one in nine: the slower ones
/// waited for a processor, too, which is not a cost of sleeping.
pub(super) fn learn_wake_cost(ticks: u64) {
    let cost = WAKE_COST.load(Relaxed);
    if cost == 0 || cost == ONE_PROCESSOR {
        return;
    }
    let seen = u32::try_from(ticks).unwrap_or(u32::MAX);
    let next = match seen < cost {
        true => cost - (cost - seen) / 8,
        false => cost + (seen - cost).min(cost) / 64,
    };
    // Of two concurrent updates one may be lost.
    WAKE_COST.store(next.clamp(WAKE_COST_BOUNDS.0, WAKE_COST_BOUNDS.1), Relaxed);
}

#[cold]
fn first_wake_cost() -> u64 {
    let first = if processors() > 1 { WAKE_COST_FIRST } else { ONE_PROCESSOR };
    let _ = WAKE_COST.compare_exchange(0, first, Relaxed, Relaxed);
    if first == ONE_PROCESSOR { 0 } else { first.into() }
}

/// The number of processors that this process may use.
fn processors() -> i32 {
    if cfg!(miri) {
        return 2;
    }
    // SAFETY: the call fills in the given set; all zeros are an empty set.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        match libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) {
            0 => libc::CPU_COUNT(&set),
            // There are more processors than the set has room for.
            _ => i32::MAX,
        }
    }
}
