//! The lock types.

use std::fmt;

use crate::Class;
use crate::raw::{Adaptive, FutexRwLock, Heavy, RawLock, Sleeping, Spin};
use crate::tracked::{Tracked, take_called};

/// The ordinary lock: a waiter spins for about two microseconds, then sleeps.
pub type Mutex<T> = Lock<Sleeping, T>;
/// A lock for leaf sections: some tens of instructions that take no lock which may sleep, and neither
/// wait nor allocate.
///
/// Test builds panic if such a section acquires a lock that may sleep. A waiter spins as briefly as with
/// a [`Mutex`] and then sleeps: a thread in user space can be preempted at any instruction, and then a
/// lock that only spins would waste whole time slices.
pub type SpinLock<T> = Lock<Spin, T>;
/// A lock that may be held for long: a waiter sleeps at once and uses no CPU time.
pub type HeavyMutex<T> = Lock<Heavy, T>;
/// A lock that adapts: a waiter spins only while the lock's mean hold is shorter than a sleep and a
/// wake-up, and no longer than these take.
///
/// Each lock measures those of its holds for which a thread waited; the cost of sleeping is learnt per
/// process. When holds become long, one of them is enough to stop the spinning; when they become short
/// again, 16 of them restore it. There are no settings. An uncontended release costs one load more than
/// that of a [`Mutex`].
pub type AdaptiveMutex<T> = Lock<Adaptive, T>;

/// The guard of [`Mutex::lock`](Lock::lock); dropping it releases the lock.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Sleeping>, T>;
/// The guard of [`SpinLock::lock`](Lock::lock); dropping it releases the lock.
pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Spin>, T>;
/// The guard of [`HeavyMutex::lock`](Lock::lock); dropping it releases the lock.
pub type HeavyMutexGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Heavy>, T>;
/// The guard of [`AdaptiveMutex::lock`](Lock::lock); dropping it releases the lock.
pub type AdaptiveMutexGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Adaptive>, T>;
/// The guard of [`RwLock::read`]; dropping it releases the lock.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, Tracked<FutexRwLock>, T>;
/// The guard of [`RwLock::write`]; dropping it releases the lock.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, Tracked<FutexRwLock>, T>;

/// A value that one thread at a time may access. Used under the names [`Mutex`], [`SpinLock`],
/// [`HeavyMutex`] and [`AdaptiveMutex`], which differ in how a thread waits.
///
/// In test builds `lock` panics if the thread already holds this lock, another lock of its class (see
/// [`Class::nested_by_address`]), a [`SpinLock`] while this lock may sleep, or a lock that must be taken
/// after this one.
pub struct Lock<R, T: ?Sized> {
    inner: lock_api::Mutex<Tracked<R>, T>,
}

impl<R: RawLock, T> Lock<R, T> {
    /// Creates a free lock of a class.
    pub const fn new(class: &'static Class, value: T) -> Self {
        Self { inner: lock_api::Mutex::from_raw(Tracked::new(R::INIT, class), value) }
    }

    /// Returns the value. The lock is owned here, so no other thread can hold it.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<R: RawLock, T: ?Sized> Lock<R, T> {
    /// Takes the lock, and waits for it if it is held.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> lock_api::MutexGuard<'_, Tracked<R>, T> {
        self.inner.lock()
    }

    /// Takes the lock if it is free. Never waits, so the checks of order and nesting do not apply.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<lock_api::MutexGuard<'_, Tracked<R>, T>> {
        self.inner.try_lock()
    }

    /// Returns the value. The lock is borrowed mutably, so no other thread can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Whether the lock was held at some moment during the call; for assertions.
    pub fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    /// The lock's class.
    pub fn class(&self) -> &'static Class {
        // SAFETY: the raw lock is only read, not taken or released.
        unsafe { self.inner.raw() }.class()
    }
}

impl<T: ?Sized> SpinLock<T> {
    /// Takes the lock if it is free; otherwise calls its owner, which learns of the call when it
    /// [releases](Self::release) the lock. Never waits, and no report counts it as a wait.
    #[inline]
    #[track_caller]
    pub fn try_lock_or_call(&self) -> Option<SpinLockGuard<'_, T>> {
        // SAFETY: the raw lock is only taken, and the guard stands for that.
        unsafe {
            let hold = self.inner.raw().try_lock_or_call()?;
            Some(self.inner.make_guard_unchecked(hold))
        }
    }

    /// Releases the lock. Returns whether a thread may have called; it may be true without a call. An
    /// owner that learns of a call sees everything the caller did before it.
    #[inline]
    pub fn release(guard: SpinLockGuard<'_, T>) -> bool {
        drop(guard);
        take_called()
    }
}

impl<R: RawLock, T: ?Sized + fmt::Debug> fmt::Debug for Lock<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Lock");
        out.field("class", &self.class().name());
        match self.inner.try_lock() {
            Some(value) => out.field("value", &&*value),
            None => out.field("value", &format_args!("<locked>")),
        };
        out.finish()
    }
}

/// A value that many threads may read or one may write. Waiting writers go before new readers.
///
/// In test builds the checks of [`Lock`] apply. A thread may not hold the same lock twice, not even for
/// reading: a writer that waits in between would block both.
pub struct RwLock<T: ?Sized> {
    inner: lock_api::RwLock<Tracked<FutexRwLock>, T>,
}

impl<T> RwLock<T> {
    /// Creates a free lock of a class.
    pub const fn new(class: &'static Class, value: T) -> Self {
        Self { inner: lock_api::RwLock::from_raw(Tracked::new(FutexRwLock::new(), class), value) }
    }

    /// Returns the value. The lock is owned here, so no other thread can hold it.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock for reading, and waits for it if necessary.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.inner.read()
    }

    /// Takes the lock for writing, and waits for it if necessary.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.inner.write()
    }

    /// Takes the lock for reading if this needs no wait.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.inner.try_read()
    }

    /// Takes the lock for writing if this needs no wait.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.inner.try_write()
    }

    /// Returns the value. The lock is borrowed mutably, so no other thread can hold it.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// The lock's class.
    pub fn class(&self) -> &'static Class {
        // SAFETY: the raw lock is only read, not taken or released.
        unsafe { self.inner.raw() }.class()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("RwLock");
        out.field("class", &self.class().name());
        match self.inner.try_read() {
            Some(value) => out.field("value", &&*value),
            None => out.field("value", &format_args!("<locked>")),
        };
        out.finish()
    }
}
