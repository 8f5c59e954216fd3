//! Atomics and the lock, from one place: under loom they are loom's.

#[cfg(not(loom))]
pub(crate) use loligo_lockstat::Mutex as Lock;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicUsize};
#[cfg(loom)]
pub(crate) use modelled::Lock;

pub(crate) use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

#[cfg(loom)]
mod modelled {
    use loligo_lockstat::Class;
    use loom::sync::{Mutex, MutexGuard};

    /// loom's mutex in the shape of `lockstat`'s locks.
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
