//! The entries' clock, and how it is turned into the time of day.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

/// How long the rate is measured before the first line is written: two looks at the clocks are each wrong by
/// some 100 ns at most, so the rate is right to 5 × 10⁻⁵ at once, and better with each second.
const CALIBRATION: Duration = Duration::from_millis(5);

const UNDECIDED: u8 = 0;
const TSC: u8 = 1;
const MONOTONIC: u8 = 2;

static SOURCE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// Now, in units that only [`WallClock`] knows; never goes back, the same on all processors.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SOURCE.load(Relaxed) == TSC {
        use core::arch::x86_64::{_mm_lfence, _rdtsc};
        // The fence: a processor looks at its TSC ahead of time, also while the lock before it is still
        // another's. Then who has the lock later has the earlier time, now and then by some hundred ticks:
        // the tests have seen it. SAFETY: every x86-64 processor has the instructions, and the kernel uses
        // them itself (see `tsc_is_a_clock`).
        return unsafe {
            _mm_lfence();
            _rdtsc()
        };
    }
    ticks_slow()
}

#[cold]
#[inline(never)]
fn ticks_slow() -> u64 {
    monotonic_ns()
}

/// Chooses the clock. Before the first entry; later calls change nothing, so that entries stay comparable.
pub(crate) fn choose() {
    if SOURCE.load(Relaxed) == UNDECIDED {
        SOURCE.store(if tsc_is_a_clock() { TSC } else { MONOTONIC }, Relaxed);
    }
}

/// Whether the TSC runs at one rate (CPUID leaf 0x80000007, EDX bit 8) and is the same on all processors:
/// that is what Linux has checked, and goes on checking, if it takes the time from it.
#[cfg(target_arch = "x86_64")]
fn tsc_is_a_clock() -> bool {
    let leaf = 0x8000_0007;
    let known = core::arch::x86_64::__cpuid(0x8000_0000).eax >= leaf;
    let invariant = known && core::arch::x86_64::__cpuid(leaf).edx & 1 << 8 != 0;
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    invariant && fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc_is_a_clock() -> bool {
    false
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `now` only. The clock exists, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

/// Three clocks at one moment.
#[derive(Clone, Copy)]
struct Moment {
    ticks: u64,
    monotonic_ns: u64,
    wall_ns: u64,
}

impl Moment {
    /// Of several looks, the one during which the least time passed.
    fn now() -> Self {
        let look = || {
            let before = ticks();
            let (monotonic_ns, wall_ns) = (monotonic_ns(), wall_ns());
            let took = ticks().saturating_sub(before);
            (took, Self { ticks: before + took / 2, monotonic_ns, wall_ns })
        };
        let looks = [look(), look(), look()];
        looks.into_iter().min_by_key(|(took, _)| *took).map_or_else(|| look().1, |(_, moment)| moment)
    }
}

/// Turns ticks into the time of day.
///
/// The rate is the ticks' against the monotonic clock, since the beginning; the offset is that of the last
/// look. So a change of the system's time is followed, and does not spoil the rate.
pub(crate) struct WallClock {
    begun: Moment,
    last: Moment,
    ns_per_tick: f64,
    /// The newest time that was told, so that none steps back by the little that the rate is corrected by.
    told_ns: u64,
}

/// A step back that is smaller than this is not the system's time being set.
const STEP_NS: u64 = 1_000_000;

impl WallClock {
    /// Takes [`CALIBRATION`].
    pub(crate) fn calibrate() -> Self {
        let begun = Moment::now();
        thread::sleep(CALIBRATION);
        let mut clock = Self { begun, last: begun, ns_per_tick: 1.0, told_ns: 0 };
        clock.look();
        clock
    }

    /// Looks at the clocks again. The result is now, in ticks.
    pub(crate) fn look(&mut self) -> u64 {
        self.last = Moment::now();
        let ticks = self.last.ticks.saturating_sub(self.begun.ticks).max(1);
        let ns = self.last.monotonic_ns.saturating_sub(self.begun.monotonic_ns);
        self.ns_per_tick = ns as f64 / ticks as f64;
        self.last.ticks
    }

    /// Nanoseconds in ticks.
    pub(crate) fn ticks_of(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.ns_per_tick) as u64
    }

    /// Nanoseconds since 1970.
    pub(crate) fn wall_ns(&mut self, ticks: u64) -> u64 {
        let since_last = ticks.wrapping_sub(self.last.ticks) as i64;
        let ns = self.last.wall_ns.saturating_add_signed((since_last as f64 * self.ns_per_tick) as i64);
        let corrected = ns < self.told_ns && self.told_ns - ns < STEP_NS;
        self.told_ns = if corrected { self.told_ns } else { ns };
        self.told_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_time_of_day() {
        choose();
        let mut clock = WallClock::calibrate();
        let (before, ticks, after) = (wall_ns(), ticks(), wall_ns());
        clock.look();
        let told = clock.wall_ns(ticks);
        // Three clocks, of which one may be slewed: a microsecond and a little more.
        assert!(told + 100_000 >= before && told <= after + 100_000, "{before} {told} {after}");
    }

    #[test]
    fn who_has_a_lock_later_has_the_later_time() {
        choose();
        let last = std::sync::Mutex::new(0);
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200_000 {
                        let mut last = last.lock().expect("no thread panics before");
                        let now = ticks();
                        assert!(now >= *last, "{now} after {last}");
                        *last = now;
                    }
                });
            }
        });
    }

    #[test]
    fn no_time_is_told_before_an_earlier_one() {
        choose();
        let mut clock = WallClock::calibrate();
        let now = ticks();
        let told = clock.wall_ns(now);
        assert_eq!(clock.wall_ns(now - clock.ticks_of(Duration::from_micros(10))), told);
        let earlier = clock.wall_ns(now - clock.ticks_of(Duration::from_secs(2)));
        assert!(told - earlier > 1_900_000_000, "the system's time was set back");
    }
}
