//! Two properties of the machine: the time, and the processor on which the thread runs.
//!
//! Time is counted in ticks of the cheapest available clock. On x86-64 with an invariant time-stamp
//! counter (CPUID 0x80000007, EDX bit 8: it runs at one rate in all power states) this is that counter,
//! some 10 ns per reading; elsewhere it is `CLOCK_MONOTONIC` in nanoseconds. Ticks are converted to
//! nanoseconds only in reports, by [`ns_per_tick`].
//!
//! On such a processor its number is cheap too: Linux keeps it in the low twelve bits of TSC_AUX. RDPID
//! reads TSC_AUX in 2 ns; the older RDTSCP reads it together with the counter.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Returns the time in ticks. Readings on different processors may be some tens of ticks apart, so
/// differences saturate.
#[inline]
pub(crate) fn now() -> u64 {
    match source() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction.
        Source::Counter | Source::CounterWithPid => unsafe { std::arch::x86_64::_rdtsc() },
        _ => monotonic_ns(),
    }
}

/// Returns the time in ticks and the processor on which this thread runs; 0 if the processor cannot be
/// determined.
#[inline]
pub(crate) fn now_and_cpu() -> (u64, u32) {
    match source() {
        #[cfg(target_arch = "x86_64")]
        Source::Counter => {
            let mut aux = 0;
            // SAFETY: `choose_source` has checked that the processor has the instruction.
            let ticks = unsafe { std::arch::x86_64::__rdtscp(&mut aux) };
            (ticks, aux & 0xfff)
        }
        #[cfg(target_arch = "x86_64")]
        Source::CounterWithPid => (now(), rdpid()),
        _ => (monotonic_ns(), cpu()),
    }
}

/// Returns the processor on which this thread runs, numbered as by [`now_and_cpu`], without reading the
/// clock if possible.
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
    // SAFETY: only called where `choose_source` has checked that the processor has the instruction,
    // which changes only its output register.
    unsafe {
        std::arch::asm!("rdpid {}", out(reg) aux, options(nomem, nostack, preserves_flags));
    }
    aux as u32 & 0xfff
}

/// Nanoseconds per tick. Constant in a process, so that a sum that grows in ticks grows in reports. The
/// first call may take [`BASE_MIN`].
pub(crate) fn ns_per_tick() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    match source() {
        Source::Counter | Source::CounterWithPid => *RATE.get_or_init(measure_rate),
        _ => 1.0,
    }
}

/// Returns the moment at which the clock showed `ticks`, accurate to about a microsecond for each second
/// since the first reading.
pub(crate) fn instant_of(ticks: u64) -> Instant {
    let (first_ticks, first) = first_reading();
    let ns = |ticks: u64| Duration::from_nanos((ticks as f64 * ns_per_tick()) as u64);
    match ticks.checked_sub(first_ticks) {
        Some(since) => first + ns(since),
        None => first.checked_sub(ns(first_ticks - ticks)).unwrap_or(first),
    }
}

/// Begins the measurement of the clock's rate if it has not begun: the earlier, the more accurate.
pub(crate) fn anchor() {
    first_reading();
}

/// The source of ticks.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Source {
    Unknown = 0,
    /// The processor's time-stamp counter.
    Counter = 1,
    /// `CLOCK_MONOTONIC`.
    System = 2,
    /// The processor's time-stamp counter, and RDPID.
    CounterWithPid = 3,
}

static SOURCE: AtomicU8 = AtomicU8::new(Source::Unknown as u8);

#[inline]
fn source() -> Source {
    // Relaxed: it publishes nothing else, and a thread that reads 0 determines the same value again.
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
    // Miri has one processor and does not support the call.
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: takes no argument and accesses no memory of this process.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// Both clocks are compared over at least this time: a reading is accurate to some 50 ns, so the rate to
/// 1 in 100,000.
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

/// Reads both clocks at one moment: of several tries, the one with the least time between the readings.
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
        // The thread may be preempted between the two pairs of readings; only the rate is tested here.
        assert!(
            ns > 0.5 * elapsed.as_nanos() as f64 && ns < 2.0 * elapsed.as_nanos() as f64,
            "{ns} {elapsed:?}"
        );
    }

    #[cfg(not(miri))]
    #[test]
    fn both_ways_name_the_same_processor() {
        // The thread may migrate in between, but not each time.
        assert!((0..1000).any(|_| {
            let before = cpu();
            let (_, cpu) = now_and_cpu();
            before == cpu
        }));
        assert!((0..1000).any(|_| cpu() == cpu_only()));
    }
}
