//! Sums over all threads, in ticks, and differences of two such sums.

use std::collections::HashMap;

use crate::histogram::Counts;
use crate::place::Place;
use crate::{Class, Kind};

/// The sum for one class and kind.
#[derive(Clone, Debug)]
pub(crate) struct Totals {
    pub(crate) class: &'static Class,
    pub(crate) kind: Kind,
    pub(crate) con_bounces: u64,
    pub(crate) acq_bounces: u64,
    /// Per waiting call site: the wait times.
    pub(crate) waiters: SiteTotals,
    /// Per holding call site: how often a thread waited for it, and the hold times.
    pub(crate) holders: SiteTotals,
}

/// Totals by call site. The key None collects the call sites for which a thread's table had no room.
pub(crate) type SiteTotals = HashMap<Option<Place>, SiteTotal>;

#[derive(Clone, Debug, Default)]
pub(crate) struct SiteTotal {
    pub(crate) awaited: u64,
    pub(crate) times: TimeTotals,
}

#[derive(Clone, Debug)]
pub(crate) struct TimeTotals {
    pub(crate) count: u64,
    /// The number of times that the measured ones represent: all, or about all if they are a random
    /// sample.
    pub(crate) weight: u64,
    /// The sum of the measured times, each multiplied by its weight.
    pub(crate) total: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) histogram: Counts,
}

impl Totals {
    pub(crate) fn new(class: &'static Class, kind: Kind) -> Self {
        Self {
            class,
            kind,
            con_bounces: 0,
            acq_bounces: 0,
            waiters: SiteTotals::new(),
            holders: SiteTotals::new(),
        }
    }

    /// Returns the increase since an earlier sum of the same class and kind; none if there is none.
    pub(crate) fn since(&self, earlier: &Self) -> Option<Self> {
        let since = Self {
            class: self.class,
            kind: self.kind,
            con_bounces: self.con_bounces.saturating_sub(earlier.con_bounces),
            acq_bounces: self.acq_bounces.saturating_sub(earlier.acq_bounces),
            waiters: sites_since(&self.waiters, &earlier.waiters),
            holders: sites_since(&self.holders, &earlier.holders),
        };
        (!since.waiters.is_empty() || !since.holders.is_empty()).then_some(since)
    }
}

fn sites_since(now: &SiteTotals, earlier: &SiteTotals) -> SiteTotals {
    let since = now.iter().filter_map(|(&place, now)| {
        let since = match earlier.get(&place) {
            Some(earlier) => now.since(earlier),
            None => now.clone(),
        };
        (since.awaited > 0 || since.times.count > 0).then_some((place, since))
    });
    since.collect()
}

impl SiteTotal {
    pub(crate) fn add(&mut self, other: &Self) {
        self.awaited += other.awaited;
        self.times.add(&other.times);
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            awaited: self.awaited.saturating_sub(earlier.awaited),
            times: self.times.since(&earlier.times),
        }
    }
}

impl Default for TimeTotals {
    fn default() -> Self {
        Self { count: 0, weight: 0, total: 0, min: u64::MAX, max: 0, histogram: Counts::default() }
    }
}

impl TimeTotals {
    pub(crate) fn sum<'a>(times: impl IntoIterator<Item = &'a TimeTotals>) -> Self {
        times.into_iter().fold(Self::default(), |mut sum, times| {
            sum.add(times);
            sum
        })
    }

    /// The sum of all times, extrapolated from the measured ones.
    pub(crate) fn whole(&self) -> f64 {
        match self.weight {
            weight if weight == self.count => self.total as f64,
            0 => 0.0,
            weight => self.total as f64 * (self.count as f64 / weight as f64),
        }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.weight += other.weight;
        self.total = self.total.wrapping_add(other.total);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.histogram.add(&other.histogram);
    }

    /// Returns the increase since an earlier sum. A new minimum or maximum is exact; otherwise it is
    /// known to within its bucket.
    fn since(&self, earlier: &Self) -> Self {
        let count = self.count.saturating_sub(earlier.count);
        let histogram = self.histogram.since(&earlier.histogram);
        let Some((lowest, highest)) = histogram.range() else {
            return Self { count, ..Self::default() };
        };
        let is_new_min = self.min < earlier.min;
        let is_new_max = self.max > earlier.max;
        Self {
            count,
            weight: self.weight.saturating_sub(earlier.weight),
            total: self.total.wrapping_sub(earlier.total),
            min: if is_new_min { self.min } else { lowest.max(self.min) },
            max: if is_new_max { self.max } else { highest.min(self.max) },
            histogram,
        }
    }
}
