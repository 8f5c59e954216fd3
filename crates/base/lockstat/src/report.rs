//! The report: as text in the columns of `/proc/lock_stat`, as JSON and for Prometheus.

mod json;
mod prometheus;
mod text;

use std::time::Duration;

use crate::totals::{SiteTotal, SiteTotals, TimeTotals, Totals};
use crate::{Class, Kind, Mode, clock, counters, mode};

/// The measurements of this process's locks since its start or the last [`reset`](crate::reset).
///
/// Threads continue to count while the report is made, so sums in different columns may be a few
/// acquisitions apart.
#[derive(Clone, Debug)]
pub struct Report {
    /// The mode at the time of the report. Acquisitions are complete only if the mode was always at least
    /// [`Mode::Full`], hold times only if it was always [`Mode::Exact`].
    pub mode: Mode,
    /// One entry for each class and kind with counts, the most contended first.
    pub classes: Vec<ClassReport>,
    /// The names of classes that have been used but have no counts.
    pub quiet: Vec<&'static str>,
    /// The sums behind this report, for [`Report::since`].
    totals: Vec<Totals>,
    /// The number of calls of [`reset`](crate::reset) before this report.
    period: u32,
}

/// The figures of one class for one way of taking its locks.
#[derive(Clone, Debug)]
pub struct ClassReport {
    /// The class's name.
    pub name: &'static str,
    /// The way in which the locks were taken.
    pub kind: Kind,
    /// How often a thread had to wait.
    pub contentions: u64,
    /// How often a thread waited for a lock that had last been taken on another processor, as far as
    /// this was measured.
    pub con_bounces: u64,
    /// How often a lock was taken; counted from [`Mode::Full`] on.
    pub acquisitions: u64,
    /// How often a lock was taken that had last been taken on another processor; counted from
    /// [`Mode::Full`] on.
    pub acq_bounces: u64,
    /// The wait times.
    pub wait: Times,
    /// The hold times; measured from [`Mode::Full`] on.
    pub hold: Times,
    /// Call sites that waited, the longest in total first. `count`: the waits; `total_ns`: their sum;
    /// `times`: a summary of them.
    pub waiters: Vec<Site>,
    /// Call sites that held the lock, the most waited for first. `count`: how often a thread waited for
    /// a holder from this call site; `total_ns`: how long it held the lock (from [`Mode::Full`] on);
    /// `times`: a summary of these holds.
    pub holders: Vec<Site>,
}

/// A summary of times in nanoseconds; all zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The number of times.
    pub count: u64,
    /// The shortest time.
    pub min_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// The sum of the times. For holds in [`Mode::Full`], this and all other fields but `count` are
    /// based on the timed holds, and are 0 if none was timed.
    pub total_ns: u64,
    /// The median; accurate to within a quarter.
    pub p50_ns: u64,
    /// The 99th percentile; accurate to within a quarter.
    pub p99_ns: u64,
}

/// A call site that takes a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The source file, as given to the compiler.
    pub file: &'static str,
    /// The line in that file, from 1.
    pub line: u32,
    /// How often; its meaning depends on the list that contains the site.
    pub count: u64,
    /// The total time; its meaning depends on the list that contains the site.
    pub total_ns: u64,
    /// The times waited or held at this call site.
    pub times: Times,
}

/// Reports the measurements so far. The first report of a process may take 10 ms, in which the clock's
/// rate is measured.
pub fn report() -> Report {
    let (period, totals) = counters::snapshot();
    Report::draw_up(mode(), period, totals)
}

impl Report {
    fn draw_up(mode: Mode, period: u32, totals: Vec<Totals>) -> Self {
        let mut classes: Vec<ClassReport> = totals.iter().map(ClassReport::from).collect();
        classes.retain(|class| !class.waiters.is_empty() || !class.holders.is_empty());
        classes.sort_by(|a, b| {
            (b.contentions, b.acquisitions, a.name).cmp(&(a.contentions, a.acquisitions, b.name))
        });
        let is_quiet = |name: &&'static str| !classes.iter().any(|c| c.name == *name);
        let mut quiet: Vec<&'static str> = Class::all().map(Class::name).filter(is_quiet).collect();
        quiet.sort_unstable();
        quiet.dedup();
        Self { mode, classes, quiet, totals, period }
    }

    /// Returns the measurements since an earlier report of this process. If [`reset`](crate::reset) was
    /// called in between, returns a copy of this report.
    ///
    /// The shortest and the longest time are accurate to within a quarter unless they are new extremes, which
    /// are exact. Percentiles are accurate to within a quarter.
    pub fn since(&self, earlier: &Report) -> Report {
        if earlier.period != self.period {
            return self.clone();
        }
        let totals = self.totals.iter().filter_map(|now| {
            let before =
                earlier.totals.iter().find(|e| std::ptr::eq(e.class, now.class) && e.kind == now.kind);
            before.map_or_else(|| Some(now.clone()), |before| now.since(before))
        });
        Self::draw_up(self.mode, self.period, totals.collect())
    }

    /// The sum of all waits of all threads for all locks.
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.classes.iter().map(|class| class.wait.total_ns).sum())
    }

    /// The figures of a class for its exclusive or writing acquisitions, if there are any.
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|c| c.name == name && c.kind != Kind::Read)
    }

    /// Formats the report with the columns and layout of `/proc/lock_stat`, times in microseconds;
    /// columns with percentiles follow.
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// Formats the report as one JSON object; the keys are the field names of [`Report`] and of the
    /// types in it.
    pub fn to_json(&self) -> String {
        json::render(self)
    }

    /// Formats the report in the text format of Prometheus (exposition format 0.0.4): counters and two
    /// summaries per class and kind, times in seconds.
    pub fn to_prometheus(&self) -> String {
        prometheus::render(self)
    }
}

impl Times {
    /// The mean; 0 if there are no times.
    pub fn avg_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }
}

impl From<&Totals> for ClassReport {
    fn from(totals: &Totals) -> Self {
        let wait = TimeTotals::sum(totals.waiters.values().map(|site| &site.times));
        let hold = TimeTotals::sum(totals.holders.values().map(|site| &site.times));
        Self {
            name: totals.class.name(),
            kind: totals.kind,
            contentions: wait.count,
            con_bounces: totals.con_bounces,
            acquisitions: hold.count,
            acq_bounces: totals.acq_bounces,
            wait: Times::from(&wait),
            hold: Times::from(&hold),
            waiters: sites(&totals.waiters, |total| total.times.count, |site| (site.total_ns, site.count)),
            holders: sites(&totals.holders, |total| total.awaited, |site| (site.count, site.total_ns)),
        }
    }
}

impl From<&TimeTotals> for Times {
    fn from(totals: &TimeTotals) -> Self {
        if totals.count == 0 {
            return Self::default();
        }
        let ns_per_tick = clock::ns_per_tick();
        let ns = |ticks: u64| (ticks as f64 * ns_per_tick) as u64;
        // A bucket's upper end may be greater than the longest time in it.
        let quantile =
            |part| ns(totals.histogram.quantile(part).clamp(totals.min.min(totals.max), totals.max));
        Self {
            count: totals.count,
            min_ns: ns(totals.min.min(totals.max)),
            max_ns: ns(totals.max),
            total_ns: (totals.whole() * ns_per_tick) as u64,
            p50_ns: quantile(0.50),
            p99_ns: quantile(0.99),
        }
    }
}

fn sites(
    totals: &SiteTotals,
    count: impl Fn(&SiteTotal) -> u64,
    order: impl Fn(&Site) -> (u64, u64),
) -> Vec<Site> {
    let known = totals.iter().filter_map(|(place, total)| Some(((*place)?, total)));
    let mut sites: Vec<Site> = known
        .map(|(place, total)| {
            let times = Times::from(&total.times);
            let (file, line) = (place.file(), place.line());
            Site { file, line, count: count(total), total_ns: times.total_ns, times }
        })
        .collect();
    sites.sort_by(|a, b| order(b).cmp(&order(a)).then_with(|| (a.file, a.line).cmp(&(b.file, b.line))));
    sites
}
