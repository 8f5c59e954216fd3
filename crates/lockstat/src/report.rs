mod json;
mod text;

use crate::counters::{self, SiteTotals, TimeTotals, Totals};
use crate::{Class, Mode, mode};

/// What the locks of this process have measured since the start or the last [`reset`](crate::reset).
///
/// Threads go on counting while it is drawn up, so sums of different columns may be a few acquisitions apart.
#[derive(Clone, Debug)]
pub struct Report {
    /// The mode at the time of the report. Acquisitions and hold times are complete only if it was [`Mode::Full`] all
    /// along.
    pub mode: Mode,
    /// One entry for each class and kind of which there is something to tell, the most contended first.
    pub classes: Vec<ClassReport>,
    /// Names of the classes that were met at some time, but of which there is nothing to tell.
    pub quiet: Vec<&'static str>,
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
    /// How often a lock was taken; counted in [`Mode::Full`] only.
    pub acquisitions: u64,
    /// How often a lock was taken that had last been taken on another processor; counted in [`Mode::Full`] only.
    pub acq_bounces: u64,
    /// The times waited.
    pub wait: Times,
    /// The times held; measured in [`Mode::Full`] only.
    pub hold: Times,
    /// Places that waited, the longest in total first. `count` waits took `total_ns`.
    pub waiters: Vec<Site>,
    /// Places that held the lock: `count` times somebody waited for it; they held it for `total_ns` (in
    /// [`Mode::Full`]). Those most waited for come first.
    pub holders: Vec<Site>,
}

/// In which way a lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A lock that has no other way.
    Exclusive,
    /// An [`RwLock`](crate::RwLock), to write.
    Write,
    /// An [`RwLock`](crate::RwLock), to read.
    Read,
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
    /// Their sum.
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
}

/// Draws up what was measured so far.
pub fn report() -> Report {
    let mut classes: Vec<ClassReport> = counters::totals().into_iter().map(ClassReport::from).collect();
    classes.sort_by(|a, b| {
        (b.contentions, b.acquisitions, a.name).cmp(&(a.contentions, a.acquisitions, b.name))
    });
    let is_quiet = |name: &&'static str| !classes.iter().any(|c| c.name == *name);
    let mut quiet: Vec<&'static str> = Class::all().map(Class::name).filter(is_quiet).collect();
    quiet.sort_unstable();
    Report { mode: mode(), classes, quiet }
}

impl Report {
    /// The figures of a class, if there are any: those of its exclusive or its writing acquisitions.
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|c| c.name == name && c.kind != Kind::Read)
    }

    /// The columns and layout of `/proc/lock_stat`, times in microseconds; the percentiles stand behind its columns.
    pub fn to_text(&self) -> String {
        text::render(self)
    }

    /// One JSON object; the keys are the field names of [`Report`] and the types it is made of.
    pub fn to_json(&self) -> String {
        json::render(self)
    }
}

impl Kind {
    /// `exclusive`, `write` or `read`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exclusive => "exclusive",
            Kind::Write => "write",
            Kind::Read => "read",
        }
    }
}

impl Times {
    /// The mean; 0 if there were none.
    pub fn avg_ns(&self) -> u64 {
        self.total_ns.checked_div(self.count).unwrap_or(0)
    }
}

impl From<Totals> for ClassReport {
    fn from(totals: Totals) -> Self {
        Self {
            name: totals.class.name(),
            kind: totals.kind,
            contentions: totals.contentions,
            con_bounces: totals.con_bounces,
            acquisitions: totals.acquisitions,
            acq_bounces: totals.acq_bounces,
            wait: Times::from(&totals.wait),
            hold: Times::from(&totals.hold),
            waiters: sites(&totals.waiters, |site| (site.total_ns, site.count)),
            holders: sites(&totals.holders, |site| (site.count, site.total_ns)),
        }
    }
}

impl From<&TimeTotals> for Times {
    fn from(totals: &TimeTotals) -> Self {
        if totals.count == 0 {
            return Self::default();
        }
        // A bucket's end may lie beyond the longest time it holds.
        let quantile = |part| totals.histogram.quantile(part).min(totals.max_ns);
        Self {
            count: totals.count,
            min_ns: totals.min_ns.min(totals.max_ns),
            max_ns: totals.max_ns,
            total_ns: totals.total_ns,
            p50_ns: quantile(0.50),
            p99_ns: quantile(0.99),
        }
    }
}

fn sites(totals: &SiteTotals, order: impl Fn(&Site) -> (u64, u64)) -> Vec<Site> {
    let mut sites: Vec<Site> = totals
        .iter()
        .map(|(place, &(count, total_ns))| Site { file: place.file(), line: place.line(), count, total_ns })
        .collect();
    sites.sort_by(|a, b| order(b).cmp(&order(a)).then_with(|| (a.file, a.line).cmp(&(b.file, b.line))));
    sites
}
