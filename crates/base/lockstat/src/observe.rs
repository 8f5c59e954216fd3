//! Waits told one by one, for timelines: reports have sums only.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::clock;
use crate::counters::Waited;
use crate::kind::Kind;

/// One wait for a lock that is over.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// The class of the lock.
    pub class: &'static str,
    /// In which way it was taken.
    pub kind: Kind,
    /// Who waited.
    pub waiter: &'static Location<'static>,
    /// Who had taken it last when the wait began, if anybody was noted.
    pub holder: Option<&'static Location<'static>>,
    /// When the wait began.
    pub began: Instant,
    /// How long it took.
    pub took: Duration,
}

/// Has `observer` called for each wait of any thread, until the guard is dropped: by the thread that waited,
/// when it has released the lock, or before it waits for another one. In [`Mode::Off`](crate::Mode::Off)
/// nothing is told. While nobody observes it costs those who had to wait a load, and others nothing.
///
/// The observer must be quick, as locks may be held meanwhile, must not block or panic, and must not take a
/// lock of this crate. The first call of this function may take 10 ms, in which the clock's rate is measured.
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

/// See [`observe`].
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

/// How long this thread has waited for locks so far: the difference of two calls is what it waited in
/// between. To be asked while somebody [observes](observe), or the first call may take 10 ms.
pub fn waited_by_this_thread() -> Duration {
    duration(WAITED_TICKS.get())
}

type Observer = Arc<dyn Fn(&Wait) + Send + Sync>;

/// Written to when somebody begins or ends; read by threads that had to wait, while anybody observes.
static OBSERVERS: RwLock<Vec<(u64, Observer)>> = RwLock::new(Vec::new());
/// How many there are: to be looked at without the lock. Relaxed: a wait that is over at the moment in which
/// somebody begins to observe may be told or not.
static COUNT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static WAITED_TICKS: Cell<u64> = const { Cell::new(0) };
}

/// Adds to what this thread has waited.
#[inline]
pub(crate) fn add(ticks: u64) {
    WAITED_TICKS.set(WAITED_TICKS.get().wrapping_add(ticks));
}

/// Tells of a wait, if anybody wants to know.
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
