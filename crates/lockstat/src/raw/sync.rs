//! What the algorithms need from outside: atomics, a futex, a pause. `tests/loom.rs` has a namesake made of loom's.

use std::ptr;

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::AtomicU32;
pub(super) use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A word on which threads can sleep.
pub(super) struct Futex(AtomicU32);

impl Futex {
    pub(super) const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    pub(super) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Sleeps if the word still has this value, until woken, or for no reason.
    pub(super) fn wait(&self, value: u32) {
        // SAFETY: the word outlives the call; a null time-out means none. An error (the value has changed, a signal)
        // is a return for no reason.
        unsafe {
            let forever: *const libc::timespec = ptr::null();
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                value,
                forever,
            );
        }
    }

    /// Wakes one sleeping thread; says whether there was one.
    pub(super) fn wake_one(&self) -> bool {
        self.wake(1) > 0
    }

    /// Wakes all threads that sleep.
    pub(super) fn wake_all(&self) {
        self.wake(i32::MAX);
    }

    fn wake(&self, threads_max: i32) -> libc::c_long {
        // SAFETY: the kernel only compares the address, it reads nothing there; so it may even be gone by now, as it
        // is when the next holder has dropped the lock already.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.0.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                threads_max,
            )
        }
    }
}
