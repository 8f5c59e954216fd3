//! The clock of the entries, and its conversion to the time of day.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

/// The time for which the rate is measured before the first line is written. Two readings of the clocks
/// are each wrong by at most some 100 ns, so the rate is accurate to 5 × 10⁻⁵ at once, and becomes more
/// accurate each second.
const CALIBRATION: Duration = Duration::from_millis(5);

const UNDECIDED: u8 = 0;
const TSC: u8 = 1;
const MONOTONIC: u8 = 2;

static SOURCE: AtomicU8 = AtomicU8::new(UNDECIDED);

/// The current time, in units that only [`WallClock`] can convert. Monotonic, and the same on all
/// processors.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if SOURCE.load(Relaxed) == TSC {
        use core::arch::x86_64::{_mm_lfence, _rdtsc};
        // The fence: a processor may read its TSC early, even while another thread still holds the lock
        // that precedes the reading. Then the later holder of the lock has the earlier time,
        // occasionally by some hundred ticks; the tests have observed this. SAFETY: every x86-64
        // processor has the instructions, and the kernel uses them itself (see `tsc_is_a_clock`).
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

/// Chooses the clock. Called before the first entry; later calls change nothing, so that entries stay
/// comparable.
pub(crate) fn choose() {
    if SOURCE.load(Relaxed) == UNDECIDED {
        SOURCE.store(if tsc_is_a_clock() { TSC } else { MONOTONIC }, Relaxed);
    }
}

/// Whether the TSC runs at one rate (CPUID leaf 0x80000007, EDX bit 8) and is the same on all
/// processors. Linux checks both, and keeps checking, if it takes the time from the TSC.
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
    // SAFETY: writes only to `now`. The clock exists, so the call cannot fail.
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
    /// Reads the clocks several times, and returns the reading that took the least time.
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

/// Converts ticks to the time of day.
///
/// The rate is that of the ticks against the monotonic clock since the beginning; the offset is that of
/// the last reading. So the conversion follows a change of the system's time, which does not affect the
/// rate.
pub(crate) struct WallClock {
    begun: Moment,
    last: Moment,
    ns_per_tick: f64,
    /// The newest returned time, so that none steps back by the small corrections of the rate.
    told_ns: u64,
}

/// A step back smaller than this is not a change of the system's time.
const STEP_NS: u64 = 1_000_000;

impl WallClock {
    /// Starts the clock. Takes [`CALIBRATION`].
    pub(crate) fn calibrate() -> Self {
        let begun = Moment::now();
        thread::sleep(CALIBRATION);
        let mut clock = Self { begun, last: begun, ns_per_tick: 1.0, told_ns: 0 };
        clock.look();
        clock
    }

    /// Reads the clocks again. Returns the current time in ticks.
    pub(crate) fn look(&mut self) -> u64 {
        self.last = Moment::now();
        let ticks = self.last.ticks.saturating_sub(self.begun.ticks).max(1);
        let ns = self.last.monotonic_ns.saturating_sub(self.begun.monotonic_ns);
        self.ns_per_tick = ns as f64 / ticks as f64;
        self.last.ticks
    }

    /// Converts a duration to ticks.
    pub(crate) fn ticks_of(&self, time: Duration) -> u64 {
        (time.as_nanos() as f64 / self.ns_per_tick) as u64
    }

    /// Converts ticks to nanoseconds since 1970. A small step back returns the newest earlier result
    /// instead.
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
        // Three clocks, and one may be slewed: a difference of little more than a microsecond is
        // normal.
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
