//! The lane's lock: a spin lock, since no section does more than move an item; under loom, loom's.

#[cfg(not(loom))]
pub(crate) use loligo_lockstat::SpinLock as Lock;

#[cfg(loom)]
pub(crate) use modelled::Lock;

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
