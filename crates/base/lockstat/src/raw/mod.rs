//! The bare locks: one or two words and the ways to wait. They have no class and count nothing.
//!
//! The algorithms in `mutex.rs`, `adaptive.rs` and `rwlock.rs` use the outside world only through
//! `super::sync`, so that `tests/loom.rs` can compile the same files with loom's version of it.

mod adaptive;
mod mutex;
mod rwlock;
mod spin;
mod sync;

pub(crate) use adaptive::Adaptive;
pub(crate) use mutex::FutexMutex;
pub(crate) use rwlock::FutexRwLock;
pub(crate) use spin::Spin;

/// The behaviour of a thread that waits for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Sleeps sooner or later.
    Sleeps,
    /// Stays awake: the lock is for leaf sections.
    Spins,
}

/// A bare lock with one holder.
///
/// # Safety
/// Between a successful `try_lock` or a return of `lock_slow` and the next `unlock`, no other thread
/// takes the lock, and the next holder sees everything written before an `unlock`.
pub unsafe trait RawLock {
    /// The lock, free.
    const INIT: Self;
    /// The behaviour of a waiting thread.
    const WAITING: Waiting;

    /// Takes the lock if it is free.
    fn try_lock(&self) -> bool;

    /// Takes the lock, and waits for it if necessary. Called after `try_lock` has failed.
    fn lock_slow(&self);

    /// Releases the lock, then wakes waiters. Returns whether a thread may have called the holder, for
    /// locks that can be called.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self) -> bool;

    /// Whether the lock is held at some moment during the call.
    fn is_locked(&self) -> bool;
}

/// How often a waiter of a `Mutex` checks the word before it sleeps. The checks take about two
/// microseconds: less than a sleep and a wake-up (measured on two cores: about 5 µs), and enough for the
/// short sections the lock is meant for.
const LOOKS: u32 = sync::PAUSES;

/// The lock of [`Mutex`](crate::Mutex).
pub(crate) type Sleeping = FutexMutex<LOOKS>;
/// The lock of [`HeavyMutex`](crate::HeavyMutex).
pub(crate) type Heavy = FutexMutex<0>;

// SAFETY: `FutexMutex::lock_slow` and `try_lock` return success only after they have changed the word
// from free to held, with Acquire; `unlock` changes it back with Release. tests/loom.rs checks it.
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

// SAFETY: `try_lock` and `lock_slow` return success only after they have changed the word from free to
// held or awaited, with Acquire; `unlock` changes it back with Release. tests/loom.rs checks it.
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
    /// Creates a free lock.
    pub(crate) const fn new() -> Self {
        Self::from_words(sync::Futex::new(0), sync::Futex::new(0))
    }
}

#[cfg(test)]
mod tests;
