//! What the algorithms need from outside: atomics, a futex, a pause. `tests/loom.rs` has a namesake made of
//! loom's.

use std::hint::spin_loop;
use std::{mem, ptr};

pub(super) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
pub(super) use std::sync::atomic::{AtomicU32, AtomicU64};

pub(super) use crate::clock::now;

/// Pauses between a waiter's looks that grow, each twice as long as the one before.
pub(super) const PAUSES: u32 = 3;
/// Ticks of the first pause: about 300 ns, in which a holder takes and releases a lock of short sections
/// several times.
const FIRST_PAUSE: u64 = 768;

/// Passes some time before the next look, of which `step` have been taken.
///
/// A waiter that looks all the time takes the line with the lock away from the holder, who needs it next, and
/// then both wait for the line more than they work: with pauses two threads take a lock 1.3 to 2 times as
/// often as with looks at every pause instruction. They are measured by the clock, since that instruction
/// takes 13 ns on one processor and 50 on the next. Nothing here offers the processor to others: with 1,000
/// threads on two processors it comes back milliseconds later, and waits took several times as long in sum.
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

    /// Sleeps if the word still has this value, until woken, or for no reason. Says whether it slept and was
    /// woken.
    pub(super) fn wait(&self, value: u32) -> bool {
        // SAFETY: the word outlives the call; a null time-out means none. An error (the value has changed, a
        // signal) is a return for no reason.
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

    /// Wakes one sleeping thread; says whether there was one.
    pub(super) fn wake_one(&self) -> bool {
        self.wake(1) > 0
    }

    /// Wakes all threads that sleep.
    pub(super) fn wake_all(&self) {
        self.wake(i32::MAX);
    }

    fn wake(&self, threads_max: i32) -> libc::c_long {
        // SAFETY: the kernel only compares the address, it reads nothing there; so it may even be gone by
        // now, as it is when the next holder has dropped the lock already.
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

/// What a sleep and a wake-up cost before any has been seen, in ticks; and what nothing can change it beyond.
/// With a counter of 2 to 4 GHz the bounds are about 1 µs and 50 µs: the fastest wake-up between two
/// processors, and a slow one of a virtual machine.
const WAKE_COST_FIRST: u32 = 10_000;
const WAKE_COST_BOUNDS: (u32, u32) = (3_000, 150_000);
/// There is nothing to wait for awake: whoever has the only processor is not the holder.
const ONE_PROCESSOR: u32 = u32::MAX;

/// 0 until first asked for.
static WAKE_COST: AtomicU32 = AtomicU32::new(0);

/// What it costs to sleep and be woken, in ticks; 0 on a machine with one processor.
pub(super) fn wake_cost() -> u64 {
    match WAKE_COST.load(Relaxed) {
        0 => first_wake_cost(),
        ONE_PROCESSOR => 0,
        cost => cost.into(),
    }
}

/// Takes one sleep and wake-up into account. What is learnt is a low quantile, about one in nine: the others
/// waited for a processor, too, which is no cost of sleeping.
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
    // Of two threads that learn at the same time one may be lost.
    WAKE_COST.store(next.clamp(WAKE_COST_BOUNDS.0, WAKE_COST_BOUNDS.1), Relaxed);
}

#[cold]
fn first_wake_cost() -> u64 {
    let first = if processors() > 1 { WAKE_COST_FIRST } else { ONE_PROCESSOR };
    let _ = WAKE_COST.compare_exchange(0, first, Relaxed, Relaxed);
    if first == ONE_PROCESSOR { 0 } else { first.into() }
}

/// How many processors this process may use.
fn processors() -> i32 {
    if cfg!(miri) {
        return 2;
    }
    // SAFETY: the call fills in the set that it is given; zeros are an empty one.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        match libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) {
            0 => libc::CPU_COUNT(&set),
            // More processors than the set has room for.
            _ => i32::MAX,
        }
    }
}
