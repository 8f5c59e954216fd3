use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{RawLock, Waiting};

/// How often a waiter looks before it concludes that the holder is not running: some microseconds, many times what a
/// leaf section takes.
const SPINS: u32 = 400;
/// How often it then yields its processor before it begins to sleep.
const YIELDS: u32 = 4;
/// How long it sleeps between looks after that. Nobody wakes it: the holder releases with a plain store.
const NAP: Duration = Duration::from_micros(50);

/// A lock that is released by a plain store.
///
/// On a user-space thread the holder may lose its processor in the middle of even the shortest section. Who spun on
/// would burn whole time slices, perhaps the very processor that the holder needs; so after some microseconds a
/// waiter yields, and then naps.
pub struct Spin {
    held: AtomicBool,
}

// SAFETY: `try_lock` succeeds for the one thread that changes `held` from false to true, with Acquire; `unlock`
// stores false with Release.
unsafe impl RawLock for Spin {
    const INIT: Self = Self { held: AtomicBool::new(false) };
    const WAITING: Waiting = Waiting::Spins;

    #[inline]
    fn try_lock(&self) -> bool {
        self.held.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn lock_slow(&self) {
        let mut yields = 0;
        loop {
            for _ in 0..SPINS {
                // Look before trying: a failed compare-and-swap takes the line away from the holder.
                if !self.held.load(Ordering::Relaxed) && self.try_lock() {
                    return;
                }
                hint::spin_loop();
            }
            if yields < YIELDS {
                yields += 1;
                thread::yield_now();
            } else {
                thread::sleep(NAP);
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.held.store(false, Ordering::Release);
    }

    fn is_locked(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }
}
