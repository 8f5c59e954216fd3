//! The raw lock below `SpinLock`.

use super::{RawLock, Sleeping, Waiting};

/// The lock of [`SpinLock`](crate::SpinLock): one for leaf sections.
///
/// A thread of a program, unlike one of the kernel, may lose its processor in the middle of the shortest
/// section. Who spun on, perhaps on the very processor that the holder needs, would waste whole time slices:
/// with 64 threads on two processors a lock whose waiters yielded and napped instead of sleeping took eight
/// times the processor time. So in the end this one's waiters sleep like a mutex's, and what makes it a spin
/// lock is what test builds demand of its sections.
pub struct Spin(Sleeping);

// SAFETY: as `Sleeping`, which does it all.
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
    /// Takes the lock, or has whoever holds it learn of that at the release.
    #[inline]
    pub(crate) fn try_lock_or_call(&self) -> bool {
        self.0.try_lock_or_call()
    }
}
