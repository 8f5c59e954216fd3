//! The kinds of locks.

use std::fmt;

use crate::Class;
use crate::raw::{Adaptive, FutexRwLock, Heavy, RawLock, Sleeping, Spin};
use crate::tracked::{Tracked, take_called};

/// The ordinary lock: a waiter spins for about two microseconds, then sleeps.
pub type Mutex<T> = Lock<Sleeping, T>;
/// A lock for leaf sections: some tens of instructions that take no lock which may sleep, and do not wait or
/// allocate.
///
/// Test builds see to that. The lock itself is as short-spinning as a [`Mutex`]: on a thread of a program,
/// whose processor may be taken away at any instruction, one that only spins is a trap.
pub type SpinLock<T> = Lock<Spin, T>;
/// A lock that may be held for long: a waiter sleeps at once and burns no processor.
pub type HeavyMutex<T> = Lock<Heavy, T>;
/// A lock that finds out by itself: a waiter spins only while the lock's mean hold is shorter than a sleep
/// and a wake-up, and no longer than those take.
///
/// Each lock measures its holds, those that somebody waited for; what sleeping costs is learnt for the
/// process. When holds become long, one is enough to stop the spinning; when they become short again, 16
/// bring it back. There is nothing to set. An undisturbed release costs one load more than that of a
/// [`Mutex`].
pub type AdaptiveMutex<T> = Lock<Adaptive, T>;

/// What [`Mutex::lock`](Lock::lock) returns; dropping it releases the lock.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Sleeping>, T>;
/// What [`SpinLock::lock`](Lock::lock) returns; dropping it releases the lock.
pub type SpinLockGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Spin>, T>;
/// What [`HeavyMutex::lock`](Lock::lock) returns; dropping it releases the lock.
pub type HeavyMutexGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Heavy>, T>;
/// What [`AdaptiveMutex::lock`](Lock::lock) returns; dropping it releases the lock.
pub type AdaptiveMutexGuard<'a, T> = lock_api::MutexGuard<'a, Tracked<Adaptive>, T>;
/// What [`RwLock::read`] returns; dropping it releases the lock.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, Tracked<FutexRwLock>, T>;
/// What [`RwLock::write`] returns; dropping it releases the lock.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, Tracked<FutexRwLock>, T>;

/// A value that one thread at a time may touch. Used by the names [`Mutex`], [`SpinLock`], [`HeavyMutex`] and
/// [`AdaptiveMutex`], which say what a waiting thread does.
///
/// In test builds `lock` panics if the thread holds this lock already, another one of its class (see
/// [`Class::nested_by_address`]), a [`SpinLock`] while this one may sleep, or a lock before which this one
/// must be taken.
pub struct Lock<R, T: ?Sized> {
    inner: lock_api::Mutex<Tracked<R>, T>,
}

impl<R: RawLock, T> Lock<R, T> {
    /// A free lock of a class.
    pub const fn new(class: &'static Class, value: T) -> Self {
        Self { inner: lock_api::Mutex::from_raw(Tracked::new(R::INIT, class), value) }
    }

    /// The value, when nobody else can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<R: RawLock, T: ?Sized> Lock<R, T> {
    /// Takes the lock, waiting as long as it takes.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> lock_api::MutexGuard<'_, Tracked<R>, T> {
        self.inner.lock()
    }

    /// Takes the lock if it is free. Never waits, so neither order nor nesting is checked for it.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<lock_api::MutexGuard<'_, Tracked<R>, T>> {
        self.inner.try_lock()
    }

    /// The value, when nobody else can hold the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    /// Whether somebody held the lock at some moment during the call; for assertions.
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
    /// Takes the lock if it is free; else calls its holder, who learns of it when he
    /// [releases](Self::release) the lock. Never waits, and counts as a wait in no report.
    #[inline]
    #[track_caller]
    pub fn try_lock_or_call(&self) -> Option<SpinLockGuard<'_, T>> {
        // SAFETY: the raw lock is only taken, and that is what the guard stands for.
        unsafe {
            let hold = self.inner.raw().try_lock_or_call()?;
            Some(self.inner.make_guard_unchecked(hold))
        }
    }

    /// Releases the lock. Whether somebody has called; sometimes this is said when nobody has. Who learns of
    /// a call sees what the caller did before it.
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
/// The checks of test builds are those of [`Lock`]; a thread may not hold the same lock twice, not even to
/// read, since a writer that waits in between would block both.
pub struct RwLock<T: ?Sized> {
    inner: lock_api::RwLock<Tracked<FutexRwLock>, T>,
}

impl<T> RwLock<T> {
    /// A free lock of a class.
    pub const fn new(class: &'static Class, value: T) -> Self {
        Self { inner: lock_api::RwLock::from_raw(Tracked::new(FutexRwLock::new(), class), value) }
    }

    /// The value, when nobody else can hold the lock any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock to read, waiting as long as it takes.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.inner.read()
    }

    /// Takes the lock to write, waiting as long as it takes.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.inner.write()
    }

    /// Takes the lock to read if that needs no waiting.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.inner.try_read()
    }

    /// Takes the lock to write if that needs no waiting.
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.inner.try_write()
    }

    /// The value, when nobody else can hold the lock.
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
