//! Clocks, counters and distributions.

use std::time::Duration;

use hdrhistogram::Histogram;
use loligo_lockstat::ClassReport;
use rustix::time::{ClockId, clock_gettime};

/// Upper bound of recorded times, 100 s: longer ones are recorded as this.
const NS_MAX: u64 = 100_000_000_000;

/// A distribution of times, with two significant digits.
#[derive(Clone, Debug)]
pub struct Spread(Histogram<u64>);

impl Spread {
    /// Creates an empty distribution.
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, NS_MAX, 2).expect("bounds and digits are valid"))
    }

    /// Adds a time.
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(NS_MAX));
    }

    /// Adds all times of another distribution.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all spreads have the same bounds");
    }

    /// Returns whether no time was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that `part` (0 to 1) of all times do not exceed, in nanoseconds; 0 if there are none.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        self.0.value_at_quantile(part)
    }

    /// The mean in nanoseconds; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.0.mean()
    }

    /// The longest time in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.0.max()
    }
}

/// CPU time that the calling thread has used.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The locks of this process with waits since the last [`loligo_lockstat::reset`], the largest total
/// wait first.
pub(crate) fn waited_for() -> Vec<ClassReport> {
    let mut classes = loligo_lockstat::report().classes;
    classes.retain(|class| class.contentions > 0);
    classes.sort_by_key(|class| std::cmp::Reverse(class.wait.total_ns));
    classes
}

/// The waits for a set of locks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits {
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    pub(crate) max_ns: u64,
}

impl Waits {
    /// The sum over the classes whose name begins with one of `names`.
    pub(crate) fn of(locks: &[ClassReport], names: &[&str]) -> Self {
        let wanted = |class: &&ClassReport| names.iter().any(|name| class.name.starts_with(name));
        locks.iter().filter(wanted).fold(Self::default(), |sum, class| Self {
            count: sum.count + class.contentions,
            total_ns: sum.total_ns + class.wait.total_ns,
            max_ns: sum.max_ns.max(class.wait.max_ns),
        })
    }

    /// The mean wait; 0 without waits.
    pub(crate) fn avg_us(self) -> f64 {
        self.total_ns as f64 / self.count.max(1) as f64 / 1e3
    }

    /// The longest wait.
    pub(crate) fn max_us(self) -> f64 {
        self.max_ns as f64 / 1e3
    }

    /// The total wait, scaled to a million requests.
    pub(crate) fn total_ms_per_million(self, requests: u64) -> f64 {
        self.total_ns as f64 / requests.max(1) as f64
    }

    /// The number of waits, scaled to a million requests.
    pub(crate) fn count_per_million(self, requests: u64) -> f64 {
        self.count as f64 * 1e6 / requests.max(1) as f64
    }
}

/// The median: the mean of the two middle values if their number is even, 0 if there are none.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }

    #[test]
    fn a_spread_tells_quantiles_and_the_longest() {
        let mut spread = Spread::new();
        (1..=100).for_each(|us| spread.add(Duration::from_micros(us)));
        let mut other = Spread::new();
        other.add(Duration::from_secs(1000));
        spread.merge(&other);
        assert_eq!(spread.count(), 101);
        let p50 = spread.quantile_ns(0.5);
        assert!((50_000..53_000).contains(&p50), "{p50}");
        assert!(spread.max_ns() >= NS_MAX, "what is longer counts as the longest that is told apart");
    }

    #[test]
    fn a_working_thread_uses_its_processor() {
        let before = thread_cpu();
        let mut n = 1u64;
        while thread_cpu() == before {
            n = std::hint::black_box(n.wrapping_mul(3));
        }
        assert!(thread_cpu() > before);
    }
}
