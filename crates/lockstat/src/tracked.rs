//! A bare lock that knows its class, remembers who took it, and leaves notes for the report.

use std::marker::PhantomData;
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_api::{RawMutex, RawRwLock};

use crate::check::{self, Acquisition};
use crate::counters::{self, Note};
use crate::mode::{Mode, mode};
use crate::place::{Place, PlaceCell};
use crate::raw::{FutexRwLock, RawLock, Waiting};
use crate::{Class, Kind, clock};

/// The class of a lock that `lock_api` makes by itself; ours are all made by [`Tracked::new`].
static UNNAMED: Class = Class::new("lockstat.unnamed");

/// The bare lock `R` with its class.
pub struct Tracked<R> {
    raw: R,
    /// Processor on which the lock was last taken while that was being watched; see `Watch`.
    last_cpu: AtomicU32,
    class: &'static Class,
    /// Where the newest holder took it; none before the first. Stale once the lock is free.
    holder: PlaceCell,
}

/// What goes along with one acquisition until the release.
pub struct Hold {
    watch: Option<Watch>,
    /// A guard stays in its thread: what is held is known per thread.
    _not_send: PhantomData<*mut ()>,
}

// SAFETY: a shared reference to a `Hold` gives access to nothing.
unsafe impl Sync for Hold {}

/// An acquisition that will be counted. Counting waits until the lock is free again, so as not to prolong the
/// section.
struct Watch {
    note: Note,
    /// When the lock was taken, if hold times are measured.
    since_ns: Option<u64>,
}

/// Who waited and for whom.
struct Wait {
    waited_ns: u64,
    bounced: bool,
    holder: Option<Place>,
}

impl<R> Tracked<R> {
    pub const fn new(raw: R, class: &'static Class) -> Self {
        Self { raw, last_cpu: AtomicU32::new(0), class, holder: PlaceCell::empty() }
    }

    pub fn class(&self) -> &'static Class {
        self.class
    }

    /// The way to the lock: at once, or by waiting.
    #[inline]
    fn take(&self, how: How, site: Place, fast: impl FnOnce(&R) -> bool, slow: impl FnOnce(&R)) -> Hold {
        let acquisition = self.acquisition(how.waiting, site);
        check::acquiring(acquisition);
        let wait = if fast(&self.raw) { None } else { self.wait(slow) };
        check::acquired(acquisition);
        self.taken(how.kind, site, wait)
    }

    #[inline]
    fn try_take(&self, how: How, site: Place, fast: impl FnOnce(&R) -> bool) -> Option<Hold> {
        if !fast(&self.raw) {
            return None;
        }
        check::acquired(self.acquisition(how.waiting, site));
        Some(self.taken(how.kind, site, None))
    }

    /// The way out.
    #[inline]
    fn leave(&self, hold: Hold, unlock: impl FnOnce(&R)) {
        check::released(ptr::from_ref(self).addr());
        match hold.watch {
            None => unlock(&self.raw),
            Some(watch) => {
                let class = self.class;
                let held_ns = watch.since_ns.map(|since| clock::now_ns() - since);
                unlock(&self.raw);
                counters::record(class, Note { held_ns, ..watch.note });
            }
        }
    }

    #[inline]
    fn taken(&self, kind: Kind, site: Place, wait: Option<Wait>) -> Hold {
        self.holder.set(site);
        let watch = if wait.is_some() || mode() == Mode::Full { self.watch(kind, site, wait) } else { None };
        Hold { watch, _not_send: PhantomData }
    }

    #[cold]
    fn watch(&self, kind: Kind, site: Place, wait: Option<Wait>) -> Option<Watch> {
        let cpu = clock::cpu();
        let moved = self.last_cpu.swap(cpu, Ordering::Relaxed) != cpu;
        let full = mode() == Mode::Full;
        let note = Note {
            kind,
            site,
            waited_ns: wait.as_ref().map(|w| w.waited_ns),
            wait_bounced: wait.as_ref().is_some_and(|w| w.bounced),
            holder: wait.and_then(|w| w.holder),
            acquired: full,
            acquire_bounced: full && moved,
            held_ns: None,
        };
        Some(Watch { note, since_ns: full.then(clock::now_ns) })
    }

    #[cold]
    fn wait(&self, slow: impl FnOnce(&R)) -> Option<Wait> {
        if mode() == Mode::Off {
            slow(&self.raw);
            return None;
        }
        let holder = self.holder.place();
        let bounced = self.last_cpu.load(Ordering::Relaxed) != clock::cpu();
        let began_ns = clock::now_ns();
        slow(&self.raw);
        Some(Wait { waited_ns: clock::now_ns() - began_ns, bounced, holder })
    }

    #[inline]
    fn acquisition(&self, waiting: Waiting, site: Place) -> Acquisition {
        Acquisition { class: self.class, lock: ptr::from_ref(self).addr(), waiting, site }
    }
}

/// In which way a lock is taken.
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

// SAFETY: `R` gives the lock to one thread at a time, and nothing here takes or releases it beside `R`.
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
        // SAFETY: the caller holds the lock, as this function demands too.
        self.leave(hold, |raw| unsafe { raw.unlock() });
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
        self.leave(hold, FutexRwLock::unlock_shared);
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
        self.leave(hold, FutexRwLock::unlock_exclusive);
    }

    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}
