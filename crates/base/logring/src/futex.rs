//! Sleeping until a word changes. Unlike the system's other ways to sleep, a futex may be used in a
//! signal handler.

use std::time::Duration;

use crate::sync::AtomicU32;

/// Sleeps while `word` is `expected`, at most `timeout`. May return spuriously.
#[cfg(not(loom))]
pub(crate) fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs() as libc::time_t,
        tv_nsec: timeout.subsec_nanos() as libc::c_long,
    };
    let flags = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time outlive the call, which writes to neither.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, expected, &timeout) };
}

/// Wakes all threads that sleep on `word`.
#[cfg(not(loom))]
pub(crate) fn wake(word: &AtomicU32) {
    let flags = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address only as a key.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), flags, libc::c_int::MAX) };
}

/// Models have no timeout, so a lost wake-up makes them fail.
#[cfg(loom)]
pub(crate) fn wait(word: &AtomicU32, expected: u32, _timeout: Duration) {
    while word.load(std::sync::atomic::Ordering::Acquire) == expected {
        loom::thread::yield_now();
    }
}

#[cfg(loom)]
pub(crate) fn wake(_word: &AtomicU32) {}
