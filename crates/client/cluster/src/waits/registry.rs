//! Waits that no table of the client holds, and the collection of all waits.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::{Gathered, Reason, Wait, Waiter};

/// Held to add or remove a wait or an observed part, and to collect. Only a waiting task adds an entry.
static REGISTRY: Class = Class::new("cluster.waits");

/// A registry of what clients wait for, including the time before they are connected. It is given to
/// [`Builder::waits`](crate::Builder::waits). Clones share one registry. It keeps no client alive.
#[derive(Clone)]
pub struct Waits(Arc<Mutex<Registry>>);

/// A part of a client with tables of waiting items.
pub trait Observed: Send + Sync {
    /// Adds the waits that have lasted `age_min` or longer.
    fn waits(&self, age_min: Duration, into: &mut Gathered);
}

#[derive(Default)]
struct Registry {
    observed: Vec<Weak<dyn Observed>>,
    newest: u64,
    entered: FxHashMap<u64, Entered>,
}

struct Entered {
    since: Instant,
    waiter: Waiter,
    reason: Reason,
}

impl Default for Waits {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(&REGISTRY, Registry::default())))
    }
}

impl Waits {
    /// Returns the waits that have lasted `age_min` or longer, by kind, the longest first. Costs a few
    /// microseconds for each wait of that age.
    pub fn all(&self, age_min: Duration) -> Vec<Wait> {
        let mut gathered = Gathered::default();
        let (observed, entered): (Vec<_>, Vec<_>) = {
            let registry = self.0.lock();
            let entered = registry.entered.values().filter_map(|entered| {
                let age = entered.since.elapsed();
                (age >= age_min).then(|| (entered.waiter, age, entered.reason.clone()))
            });
            (registry.observed.iter().filter_map(Weak::upgrade).collect(), entered.collect())
        };
        for (waiter, age, reason) in entered {
            gathered.add(waiter, age, || None, reason);
        }
        for part in observed {
            part.waits(age_min, &mut gathered);
        }
        gathered.into_waits()
    }

    /// Enters a wait, which lasts until the guard is dropped.
    pub fn enter(&self, waiter: Waiter, reason: Reason) -> WaitGuard {
        let mut registry = self.0.lock();
        registry.newest += 1;
        let number = registry.newest;
        registry.entered.insert(number, Entered { since: Instant::now(), waiter, reason });
        WaitGuard { waits: self.clone(), number }
    }

    /// Includes this part of a client in the collection while it is alive.
    pub fn look_at(&self, part: Weak<dyn Observed>) {
        let mut registry = self.0.lock();
        registry.observed.retain(|part| part.strong_count() > 0);
        registry.observed.push(part);
    }
}

impl fmt::Debug for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all(Duration::ZERO)).finish()
    }
}

/// A wait that lasts as long as this guard.
#[must_use = "dropped, the wait is over"]
pub struct WaitGuard {
    waits: Waits,
    number: u64,
}

impl WaitGuard {
    /// Changes the reason of this wait.
    pub fn becomes(&self, reason: Reason) {
        let mut registry = self.waits.0.lock();
        if let Some(entered) = registry.entered.get_mut(&self.number) {
            let before = std::mem::replace(&mut entered.reason, reason);
            drop(registry);
            drop(before);
        }
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let entered = self.waits.0.lock().entered.remove(&self.number);
        drop(entered);
    }
}

impl fmt::Debug for WaitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGuard").field("number", &self.number).finish_non_exhaustive()
    }
}
