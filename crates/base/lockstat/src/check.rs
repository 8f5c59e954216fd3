//! The checks of test builds. `check_off.rs` has the same functions, which do nothing.

mod order;

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;

use crate::Class;
use crate::raw::Waiting;

/// A lock that is being acquired, or is held.
#[derive(Clone, Copy)]
pub(crate) struct Acquisition {
    pub(crate) class: &'static Class,
    /// The address of the lock.
    pub(crate) lock: usize,
    pub(crate) waiting: Waiting,
    pub(crate) site: &'static Location<'static>,
}

thread_local! {
    /// The locks that this thread holds, oldest first.
    static HELD: RefCell<Vec<Acquisition>> = const { RefCell::new(Vec::new()) };
}

/// Declares that the caller is about to do something that may block: a system call, an `.await`, a
/// callback.
///
/// # Panics
/// In builds with `debug_assertions`, if this thread holds any lock of this crate. The message contains
/// `what`, the class of the lock and the call site that acquired it. In other builds this function does
/// nothing.
#[track_caller]
pub fn blocking_point(what: &str) {
    let held = newest_held();
    if let Some(held) = held {
        panic!("{what} while holding {held}");
    }
}

/// Called before a thread waits for a lock.
#[track_caller]
pub(crate) fn acquiring(new: Acquisition) {
    // Cloned, so that nothing is borrowed during a panic: unwinding releases locks.
    let held = HELD.try_with(|held| held.borrow().clone()).unwrap_or_default();
    for held in &held {
        if held.waiting == Waiting::Spins && new.waiting == Waiting::Sleeps {
            panic!("acquiring {new}, which may sleep, within the section of the spin lock {held}");
        }
        if held.lock == new.lock {
            panic!("acquiring {new} again, which this thread holds already: {held}");
        }
        if !std::ptr::eq(held.class, new.class) {
            continue;
        }
        if !new.class.is_nested_by_address() {
            panic!("acquiring {new} while holding another lock of its class, {held}");
        }
        if held.lock > new.lock {
            panic!("acquiring {new} while holding one of its class at a higher address, {held}");
        }
    }
    if let Err(cycle) = order::learn(&held, new) {
        panic!("{cycle}");
    }
}

/// Called when a thread has taken a lock, after waiting or by `try_lock`.
pub(crate) fn acquired(new: Acquisition) {
    // A thread whose thread-locals have been destroyed has no list, and is not checked.
    let _ = HELD.try_with(|held| held.borrow_mut().push(new));
}

/// Called before a lock is released.
pub(crate) fn released(lock: usize) {
    let _ = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        if let Some(newest) = held.iter().rposition(|h| h.lock == lock) {
            held.remove(newest);
        }
    });
}

fn newest_held() -> Option<Acquisition> {
    HELD.try_with(|held| held.borrow().last().copied()).ok().flatten()
}

impl fmt::Display for Acquisition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (acquired at {})", self.class.name(), self.site)
    }
}
