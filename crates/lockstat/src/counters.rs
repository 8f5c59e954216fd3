//! What was counted, per thread, class and kind.
//!
//! A thread writes only counters of its own, with plain loads and stores (relaxed atomics, as others may read them):
//! no line is shared between writers. [`totals`] adds up those of living threads and what the dead left behind.
//!
//! [`reset`] touches no counter: it begins a new period. A thread that writes to counters of an older period clears
//! them first; who reads skips them. So a counter has one writer also while it is being reset.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::histogram::{Counts, Histogram};
use crate::place::{Place, PlaceCell};
use crate::{Class, Kind};

/// Everything there is to count about one acquisition.
pub(crate) struct Note {
    pub(crate) kind: Kind,
    pub(crate) site: Place,
    /// How long it waited, if it had to and that was measured.
    pub(crate) waited_ns: Option<u64>,
    /// It waited for a lock last taken on another processor.
    pub(crate) wait_bounced: bool,
    /// Where the lock was taken by the one it waited for.
    pub(crate) holder: Option<Place>,
    /// Acquisitions were being counted.
    pub(crate) acquired: bool,
    /// It took a lock last taken on another processor.
    pub(crate) acquire_bounced: bool,
    /// How long it held the lock, if that was measured.
    pub(crate) held_ns: Option<u64>,
}

/// The sum for one class and kind over all threads.
#[derive(Clone)]
pub(crate) struct Totals {
    pub(crate) class: &'static Class,
    pub(crate) kind: Kind,
    pub(crate) contentions: u64,
    pub(crate) con_bounces: u64,
    pub(crate) acquisitions: u64,
    pub(crate) acq_bounces: u64,
    pub(crate) wait: TimeTotals,
    pub(crate) hold: TimeTotals,
    /// Per place that waited: how often and how long.
    pub(crate) waiters: SiteTotals,
    /// Per place that held: how often it was waited for, and how long it held (where that was measured).
    pub(crate) holders: SiteTotals,
}

#[derive(Clone)]
pub(crate) struct TimeTotals {
    pub(crate) count: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
    pub(crate) total_ns: u64,
    pub(crate) histogram: Counts,
}

/// Places with a count and a time in nanoseconds.
pub(crate) type SiteTotals = HashMap<Place, (u64, u64)>;

/// A class's number and a kind.
type Key = (u32, Kind);

/// Counts one acquisition that is over.
#[cold]
pub(crate) fn record(class: &'static Class, note: Note) {
    // A thread that is being torn down has no counters any more; what it does then is not counted.
    let _ = MINE.try_with(|mine| mine.add(class, &note));
}

/// Forgets everything counted so far. Acquisitions under way are counted when they end.
pub fn reset() {
    let mut registry = registry();
    registry.retired.clear();
    PERIOD.fetch_add(1, Ordering::AcqRel);
}

/// The sums, one for each class and kind of which there is something to tell.
pub(crate) fn totals() -> Vec<Totals> {
    let registry = registry();
    let mut totals = registry.retired.clone();
    for living in registry.living.values() {
        merge(&mut totals, living);
    }
    totals.into_values().collect()
}

/// The period that is being counted.
static PERIOD: AtomicU32 = AtomicU32::new(0);

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// Locked by a thread when it meets a class for the first time and when it ends, and for reports.
#[derive(Default)]
struct Registry {
    /// The counters of living threads, by address.
    living: HashMap<usize, Registered>,
    /// The sums of the threads that have ended in this period.
    retired: HashMap<Key, Totals>,
}

type Registered = (&'static Class, Key, Arc<Counters>);

fn registry() -> std::sync::MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

fn merge(totals: &mut HashMap<Key, Totals>, (class, key, counters): &Registered) {
    if counters.period.load(Ordering::Acquire) == PERIOD.load(Ordering::Acquire) {
        totals.entry(*key).or_insert_with(|| Totals::new(class, key.1)).add(counters);
    }
}

thread_local! {
    static MINE: Mine = const { Mine { by_class: RefCell::new(Vec::new()) } };
}

/// This thread's counters; index: twice the class's number, plus one for readers.
struct Mine {
    by_class: RefCell<Vec<Option<Arc<Counters>>>>,
}

impl Mine {
    fn add(&self, class: &'static Class, note: &Note) {
        let id = class.id();
        let index = id as usize * 2 + usize::from(note.kind == Kind::Read);
        let mut by_class = self.by_class.borrow_mut();
        if index >= by_class.len() {
            by_class.resize(index + 1, None);
        }
        let counters = by_class[index].get_or_insert_with(|| {
            let new = Arc::new(Counters::new());
            let key = (id, note.kind);
            registry().living.insert(Arc::as_ptr(&new).addr(), (class, key, Arc::clone(&new)));
            new
        });
        counters.add(note);
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        let mut registry = registry();
        for counters in self.by_class.get_mut().drain(..).flatten() {
            if let Some(dead) = registry.living.remove(&Arc::as_ptr(&counters).addr()) {
                merge(&mut registry.retired, &dead);
            }
        }
    }
}

/// The counters of one thread for one class and kind.
struct Counters {
    /// The period these belong to.
    period: AtomicU32,
    contentions: AtomicU64,
    con_bounces: AtomicU64,
    acquisitions: AtomicU64,
    acq_bounces: AtomicU64,
    wait: Timing,
    hold: Timing,
    waiters: Sites,
    holders: Sites,
}

impl Counters {
    fn new() -> Self {
        Self {
            period: AtomicU32::new(PERIOD.load(Ordering::Acquire)),
            contentions: AtomicU64::new(0),
            con_bounces: AtomicU64::new(0),
            acquisitions: AtomicU64::new(0),
            acq_bounces: AtomicU64::new(0),
            wait: Timing::new(),
            hold: Timing::new(),
            waiters: Sites::default(),
            holders: Sites::default(),
        }
    }

    fn add(&self, note: &Note) {
        let period = PERIOD.load(Ordering::Acquire);
        if self.period.load(Ordering::Relaxed) != period {
            self.clear();
            self.period.store(period, Ordering::Release);
        }
        if let Some(waited_ns) = note.waited_ns {
            bump(&self.contentions, 1);
            bump(&self.con_bounces, u64::from(note.wait_bounced));
            self.wait.add(waited_ns);
            self.waiters.add(note.site, 1, waited_ns);
            if let Some(holder) = note.holder {
                self.holders.add(holder, 1, 0);
            }
        }
        bump(&self.acquisitions, u64::from(note.acquired));
        bump(&self.acq_bounces, u64::from(note.acquire_bounced));
        if let Some(held_ns) = note.held_ns {
            self.hold.add(held_ns);
            self.holders.add(note.site, 0, held_ns);
        }
    }

    fn clear(&self) {
        for counter in [&self.contentions, &self.con_bounces, &self.acquisitions, &self.acq_bounces] {
            counter.store(0, Ordering::Relaxed);
        }
        self.wait.clear();
        self.hold.clear();
        self.waiters.clear();
        self.holders.clear();
    }
}

struct Timing {
    min_ns: AtomicU64,
    max_ns: AtomicU64,
    total_ns: AtomicU64,
    histogram: Histogram,
}

impl Timing {
    fn new() -> Self {
        Self {
            min_ns: AtomicU64::new(u64::MAX),
            max_ns: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
            histogram: Histogram::new(),
        }
    }

    fn add(&self, ns: u64) {
        if ns < self.min_ns.load(Ordering::Relaxed) {
            self.min_ns.store(ns, Ordering::Relaxed);
        }
        if ns > self.max_ns.load(Ordering::Relaxed) {
            self.max_ns.store(ns, Ordering::Relaxed);
        }
        bump(&self.total_ns, ns);
        self.histogram.add(ns);
    }

    fn clear(&self) {
        self.min_ns.store(u64::MAX, Ordering::Relaxed);
        self.max_ns.store(0, Ordering::Relaxed);
        self.total_ns.store(0, Ordering::Relaxed);
        self.histogram.clear();
    }
}

/// Places that one thread remembers for one class; the kernel remembers four. A class has few places that take it;
/// what finds no room is missing from the list of places, but from nothing else.
const SITES_MAX: usize = 16;

#[derive(Default)]
struct Sites([SiteCounters; SITES_MAX]);

#[derive(Default)]
struct SiteCounters {
    place: PlaceCell,
    count: AtomicU64,
    total_ns: AtomicU64,
}

impl Sites {
    fn add(&self, place: Place, count: u64, ns: u64) {
        for site in &self.0 {
            match site.place.place() {
                None => site.place.set(place),
                Some(taken_by) if taken_by == place => {}
                Some(_) => continue,
            }
            bump(&site.count, count);
            bump(&site.total_ns, ns);
            return;
        }
    }

    fn clear(&self) {
        for site in &self.0 {
            site.place.clear();
            site.count.store(0, Ordering::Relaxed);
            site.total_ns.store(0, Ordering::Relaxed);
        }
    }

    fn add_to(&self, totals: &mut SiteTotals) {
        for site in &self.0 {
            let Some(place) = site.place.place() else { continue };
            let total = totals.entry(place).or_default();
            total.0 += site.count.load(Ordering::Relaxed);
            total.1 += site.total_ns.load(Ordering::Relaxed);
        }
    }
}

impl Totals {
    fn new(class: &'static Class, kind: Kind) -> Self {
        let none = TimeTotals {
            count: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            total_ns: 0,
            histogram: Histogram::new().counts(),
        };
        Self {
            class,
            kind,
            contentions: 0,
            con_bounces: 0,
            acquisitions: 0,
            acq_bounces: 0,
            wait: none.clone(),
            hold: none,
            waiters: SiteTotals::new(),
            holders: SiteTotals::new(),
        }
    }

    fn add(&mut self, counters: &Counters) {
        self.contentions += counters.contentions.load(Ordering::Relaxed);
        self.con_bounces += counters.con_bounces.load(Ordering::Relaxed);
        self.acquisitions += counters.acquisitions.load(Ordering::Relaxed);
        self.acq_bounces += counters.acq_bounces.load(Ordering::Relaxed);
        self.wait.add(&counters.wait);
        self.hold.add(&counters.hold);
        counters.waiters.add_to(&mut self.waiters);
        counters.holders.add_to(&mut self.holders);
    }
}

impl TimeTotals {
    fn add(&mut self, timing: &Timing) {
        let histogram = timing.histogram.counts();
        self.count += histogram.total();
        self.min_ns = self.min_ns.min(timing.min_ns.load(Ordering::Relaxed));
        self.max_ns = self.max_ns.max(timing.max_ns.load(Ordering::Relaxed));
        self.total_ns += timing.total_ns.load(Ordering::Relaxed);
        self.histogram.merge(&histogram);
    }
}

/// Adds to a counter of which the caller is the only writer.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}
