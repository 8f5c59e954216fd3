//! Single waits, for timelines: reports have sums only.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::clock;
use crate::counters::Waited;
use crate::kind::Kind;

/// One finished wait for a lock.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The class of the lock.
    pub class: &'static str,
    /// The way in which the lock was taken.
    pub kind: Kind,
    /// The call site that waited.
    pub waiter: &'static Location<'static>,
    /// The call site that had taken the lock last when the wait began, if known.
    pub holder: Option<&'static Location<'static>>,
    /// The beginning of the wait.
    pub began: Instant,
    /// The duration of the wait.
    pub took: Duration,
}

/// Calls `observer` for each wait of any thread until the guard is dropped. The waiting thread makes the
/// call after it has released the lock, or before it waits for another one. In
/// [`Mode::Off`](crate::Mode::Off) no waits are reported. While there is no observer, a wait costs one
/// additional load, and an acquire without a wait nothing.
///
/// The observer must be fast, since locks may be held meanwhile. It must not block, panic, or take a
/// lock of this crate. The first call of this function may take 10 ms, in which the clock's rate is
/// measured.
#[must_use = "observing ends when this is dropped"]
pub fn observe(observer: impl Fn(&Wait) + Send + Sync + 'static) -> Observing {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    clock::ns_per_tick();
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut observers = OBSERVERS.write().unwrap_or_else(PoisonError::into_inner);
    observers.push((id, Arc::new(observer)));
    COUNT.store(observers.len(), Ordering::Relaxed);
    Observing(id)
}

/// The guard of [`observe`]: dropping it ends the observation.
pub struct Observing(u64);

impl Drop for Observing {
    fn drop(&mut self) {
        let mut observers = OBSERVERS.write().unwrap_or_else(PoisonError::into_inner);
        observers.retain(|(id, _)| *id != self.0);
        COUNT.store(observers.len(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Observing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observing").field(&self.0).finish()
    }
}

/// Returns how long this thread has waited for locks so far; the difference of two calls is the wait
/// time in between. The first call may take 10 ms unless an [observer](observe) has been registered
/// before.
pub fn waited_by_this_thread() -> Duration {
    duration(WAITED_TICKS.get())
}

type Observer = Arc<dyn Fn(&Wait) + Send + Sync>;

/// Written when an observer is added or removed; read by threads after a wait while there are observers.
static OBSERVERS: RwLock<Vec<(u64, Observer)>> = RwLock::new(Vec::new());
/// The number of observers, to be read without the lock. Relaxed: a wait that ends while an observer is
/// being added may or may not be reported to it.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WAITED_TICKS: Cell<u64> = const { Cell::new(0) };
}

/// Adds to this thread's wait time.
#[inline]
pub(crate) fn add(ticks: u64) {
    WAITED_TICKS.set(WAITED_TICKS.get().wrapping_add(ticks));
}

/// Reports a wait to the observers, if there are any.
#[inline]
pub(crate) fn tell(waited: &Waited) {
    if COUNT.load(Ordering::Relaxed) > 0 {
        tell_all(waited);
    }
}

#[cold]
fn tell_all(waited: &Waited) {
    let Waited { class, kind, site, began, ticks, holder, .. } = *waited;
    let wait = Wait {
        class: class.name(),
        kind,
        waiter: site,
        holder,
        began: clock::instant_of(began),
        took: duration(ticks),
    };
    for (_, observer) in &*OBSERVERS.read().unwrap_or_else(PoisonError::into_inner) {
        observer(&wait);
    }
}

fn duration(ticks: u64) -> Duration {
    Duration::from_nanos((ticks as f64 * clock::ns_per_tick()) as u64)
}
