use super::{FutexMutex, RawLock, Waiting};

/// How often a waiter looks again before it concludes that the holder is not running. A leaf section takes some tens
/// of nanoseconds, this a microsecond or two.
const SPINS: u32 = 100;

/// The lock of [`SpinLock`](crate::SpinLock): one for leaf sections.
///
/// A thread of a program, unlike one of the kernel, may lose its processor in the middle of the shortest section. Who
/// spun on, perhaps on the very processor that the holder needs, would waste whole time slices: with 64 threads on
/// two processors a lock whose waiters yielded and napped instead of sleeping took eight times the processor time. So
/// in the end this one's waiters sleep like a mutex's, and what makes it a spin lock is what test builds demand of
/// its sections.
pub struct Spin(FutexMutex<SPINS>);

// SAFETY: as `FutexMutex`, which does it all.
unsafe impl RawLock for Spin {
    const INIT: Self = Self(FutexMutex::INIT);
    const WAITING: Waiting = Waiting::Spins;

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    fn lock_slow(&self) {
        self.0.lock_slow();
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.unlock();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}
