//! The report: text in the columns of `/proc/lock_stat`, JSON and Prometheus.

mod json;
mod prometheus;
mod text;

use std::time::Duration;

use crate::totals::{SiteTotal, SiteTotals, TimeTotals, Totals};
use crate::{Class, Kind, Mode, clock, counters, mode};

/// What the locks of this process have measured since the start or the last [`reset`](crate::reset).
///
/// Threads go on counting while it is drawn up, so sums of different columns may be a few acquisitions apart.
#[derive(Clone, Debug)]
pub struct Report {
    /// The mode at the time of the report. Acquisitions and hold times are complete only if it was
    /// [`Mode::Exact`] all along.
    pub mode: Mode,
    /// One entry for each class and kind of which there is something to tell, the most contended first.
    pub classes: Vec<ClassReport>,
    /// Names of the classes that were met at some time, but of which there is nothing to tell.
    pub quiet: Vec<&'static str>,
    /// What all this was drawn from, for [`Report::since`].
    totals: Vec<Totals>,
    /// Counts the calls of [`reset`](crate::reset) before this report.
    period: u32,
}

/// One class's figures for one way of taking its locks.
#[derive(Clone, Debug)]
pub struct ClassReport {
    /// The class's name.
    pub name: &'static str,
    /// In which way the locks were taken.
    pub kind: Kind,
    /// How often a thread had to wait.
    pub contentions: u64,
    /// How often it waited for a lock that had last been taken (as far as that was being watched) on another
    /// processor.
    pub con_bounces: u64,
    /// How often a lock was taken; counted from [`Mode::Full`] on.
    pub acquisitions: u64,
    /// How often a lock was taken that had last been taken on another processor; counted from [`Mode::Full`]
    /// on.
    pub acq_bounces: u64,
    /// The times waited.
    pub wait: Times,
    /// The times held; measured from [`Mode::Full`] on.
    pub hold: Times,
    /// Places that waited, the longest in total first. `count` waits took `total_ns`; `times` says more of
    /// them.
    pub waiters: Vec<Site>,
    /// Places that held the lock: `count` times somebody waited for it; they held it for `total_ns` (in
    /// [`Mode::Full`]), of which `times` says more. Those most waited for come first.
    pub holders: Vec<Site>,
}

/// A summary of times in nanoseconds; all zero if there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Their sum. As all that follows and the two before, of holds in [`Mode::Full`] it is made from those
    /// that were timed, and 0 if none was.
    pub total_ns: u64,
    /// Half of them took no longer than this; right to within a quarter.
    pub p50_ns: u64,
    /// 99 of 100 took no longer than this; right to within a quarter.
    pub p99_ns: u64,
}

/// A place in the source that takes a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// Source file, as the compiler was given it.
    pub file: &'static str,
    /// Line in that file, from 1.
    pub line: u32,
    /// How often; see the list it stands in.
    pub count: u64,
    /// How long in sum; see the list it stands in.
    pub total_ns: u64,
    /// The times waited or held here.
    pub times: Times,
}

/// Draws up what was measured so far. The first report of a process may take 10 ms, in which the clock's rate
/// is measured.
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

    /// What has been measured since an earlier report of this process: this one itself, if everything was
    /// [`reset`](crate::reset) in between.
    ///
    /// The shortest and the longest time are right to within a quarter, unless they are records. So are
    /// percentiles, as always.
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

    /// What all threads have waited for all locks, together.
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.classes.iter().map(|class| class.wait.total_ns).sum())
    }

    /// The figures of a class, if there are any: those of its exclusive or its writing acquisitions.
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|c| c.name == name && c.kind != Kind::Read)
    }

    /// The columns and layout of `/proc/lock_stat`, times in microseconds; the percentiles stand behind its
    /// columns.
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// One JSON object; the keys are the field names of [`Report`] and the types it is made of.
    pub fn to_json(&self) -> String {
        json::render(self)
    }

    /// The text format of Prometheus (exposition format 0.0.4): per class and kind counters and two
    /// summaries, times in seconds.
    pub fn to_prometheus(&self) -> String {
        prometheus::render(self)
    }
}

impl Times {
    /// The mean; 0 if there were none.
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
        // A bucket's end may lie beyond the longest time it holds.
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
