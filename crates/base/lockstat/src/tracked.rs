//! A bare lock with a class, which remembers its last holder and records its use for the report.

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_api::{RawMutex, RawRwLock};

use crate::check::{self, Acquisition};
use crate::counters::{self, Held, Waited};
use crate::mode::{Mode, mode};
use crate::place::{Marked, Place, PlaceCell};
use crate::raw::{FutexRwLock, RawLock, Spin, Waiting};
use crate::{Class, Kind, clock, observe};

/// The class of a lock that `lock_api` creates by itself; this crate creates all locks with
/// [`Tracked::new`].
static UNNAMED: Class = Class::new("lockstat.unnamed");

/// The bare lock `R` with its class.
pub struct Tracked<R> {
    raw: R,
    /// The processor on which the lock was last taken by a measured acquisition.
    last_cpu: AtomicU32,
    class: &'static Class,
    /// The call site of the latest holder; none before the first. Stale once the lock is free.
    holder: PlaceCell,
}

/// The state of one acquisition until its release. Counting is deferred until the lock is free again, so
/// that it does not prolong the hold. Two words, so that a guard stays in registers.
pub struct Hold {
    /// How the hold is measured.
    since: Since,
    /// The call site, if there is anything to count.
    site: Marked,
    /// A guard stays in its thread: the list of held locks is per thread.
    _not_send: PhantomData<*mut ()>,
}

// SAFETY: a shared reference to a `Hold` gives access to nothing.
unsafe impl Sync for Hold {}

thread_local! {
    /// A finished wait that is not counted yet. There is at most one: a thread counts it before it waits
    /// again.
    static WAITED: Cell<Option<Waited>> = const { Cell::new(None) };
    /// A lock that this thread has released may have been called while it was held.
    static CALLED: Cell<bool> = const { Cell::new(false) };
    /// See [`is_picked`].
    static CHANCE: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread has released a lock that may have been called. Clears the flag.
#[inline]
pub(crate) fn take_called() -> bool {
    CALLED.take()
}

impl Hold {
    const UNWATCHED: Self = Self { since: Since::UNCOUNTED, site: Marked::NONE, _not_send: PhantomData };
}

/// The time at which the lock was taken, in ticks, if the hold is timed; the lowest bit is set if the
/// hold's weight is 1. The value 0: not counted; 1: counted but not timed.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Since(u64);

impl Since {
    const UNCOUNTED: Self = Self(0);
    const UNTIMED: Self = Self(1);

    /// A timed hold that represents only itself.
    #[inline]
    fn alone(ticks: u64) -> Self {
        Self(ticks | 1)
    }

    /// A hold chosen at random, which represents the untimed ones too.
    #[inline]
    fn picked(ticks: u64) -> Self {
        Self(ticks & !1)
    }

    #[inline]
    fn is_timed(self) -> bool {
        self.0 > 1
    }

    #[inline]
    fn weight(self) -> u32 {
        if self.0 & 1 == 0 { ONE_IN } else { 1 }
    }
}

/// One hold in this many is timed in [`Mode::Full`].
const ONE_IN: u32 = 1 << ONE_IN_BITS;
const ONE_IN_BITS: u32 = 3;

/// Returns true for one call in [`ONE_IN`], at random: a counter would always pick the same one of
/// several locks that are taken in turn.
#[inline]
fn is_picked() -> bool {
    // Numerical Recipes' linear congruential generator; the highest bits of its numbers are the best.
    let next = CHANCE.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    CHANCE.set(next);
    next >> (u32::BITS - ONE_IN_BITS) == 0
}

impl<R> Tracked<R> {
    pub const fn new(raw: R, class: &'static Class) -> Self {
        Self { raw, last_cpu: AtomicU32::new(0), class, holder: PlaceCell::empty() }
    }

    pub fn class(&self) -> &'static Class {
        self.class
    }

    /// Takes the lock, at once or by waiting.
    #[inline]
    fn take(&self, how: How, site: Place, fast: impl FnOnce(&R) -> bool, slow: impl FnOnce(&R)) -> Hold {
        let acquisition = self.acquisition(how.waiting, site);
        check::acquiring(acquisition);
        let hold = if fast(&self.raw) { self.taken(site) } else { self.wait(how.kind, site, slow) };
        check::acquired(acquisition);
        hold
    }

    #[inline]
    fn try_take(&self, how: How, site: Place, fast: impl FnOnce(&R) -> bool) -> Option<Hold> {
        if !fast(&self.raw) {
            return None;
        }
        check::acquired(self.acquisition(how.waiting, site));
        Some(self.taken(site))
    }

    /// Releases the lock, then counts the hold.
    #[inline]
    fn leave(&self, kind: Kind, hold: Hold, unlock: impl FnOnce(&R)) {
        check::released(ptr::from_ref(self).addr());
        if hold.site.is_none() { unlock(&self.raw) } else { self.leave_watched(kind, hold, unlock) }
    }

    #[inline]
    fn taken(&self, site: Place) -> Hold {
        self.holder.set(site);
        if mode() >= Mode::Full { self.watch(site) } else { Hold::UNWATCHED }
    }

    #[inline(never)]
    fn watch(&self, site: Place) -> Hold {
        let alone = mode() == Mode::Exact || self.class.is_one_of_the_first();
        let (since, cpu) = if alone || is_picked() {
            let (now, cpu) = clock::now_and_cpu();
            (if alone { Since::alone(now) } else { Since::picked(now) }, cpu)
        } else {
            (Since::UNTIMED, clock::cpu_only())
        };
        Hold { since, site: Marked::new(site, self.moved_to(cpu), false), _not_send: PhantomData }
    }

    /// Records the processor on which the lock was taken; returns whether it differs from the last one.
    /// Readers of a read-write lock may do this concurrently: then one of the processors is kept.
    #[inline]
    fn moved_to(&self, cpu: u32) -> bool {
        let moved = self.last_cpu.load(Ordering::Relaxed) != cpu;
        if moved {
            self.last_cpu.store(cpu, Ordering::Relaxed);
        }
        moved
    }

    #[cold]
    fn wait(&self, kind: Kind, site: Place, slow: impl FnOnce(&R)) -> Hold {
        if mode() == Mode::Off {
            slow(&self.raw);
            self.holder.set(site);
            return Hold::UNWATCHED;
        }
        count_wait();
        let holder = self.holder.place();
        let (began, cpu) = clock::now_and_cpu();
        let bounced = self.last_cpu.load(Ordering::Relaxed) != cpu;
        slow(&self.raw);
        let (now, cpu) = clock::now_and_cpu();
        self.holder.set(site);
        let ticks = now.saturating_sub(began);
        observe::add(ticks);
        WAITED.set(Some(Waited { class: self.class, kind, site, began, ticks, bounced, holder }));
        let since = if mode() >= Mode::Full { Since::alone(now) } else { Since::UNCOUNTED };
        Hold { since, site: Marked::new(site, self.moved_to(cpu), true), _not_send: PhantomData }
    }

    #[inline(never)]
    fn leave_watched(&self, kind: Kind, hold: Hold, unlock: impl FnOnce(&R)) {
        // Read before the release: afterwards another thread may drop the lock.
        let class = self.class;
        let now = if hold.since.is_timed() { clock::now() } else { 0 };
        unlock(&self.raw);
        if hold.site.waited() {
            count_wait();
        }
        if let Some(site) = hold.site.place().filter(|_| hold.since != Since::UNCOUNTED) {
            let ticks = hold.since.is_timed().then(|| now.saturating_sub(hold.since.0));
            let (weight, bounced) = (hold.since.weight(), hold.site.moved());
            counters::record_hold(&Held { class, kind, site, ticks, weight, bounced });
        }
    }

    #[inline]
    fn acquisition(&self, waiting: Waiting, site: Place) -> Acquisition {
        Acquisition { class: self.class, lock: ptr::from_ref(self).addr(), waiting, site }
    }
}

impl Tracked<Spin> {
    #[inline]
    #[track_caller]
    pub(crate) fn try_lock_or_call(&self) -> Option<Hold> {
        self.try_take(exclusive::<Spin>(), Location::caller(), Spin::try_lock_or_call)
    }
}

/// Counts this thread's deferred wait, if there is one.
#[inline]
fn count_wait() {
    if let Some(waited) = WAITED.take() {
        counters::record_wait(&waited);
        observe::tell(&waited);
    }
}

/// The way in which a lock is taken.
#[derive(Clone, Copy)]
struct How {
    kind: Kind,
    waiting: Waiting,
}

const READ: How = How { kind: Kind::Read, waiting: Waiting::Sleeps };
const WRITE: How = How { kind: Kind::Write, waiting: Waiting::Sleeps };

const fn exclusive<R: RawLock>() -> How {
    How { kind: Kind::Exclusive, waiting: R::WAITING }
}

// SAFETY: `R` gives the lock to one thread at a time, and nothing here takes or releases it except
// through `R`.
unsafe impl<R: RawLock> RawMutex for Tracked<R> {
    const INIT: Self = Self::new(R::INIT, &UNNAMED);
    type Guard = Hold;

    #[inline]
    #[track_caller]
    fn lock(&self) -> Hold {
        self.take(exclusive::<R>(), Location::caller(), R::try_lock, R::lock_slow)
    }

    #[inline]
    #[track_caller]
    fn try_lock(&self) -> Option<Hold> {
        self.try_take(exclusive::<R>(), Location::caller(), R::try_lock)
    }

    #[inline]
    unsafe fn unlock(&self, hold: Hold) {
        self.leave(Kind::Exclusive, hold, |raw| {
            // SAFETY: the caller holds the lock, as this function requires too.
            if unsafe { raw.unlock() } {
                CALLED.set(true);
            }
        });
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }
}

// SAFETY: as above; `FutexRwLock` admits one writer or any number of readers.
unsafe impl RawRwLock for Tracked<FutexRwLock> {
    const INIT: Self = Self::new(FutexRwLock::new(), &UNNAMED);
    type SharedGuard = Hold;
    type ExclusiveGuard = Hold;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) -> Hold {
        let (fast, slow) = (FutexRwLock::try_lock_shared, FutexRwLock::lock_shared_slow);
        self.take(READ, Location::caller(), fast, slow)
    }

    #[inline]
    #[track_caller]
    fn try_lock_shared(&self) -> Option<Hold> {
        self.try_take(READ, Location::caller(), FutexRwLock::try_lock_shared)
    }

    #[inline]
    unsafe fn unlock_shared(&self, hold: Hold) {
        self.leave(Kind::Read, hold, FutexRwLock::unlock_shared);
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) -> Hold {
        let (fast, slow) = (FutexRwLock::try_lock_exclusive, FutexRwLock::lock_exclusive_slow);
        self.take(WRITE, Location::caller(), fast, slow)
    }

    #[inline]
    #[track_caller]
    fn try_lock_exclusive(&self) -> Option<Hold> {
        self.try_take(WRITE, Location::caller(), FutexRwLock::try_lock_exclusive)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, hold: Hold) {
        self.leave(Kind::Write, hold, FutexRwLock::unlock_exclusive);
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's choices are deterministic, so this test fails always or never.
    #[test]
    fn about_one_in_eight_is_picked_also_of_each_second_call() {
        // An interpreter needs half an hour for the whole.
        let (calls, tolerance) = if cfg!(miri) { (800, 40) } else { (80_000, 500) };
        let picked = |step: usize| {
            CHANCE.set(0);
            (0..calls * step).filter(|i| is_picked() && i % step == 0).count()
        };
        for step in [1, 2, 3, 8, 16] {
            let picked = picked(step);
            let off = picked.abs_diff(calls / 8);
            assert!(off <= tolerance, "{picked} of each {step}th of {calls}");
        }
    }
}
