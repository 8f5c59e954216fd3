//! The counters, per thread, class, kind and call site.
//!
//! A thread writes only its own counters, with plain loads and stores (relaxed atomics, since other
//! threads may read them): no cache line is shared between writers. [`snapshot`] adds the counters of
//! living threads and the sums of ended threads.
//!
//! [`reset`] touches no counter: it begins a new period. A thread clears counters of an older period
//! before it writes to them; readers skip such counters. So a counter has a single writer even during a
//! reset.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::histogram::Histogram;
use crate::place::{self, Place};
use crate::totals::{SiteTotal, SiteTotals, TimeTotals, Totals};
use crate::{Class, Kind, clock};

/// An acquisition that had to wait.
#[derive(Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) class: &'static Class,
    pub(crate) kind: Kind,
    pub(crate) site: Place,
    /// Start and duration of the wait, in ticks.
    pub(crate) began: u64,
    pub(crate) ticks: u64,
    /// The lock was last taken on another processor.
    pub(crate) bounced: bool,
    /// The call site of the holder that the thread waited for.
    pub(crate) holder: Option<Place>,
}

/// A finished hold.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    pub(crate) class: &'static Class,
    pub(crate) kind: Kind,
    pub(crate) site: Place,
    /// None if the hold was not timed.
    pub(crate) ticks: Option<u64>,
    /// The number of acquisitions that the time represents.
    pub(crate) weight: u32,
    /// The lock was last taken on another processor.
    pub(crate) bounced: bool,
}

/// Counts a contention.
pub(crate) fn record_wait(waited: &Waited) {
    with_mine(waited.class, waited.kind, |counters| {
        bump(&counters.con_bounces, u64::from(waited.bounced));
        counters.waiters.at(waited.site).times.add(Some(waited.ticks), 1);
        if let Some(holder) = waited.holder {
            bump(&counters.holders.at(holder).awaited, 1);
        }
    });
}

/// Counts an acquisition.
#[inline]
pub(crate) fn record_hold(held: &Held) {
    with_mine(held.class, held.kind, |counters| {
        if held.bounced {
            bump(&counters.acq_bounces, 1);
        }
        counters.holders.at(held.site).times.add(held.ticks, held.weight);
    });
}

/// Discards all counts. Acquisitions in progress are counted when they end.
pub fn reset() {
    let mut registry = registry();
    registry.retired.clear();
    PERIOD.fetch_add(1, Ordering::AcqRel);
}

/// Returns the sums, one for each class and kind that has counts, and the period in which they were
/// counted.
pub(crate) fn snapshot() -> (u32, Vec<Totals>) {
    let registry = registry();
    let mut totals = registry.retired.clone();
    for living in registry.living.values() {
        merge(&mut totals, living);
    }
    (PERIOD.load(Ordering::Acquire), totals.into_values().collect())
}

/// A class's number and a kind.
type Key = (u32, Kind);

/// The current period; changed under the registry's lock.
static PERIOD: AtomicU32 = AtomicU32::new(0);

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);

/// Locked when a thread uses a class for the first time, when a thread ends, and for reports.
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
        let total = totals.entry(*key).or_insert_with(|| Totals::new(class, key.1));
        counters.add_to(total);
    }
}

thread_local! {
    static MINE: Mine = const { Mine { by_class: RefCell::new(Vec::new()) } };
}

/// This thread's counters. The index is twice the class's number, plus one for readers.
struct Mine {
    by_class: RefCell<Vec<Option<Arc<Counters>>>>,
}

/// Calls `count` with this thread's counters, cleared if they belong to an older period. A thread whose
/// thread-locals have been destroyed has no counters, and is not counted.
#[inline]
fn with_mine(class: &'static Class, kind: Kind, count: impl FnOnce(&Counters)) {
    let _ = MINE.try_with(|mine| {
        let index = class.id() as usize * 2 + usize::from(kind == Kind::Read);
        if let Some(Some(counters)) = mine.by_class.borrow().get(index) {
            counters.begin_period();
            return count(counters);
        }
        let counters = mine.register(class, kind, index);
        counters.begin_period();
        count(&counters);
    });
}

impl Mine {
    #[cold]
    fn register(&self, class: &'static Class, kind: Kind, index: usize) -> Arc<Counters> {
        clock::anchor();
        let new = Arc::new(Counters::new());
        let registered = (class, (class.id(), kind), Arc::clone(&new));
        registry().living.insert(Arc::as_ptr(&new).addr(), registered);
        let mut by_class = self.by_class.borrow_mut();
        if index >= by_class.len() {
            by_class.resize(index + 1, None);
        }
        by_class[index] = Some(Arc::clone(&new));
        new
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

/// The counters of one thread for one class and kind. The number of contentions is the count of the
/// waiters' times, that of acquisitions the count of the holders' times.
struct Counters {
    /// The period of these counts.
    period: AtomicU32,
    con_bounces: AtomicU64,
    acq_bounces: AtomicU64,
    waiters: Sites,
    holders: Sites,
}

impl Counters {
    fn new() -> Self {
        Self {
            period: AtomicU32::new(PERIOD.load(Ordering::Acquire)),
            con_bounces: AtomicU64::new(0),
            acq_bounces: AtomicU64::new(0),
            waiters: Sites::new(),
            holders: Sites::new(),
        }
    }

    #[inline]
    fn begin_period(&self) {
        let period = PERIOD.load(Ordering::Acquire);
        if self.period.load(Ordering::Relaxed) != period {
            self.clear();
            self.period.store(period, Ordering::Release);
        }
    }

    #[cold]
    fn clear(&self) {
        self.con_bounces.store(0, Ordering::Relaxed);
        self.acq_bounces.store(0, Ordering::Relaxed);
        self.waiters.clear();
        self.holders.clear();
    }

    fn add_to(&self, totals: &mut Totals) {
        totals.con_bounces += self.con_bounces.load(Ordering::Relaxed);
        totals.acq_bounces += self.acq_bounces.load(Ordering::Relaxed);
        self.waiters.add_to(&mut totals.waiters);
        self.holders.add_to(&mut totals.holders);
    }
}

/// The number of call sites that a thread distinguishes per class; the kernel has four. A class has few
/// call sites. Further ones are counted for the class, but are missing from its list of call sites.
const SITES_MAX: usize = 16;

/// Counters by call site, created at its first use.
struct Sites {
    known: [AtomicPtr<SiteCounters>; SITES_MAX],
    others: SiteCounters,
}

struct SiteCounters {
    place: Option<Place>,
    /// How often a thread waited for a holder from this call site.
    awaited: AtomicU64,
    times: Times,
}

impl Sites {
    fn new() -> Self {
        Self {
            known: [const { AtomicPtr::new(ptr::null_mut()) }; SITES_MAX],
            others: SiteCounters::new(None),
        }
    }

    /// Returns the counters of a call site. Only the owning thread calls this.
    #[inline]
    fn at(&self, place: Place) -> &SiteCounters {
        for slot in &self.known {
            // SAFETY: the pointer is null or comes from `Box::into_raw` below, and is freed in `drop` only.
            match unsafe { slot.load(Ordering::Relaxed).as_ref() } {
                Some(site) if site.place.is_some_and(|known| place::same(known, place)) => return site,
                Some(_) => {}
                None => return Self::meet(slot, place),
            }
        }
        &self.others
    }

    #[cold]
    fn meet(slot: &AtomicPtr<SiteCounters>, place: Place) -> &SiteCounters {
        let new = Box::into_raw(Box::new(SiteCounters::new(Some(place))));
        // Release: a thread that reads the pointer sees the call site and zeros, not older contents of
        // the memory.
        slot.store(new, Ordering::Release);
        // SAFETY: it was created just now, and is freed in `drop` only.
        unsafe { &*new }
    }

    fn iter(&self) -> impl Iterator<Item = &SiteCounters> {
        // SAFETY: as in `at`. Acquire, so that the writes of `meet` are seen.
        let known = self.known.iter().map_while(|slot| unsafe { slot.load(Ordering::Acquire).as_ref() });
        known.chain([&self.others])
    }

    fn clear(&self) {
        for site in self.iter() {
            site.awaited.store(0, Ordering::Relaxed);
            site.times.clear();
        }
    }

    fn add_to(&self, totals: &mut SiteTotals) {
        for site in self.iter() {
            let total =
                SiteTotal { awaited: site.awaited.load(Ordering::Relaxed), times: site.times.totals() };
            if total.awaited > 0 || total.times.count > 0 {
                totals.entry(site.place).or_default().add(&total);
            }
        }
    }
}

impl Drop for Sites {
    fn drop(&mut self) {
        for slot in &mut self.known {
            if !slot.get_mut().is_null() {
                // SAFETY: it comes from `Box::into_raw`, and no other thread has a reference to it any
                // more.
                drop(unsafe { Box::from_raw(*slot.get_mut()) });
            }
        }
    }
}

impl SiteCounters {
    fn new(place: Option<Place>) -> Self {
        Self { place, awaited: AtomicU64::new(0), times: Times::new() }
    }
}

/// Times in ticks.
struct Times {
    count: AtomicU64,
    /// The number of times that the measured ones represent.
    weight: AtomicU64,
    /// The sum of the measured times, each multiplied by its weight.
    total: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    histogram: Histogram,
}

impl Times {
    fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
            weight: AtomicU64::new(0),
            total: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            histogram: Histogram::new(),
        }
    }

    #[inline]
    fn add(&self, ticks: Option<u64>, weight: u32) {
        bump(&self.count, 1);
        let Some(ticks) = ticks else { return };
        bump(&self.weight, weight.into());
        bump(&self.total, ticks.wrapping_mul(weight.into()));
        if ticks < self.min.load(Ordering::Relaxed) {
            self.min.store(ticks, Ordering::Relaxed);
        }
        if ticks > self.max.load(Ordering::Relaxed) {
            self.max.store(ticks, Ordering::Relaxed);
        }
        self.histogram.add(ticks, weight);
    }

    fn clear(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
        self.total.store(0, Ordering::Relaxed);
        self.min.store(u64::MAX, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
        self.histogram.clear();
    }

    fn totals(&self) -> TimeTotals {
        TimeTotals {
            count: self.count.load(Ordering::Relaxed),
            weight: self.weight.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            min: self.min.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
            histogram: self.histogram.counts(),
        }
    }
}

/// Adds to a counter whose only writer is the caller.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}
