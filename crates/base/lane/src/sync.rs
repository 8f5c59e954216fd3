//! Atomics and locks. Under loom they are loom's.

#[cfg(not(loom))]
pub(crate) use loligo_lockstat::{Mutex as Lock, SpinLock as LeafLock, SpinLockGuard as LeafGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicUsize};
#[cfg(loom)]
pub(crate) use modelled::{LeafGuard, LeafLock, Lock};

pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

#[cfg(loom)]
mod modelled {
    use std::ops::{Deref, DerefMut};

    use loligo_lockstat::Class;
    use loom::cell::{MutPtr, UnsafeCell};
    use loom::sync::atomic::AtomicU32;
    use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
    use loom::sync::{Mutex, MutexGuard};
    use loom::thread;

    const FREE: u32 = 0;
    const HELD: u32 = 1;
    const CALLED: u32 = 2;

    /// A lock with the interface of `lockstat`'s, whose memory ordering is no stronger than a lock
    /// needs. loom's own mutex does not release in a step of its own, and would hide the interleavings
    /// in between.
    pub(crate) struct LeafLock<T> {
        word: AtomicU32,
        value: UnsafeCell<T>,
    }

    // SAFETY: one thread at a time has a guard; loom checks this.
    unsafe impl<T: Send> Sync for LeafLock<T> {}

    impl<T> LeafLock<T> {
        pub(crate) fn new(_class: &'static Class, value: T) -> Self {
            Self { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
        }

        pub(crate) fn try_lock(&self) -> Option<LeafGuard<'_, T>> {
            self.word.compare_exchange(FREE, HELD, Acquire, Relaxed).ok()?;
            Some(self.guard())
        }

        pub(crate) fn try_lock_or_call(&self) -> Option<LeafGuard<'_, T>> {
            (self.word.fetch_or(HELD | CALLED, AcqRel) == FREE).then(|| self.guard())
        }

        pub(crate) fn lock(&self) -> LeafGuard<'_, T> {
            loop {
                if let Some(guard) = self.try_lock() {
                    return guard;
                }
                thread::yield_now();
            }
        }

        pub(crate) fn release(mut guard: LeafGuard<'_, T>) -> bool {
            // The access ends before another thread may begin its own.
            guard.value = None;
            guard.lock.word.swap(FREE, AcqRel) != HELD
        }

        fn guard(&self) -> LeafGuard<'_, T> {
            LeafGuard { lock: self, value: Some(self.value.get_mut()) }
        }
    }

    /// A guard that must be released, not dropped.
    pub(crate) struct LeafGuard<'a, T> {
        lock: &'a LeafLock<T>,
        value: Option<MutPtr<T>>,
    }

    impl<T> Deref for LeafGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: this guard holds the lock.
            self.value.as_ref().expect("not released").with(|value| unsafe { &*value })
        }
    }

    impl<T> DerefMut for LeafGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: this guard holds the lock.
            self.value.as_ref().expect("not released").with(|value| unsafe { &mut *value })
        }
    }

    /// loom's mutex with the interface of `lockstat`'s locks.
    pub(crate) struct Lock<T>(Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(_class: &'static Class, value: T) -> Self {
            Self(Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("a model that panicked has failed already")
        }
    }
}
