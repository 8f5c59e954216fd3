//! Classes of locks.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

/// A named class of locks: all locks that guard the same kind of data, for example every connection's
/// out-queue.
///
/// Counters and the lock order are per class. A class is a `static`; its name has the form
/// `crate.thing`.
pub struct Class {
    name: &'static str,
    nested_by_address: bool,
    /// 0 until the first use of the class; then constant.
    id: AtomicU32,
    /// The class that was registered before this one. Written before this class is published in [`NEWEST`].
    older: AtomicPtr<Class>,
    /// The number of holds still to be timed unconditionally, before only a sample is.
    to_be_timed: AtomicU8,
}

/// The number of holds per class that are always timed, so that reports have times of rarely taken
/// locks.
const TIMED_FIRST: u8 = 64;

/// The list of all classes used so far, newest first. It only grows.
static NEWEST: AtomicPtr<Class> = AtomicPtr::new(ptr::null_mut());

impl Class {
    /// Creates a class whose locks a thread never holds two at a time.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            nested_by_address: false,
            id: AtomicU32::new(0),
            older: AtomicPtr::new(ptr::null_mut()),
            to_be_timed: AtomicU8::new(TIMED_FIRST),
        }
    }

    /// Allows a thread to hold several locks of this class if it acquires them in ascending order of
    /// address: `static OBJECT: Class = Class::new("osd.object").nested_by_address();`
    ///
    /// The address is that of the lock, so the lock must not move in between. Test builds check the
    /// order.
    pub const fn nested_by_address(mut self) -> Self {
        self.nested_by_address = true;
        self
    }

    /// The class's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(debug_assertions)]
    pub(crate) fn is_nested_by_address(&self) -> bool {
        self.nested_by_address
    }

    /// The class's number, from 1; registers the class on the first call.
    pub(crate) fn id(&'static self) -> u32 {
        match self.id.load(Ordering::Acquire) {
            0 => self.register(),
            id => id,
        }
    }

    #[cold]
    fn register(&'static self) -> u32 {
        static NEXT_ID: AtomicU32 = AtomicU32::new(1);
        // Two threads may both draw a number here; the loser's number stays unused, which is harmless.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        if let Err(winner) = self.id.compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire) {
            return winner;
        }
        let me = ptr::from_ref(self).cast_mut();
        let mut newest = NEWEST.load(Ordering::Relaxed);
        loop {
            self.older.store(newest, Ordering::Relaxed);
            match NEWEST.compare_exchange_weak(newest, me, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return id,
                Err(now) => newest = now,
            }
        }
    }

    /// Whether this acquisition is one of the first of its class. Stops writing to the class once it is
    /// not.
    #[inline]
    pub(crate) fn is_one_of_the_first(&self) -> bool {
        // Relaxed: only the choice of timed holds depends on it; concurrent callers may time one or two
        // more.
        let left = self.to_be_timed.load(Ordering::Relaxed);
        if left > 0 {
            self.to_be_timed.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    /// Returns every class used so far, newest first.
    pub(crate) fn all() -> impl Iterator<Item = &'static Class> {
        let mut next = NEWEST.load(Ordering::Acquire);
        std::iter::from_fn(move || {
            // SAFETY: the list holds null or pointers made from `&'static Class` in `register`.
            let class: &'static Class = unsafe { next.as_ref() }?;
            next = class.older.load(Ordering::Relaxed);
            Some(class)
        })
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Class").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_register_each_class_once() {
        static CLASSES: [Class; 4] =
            [Class::new("t.a"), Class::new("t.b"), Class::new("t.c"), Class::new("t.d")];
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for class in &CLASSES {
                        assert_eq!(class.id(), class.id());
                    }
                });
            }
        });
        for class in &CLASSES {
            let seen = Class::all().filter(|c| ptr::eq(*c, class)).count();
            assert_eq!(seen, 1, "{class:?}");
        }
    }
}
