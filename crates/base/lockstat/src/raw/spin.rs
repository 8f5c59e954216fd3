//! The bare lock of `SpinLock`.

use super::{RawLock, Sleeping, Waiting};

/// The lock of [`SpinLock`](crate::SpinLock), for leaf sections.
///
/// A thread in user space, unlike one in the kernel, can be preempted in the shortest section. A waiter
/// that spins on, perhaps on the very processor that the holder needs, wastes whole time slices: with 64
/// threads on two processors, a lock whose waiters yielded and napped instead of sleeping took eight
/// times the CPU time. So waiters of this lock sleep in the end, like those of a mutex. The difference
/// is that test builds check what its sections do.
pub struct Spin(Sleeping);

// SAFETY: as for `Sleeping`, to which all methods delegate.
unsafe impl RawLock for Spin {
    const INIT: Self = Self(Sleeping::INIT);
    const WAITING: Waiting = Waiting::Spins;

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    fn lock_slow(&self) {
        self.0.lock_slow();
    }

    #[inline]
    unsafe fn unlock(&self) -> bool {
        Sleeping::unlock(&self.0)
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

impl Spin {
    /// Takes the lock, or calls its holder, which learns of the call at the release.
    #[inline]
    pub(crate) fn try_lock_or_call(&self) -> bool {
        self.0.try_lock_or_call()
    }
}
