//! The two facts that are asked of the machine: what time it is and which processor this is.
//!
//! Time is counted in ticks of the cheapest clock there is: on x86-64 with an invariant time-stamp counter
//! (CPUID 0x80000007, EDX bit 8: it runs at one rate in all power states) that counter, some 10 ns a reading;
//! elsewhere `CLOCK_MONOTONIC` in nanoseconds. Ticks become nanoseconds only in reports, by [`ns_per_tick`].
//!
//! On such a processor its number costs little, too: Linux keeps it in the low twelve bits of TSC_AUX, which
//! RDPID reads in 2 ns, and RDTSCP, the older one, along with the counter.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time in ticks. Readings of different processors may be some tens of ticks apart, so differences
/// saturate.
#[inline]
pub(crate) fn now() -> u64 {
    match source() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction.
        Source::Counter | Source::CounterWithPid => unsafe { std::arch::x86_64::_rdtsc() },
        _ => monotonic_ns(),
    }
}

/// The time in ticks, and the processor this thread runs on; 0 where that cannot be known.
#[inline]
pub(crate) fn now_and_cpu() -> (u64, u32) {
    match source() {
        #[cfg(target_arch = "x86_64")]
        Source::Counter => {
            let mut aux = 0;
            // SAFETY: `choose_source` has seen that the processor has the instruction.
            let ticks = unsafe { std::arch::x86_64::__rdtscp(&mut aux) };
            (ticks, aux & 0xfff)
        }
        #[cfg(target_arch = "x86_64")]
        Source::CounterWithPid => (now(), rdpid()),
        _ => (monotonic_ns(), cpu()),
    }
}

/// The processor this thread runs on, as [`now_and_cpu`] says it, without a reading of the clock where there
/// is a way.
#[inline]
pub(crate) fn cpu_only() -> u32 {
    match source() {
        #[cfg(target_arch = "x86_64")]
        Source::CounterWithPid => rdpid(),
        _ => now_and_cpu().1,
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn rdpid() -> u32 {
    let aux: u64;
    // SAFETY: only called where `choose_source` has seen that the processor has the instruction; it changes
    // nothing but its register.
    unsafe {
        std::arch::asm!("rdpid {}", out(reg) aux, options(nomem, nostack, preserves_flags));
    }
    aux as u32 & 0xfff
}

/// Nanoseconds in a tick; the same as long as the process lives, so that what grows in ticks grows in
/// reports. The first call may take [`BASE_MIN`].
pub(crate) fn ns_per_tick() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    match source() {
        Source::Counter | Source::CounterWithPid => *RATE.get_or_init(measure_rate),
        _ => 1.0,
    }
}

/// The moment at which the clock showed `ticks`, to about a microsecond for each second since the first
/// reading.
pub(crate) fn instant_of(ticks: u64) -> Instant {
    let (first_ticks, first) = first_reading();
    let ns = |ticks: u64| Duration::from_nanos((ticks as f64 * ns_per_tick()) as u64);
    match ticks.checked_sub(first_ticks) {
        Some(since) => first + ns(since),
        None => first.checked_sub(ns(first_ticks - ticks)).unwrap_or(first),
    }
}

/// Begins the measurement of the clock's rate, unless that has been done: the earlier, the better.
pub(crate) fn anchor() {
    first_reading();
}

/// What ticks.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Source {
    Unknown = 0,
    /// The processor's counter.
    Counter = 1,
    /// `CLOCK_MONOTONIC`.
    System = 2,
    /// The processor's counter, and RDPID.
    CounterWithPid = 3,
}

static SOURCE: AtomicU8 = AtomicU8::new(Source::Unknown as u8);

#[inline]
fn source() -> Source {
    // Relaxed: nothing is published with it, and whoever sees 0 finds the same answer again.
    match SOURCE.load(Ordering::Relaxed) {
        1 => Source::Counter,
        2 => Source::System,
        3 => Source::CounterWithPid,
        _ => choose_source(),
    }
}

#[cold]
fn choose_source() -> Source {
    let source = kind_of_counter().unwrap_or(Source::System);
    SOURCE.store(source as u8, Ordering::Relaxed);
    source
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn kind_of_counter() -> Option<Source> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const INVARIANT_TSC: u32 = 1 << 8;
    const RDTSCP: u32 = 1 << 27;
    const RDPID: u32 = 1 << 22;
    let has_counter = __cpuid(0x8000_0000).eax >= 0x8000_0007
        && __cpuid(0x8000_0001).edx & RDTSCP != 0
        && __cpuid(0x8000_0007).edx & INVARIANT_TSC != 0;
    let has_rdpid = __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & RDPID != 0;
    has_counter.then_some(if has_rdpid { Source::CounterWithPid } else { Source::Counter })
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn kind_of_counter() -> Option<Source> {
    None
}

fn monotonic_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

fn cpu() -> u32 {
    // Miri has one processor, and no such call.
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: takes no argument and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// Both clocks are compared over at least this long: a reading is good to some 50 ns, so the rate to 1 in
/// 100,000.
const BASE_MIN: Duration = Duration::from_millis(10);

fn first_reading() -> (u64, Instant) {
    static FIRST: OnceLock<(u64, Instant)> = OnceLock::new();
    *FIRST.get_or_init(both_clocks)
}

fn measure_rate() -> f64 {
    let (first_ticks, first) = first_reading();
    thread::sleep(BASE_MIN.saturating_sub(first.elapsed()));
    let (ticks, now) = both_clocks();
    now.duration_since(first).as_nanos() as f64 / ticks.saturating_sub(first_ticks).max(1) as f64
}

/// Both clocks at one moment: of several tries the one in which the least time passed in between.
fn both_clocks() -> (u64, Instant) {
    let tries = (0..5).map(|_| {
        let before = now();
        let instant = Instant::now();
        let width = now().saturating_sub(before);
        (width, before + width / 2, instant)
    });
    let best = tries.min_by_key(|&(width, ..)| width);
    best.map_or_else(|| (now(), Instant::now()), |(_, ticks, instant)| (ticks, instant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        anchor();
        let (began, instant) = (now(), Instant::now());
        thread::sleep(Duration::from_millis(if cfg!(miri) { 1 } else { 30 }));
        let (ticks, elapsed) = (now() - began, instant.elapsed());
        let ns = ticks as f64 * ns_per_tick();
        // Between the two pairs of readings the thread may lose its processor; the rate is what is tested
        // here.
        assert!(
            ns > 0.5 * elapsed.as_nanos() as f64 && ns < 2.0 * elapsed.as_nanos() as f64,
            "{ns} {elapsed:?}"
        );
    }

    #[cfg(not(miri))]
    #[test]
    fn both_ways_name_the_same_processor() {
        // The thread may move in between, but not each time.
        assert!((0..1000).any(|_| {
            let before = cpu();
            let (_, cpu) = now_and_cpu();
            before == cpu
        }));
        assert!((0..1000).any(|_| cpu() == cpu_only()));
    }
}
