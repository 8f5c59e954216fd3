//! The bare locks: a word or two and what to do while it is taken. No class, no counting.
//!
//! The algorithms in `mutex.rs`, `adaptive.rs` and `rwlock.rs` see the world only through `super::sync`, so
//! that `tests/loom.rs` can compile the same files against loom's.

mod adaptive;
mod mutex;
mod rwlock;
mod spin;
mod sync;

pub(crate) use adaptive::Adaptive;
pub(crate) use mutex::FutexMutex;
pub(crate) use rwlock::FutexRwLock;
pub(crate) use spin::Spin;

/// What a thread does while it waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Sleeps, sooner or later.
    Sleeps,
    /// Stays awake: the lock is for leaf sections.
    Spins,
}

/// A bare lock with one holder.
///
/// # Safety
/// Between a successful `try_lock` or a return of `lock_slow` and the next `unlock`, no other thread gets the
/// lock, and what was written before an `unlock` is seen by the next holder.
pub unsafe trait RawLock {
    /// The lock, free.
    const INIT: Self;
    /// What a waiting thread does.
    const WAITING: Waiting;

    /// Takes the lock if it is free.
    fn try_lock(&self) -> bool;

    /// Takes the lock, waiting as long as it takes. Called when `try_lock` has just failed.
    fn lock_slow(&self);

    /// Releases the lock, then wakes whom that concerns. Whether somebody may have called the holder, for
    /// locks that can be called.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self) -> bool;

    /// Whether somebody holds the lock, at some moment during the call.
    fn is_locked(&self) -> bool;
}

/// How often a `Mutex` looks before it sleeps: for about two microseconds, less than a sleep and a wake-up
/// cost (measured on two cores: about 5 µs), and long enough for the short sections it is meant for.
const LOOKS: u32 = sync::PAUSES;

/// The lock of [`Mutex`](crate::Mutex).
pub(crate) type Sleeping = FutexMutex<LOOKS>;
/// The lock of [`HeavyMutex`](crate::HeavyMutex).
pub(crate) type Heavy = FutexMutex<0>;

// SAFETY: `FutexMutex::lock` and `try_lock` return only after they have changed the word from free to held,
// with Acquire; `unlock` changes it back with Release. tests/loom.rs checks it.
unsafe impl<const LOOKS: u32> RawLock for FutexMutex<LOOKS> {
    const INIT: Self = Self::from_word(sync::Futex::new(mutex::FREE));
    const WAITING: Waiting = Waiting::Sleeps;

    #[inline]
    fn try_lock(&self) -> bool {
        FutexMutex::try_lock(self)
    }

    fn lock_slow(&self) {
        FutexMutex::lock_slow(self);
    }

    #[inline]
    unsafe fn unlock(&self) -> bool {
        FutexMutex::unlock(self);
        false
    }

    fn is_locked(&self) -> bool {
        FutexMutex::is_locked(self)
    }
}

// SAFETY: `try_lock` and `lock_slow` return only after they have changed the word from free to held or
// awaited, with Acquire; `unlock` changes it back with Release. tests/loom.rs checks it.
unsafe impl RawLock for Adaptive {
    const INIT: Self = Self::from_parts(
        sync::Futex::new(mutex::FREE),
        sync::AtomicU32::new(0),
        [const { sync::AtomicU64::new(0) }; 2],
    );
    const WAITING: Waiting = Waiting::Sleeps;

    #[inline]
    fn try_lock(&self) -> bool {
        Adaptive::try_lock(self)
    }

    fn lock_slow(&self) {
        Adaptive::lock_slow(self);
    }

    #[inline]
    unsafe fn unlock(&self) -> bool {
        Adaptive::unlock(self);
        false
    }

    fn is_locked(&self) -> bool {
        Adaptive::is_locked(self)
    }
}

impl FutexRwLock {
    /// A free lock.
    pub(crate) const fn new() -> Self {
        Self::from_words(sync::Futex::new(0), sync::Futex::new(0))
    }
}

#[cfg(test)]
mod tests;
