//! Wakes slots when one of their watches or notifications is due.
//!
//! A slot requests at most one wake-up time at a time, and only slots that have watches do so.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Instant;

use loligo_lockstat::{Class, Mutex};

use crate::group::Group;
use crate::hands::OnPanic;

/// Held to insert one wake-up time, or to take out those that have come.
static CLOCK: Class = Class::new("osd.clock");

/// The clock. Its thread is started by the first wake-up request.
#[derive(Default)]
pub(crate) struct Clock {
    shared: Arc<Shared>,
    thread: OnceLock<Option<Thread>>,
}

struct Shared {
    due: Mutex<Due>,
    closed: AtomicBool,
    on_panic: OnceLock<OnPanic>,
}

#[derive(Default)]
struct Due {
    /// Keyed by the time and a number that distinguishes equal times.
    slots: BTreeMap<(Instant, u64), Weak<dyn Group>>,
    next: u64,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            due: Mutex::new(&CLOCK, Due::default()),
            closed: AtomicBool::new(false),
            on_panic: OnceLock::new(),
        }
    }
}

impl Clock {
    /// Calls the slot's `tick` at `at`.
    pub(crate) fn wake(&self, at: Instant, slot: Weak<dyn Group>) {
        let mut due = self.shared.due.lock();
        let earliest = due.slots.first_key_value().is_none_or(|((first, _), _)| at < *first);
        let number = due.next;
        due.next += 1;
        due.slots.insert((at, number), slot);
        drop(due);
        let thread = self.thread.get_or_init(|| self.start());
        if let Some(thread) = thread.as_ref().filter(|_| earliest) {
            thread.unpark();
        }
    }

    /// Sets the handler called when the thread has panicked.
    pub(crate) fn on_panic(&self, heard: OnPanic) {
        let _ = self.shared.on_panic.set(heard);
    }

    fn start(&self) -> Option<Thread> {
        let shared = Arc::clone(&self.shared);
        let of_panic = Arc::clone(&self.shared);
        let panicked =
            move |why: String| of_panic.on_panic.get().into_iter().for_each(|heard| heard(why.clone()));
        let name = "loligo-clock";
        let guarded = move || loligo_store::guarded(name, || shared.run(), panicked);
        let spawned = thread::Builder::new().name(name.to_owned()).spawn(guarded);
        spawned.ok().map(|handle| handle.thread().clone())
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Shared {
    fn run(&self) {
        // Acquire: pairs with the store when the clock is dropped.
        while !self.closed.load(Ordering::Acquire) {
            let now = Instant::now();
            let mut due = self.due.lock();
            let later = due.slots.split_off(&(now, u64::MAX));
            let slots = std::mem::replace(&mut due.slots, later);
            let next = due.slots.first_key_value().map(|((at, _), _)| *at);
            drop(due);
            slots.into_values().filter_map(|slot| slot.upgrade()).for_each(|slot| slot.tick());
            match next {
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }
}
