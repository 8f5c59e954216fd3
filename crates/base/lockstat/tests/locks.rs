//! Goal: under real threads a held lock excludes other threads, and no waiter sleeps forever. Every test
//! has classes of its own, since tests share the process and its report.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use loligo_lockstat::{AdaptiveMutex, Class, HeavyMutex, Mutex, RwLock, SpinLock};

const THREADS: u64 = 8;
const ROUNDS: u64 = if cfg!(miri) { 30 } else { 5_000 };

/// Many threads increment a counter under a lock of the given type; no increment may be lost.
macro_rules! excludes {
    ($name:ident, $lock:ident) => {
        #[test]
        fn $name() {
            static CLASS: Class = Class::new(concat!("t.", stringify!($name)));
            let free = $lock::new(&CLASS, ());
            let guard = free.try_lock();
            assert!(guard.is_some() && free.try_lock().is_none());
            drop(guard);
            assert!(free.try_lock().is_some());

            let total = $lock::new(&CLASS, 0);
            thread::scope(|s| {
                for _ in 0..THREADS {
                    s.spawn(|| (0..ROUNDS).for_each(|_| *total.lock() += 1));
                }
            });
            assert_eq!(total.into_inner(), THREADS * ROUNDS);
        }
    };
}

excludes!(mutex_excludes, Mutex);
excludes!(spin_lock_excludes, SpinLock);
excludes!(heavy_mutex_excludes, HeavyMutex);
excludes!(adaptive_mutex_excludes, AdaptiveMutex);

#[test]
fn waiters_on_a_long_hold_all_get_through() {
    static CLASS: Class = Class::new("t.long_hold");
    let mutex = Mutex::new(&CLASS, 0);
    let heavy = HeavyMutex::new(&CLASS, 0);
    let spin = SpinLock::new(&CLASS, 0);
    let adaptive = AdaptiveMutex::new(&CLASS, 0);
    thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| hold_long(&mut mutex.lock()));
            s.spawn(|| hold_long(&mut heavy.lock()));
            s.spawn(|| hold_long(&mut spin.lock()));
            s.spawn(|| hold_long(&mut adaptive.lock()));
        }
    });
    let counts = [mutex.into_inner(), heavy.into_inner(), spin.into_inner(), adaptive.into_inner()];
    assert_eq!(counts, [THREADS; 4], "each got through, alone");
}

/// Counts one more, slowly: what another thread counted meanwhile would be lost.
fn hold_long(count: &mut u64) {
    let seen = *count;
    thread::sleep(Duration::from_millis(1));
    *count = seen + 1;
}

#[test]
fn readers_share_and_writers_exclude() {
    static CLASS: Class = Class::new("t.rwlock");
    let pair = RwLock::new(&CLASS, (0u64, 0u64));
    let readers = AtomicU32::new(0);
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut pair = pair.write();
                    pair.0 += 1;
                    assert_eq!(readers.load(Ordering::Relaxed), 0);
                    pair.1 += 1;
                }
            });
            s.spawn(|| {
                for _ in 0..ROUNDS {
                    let pair = pair.read();
                    readers.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(pair.0, pair.1);
                    readers.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(pair.into_inner(), (4 * ROUNDS, 4 * ROUNDS));
}

#[test]
fn a_reader_does_not_keep_another_out() {
    static CLASS: Class = Class::new("t.two_readers");
    let lock = RwLock::new(&CLASS, 7);
    let first = lock.read();
    thread::scope(|s| {
        s.spawn(|| assert_eq!(*lock.read(), 7)).join().expect("the second reader got in");
        s.spawn(|| assert!(lock.try_write().is_none())).join().expect("the writer did not");
    });
    drop(first);
    assert!(lock.try_write().is_some());
}

/// A panicking holder leaves each type of lock free, and wakes a sleeping waiter.
macro_rules! survives_a_panic {
    ($name:ident, $lock:ident, $take:ident) => {
        #[test]
        fn $name() {
            static CLASS: Class = Class::new(concat!("t.", stringify!($name)));
            let lock = $lock::new(&CLASS, 0);
            let held = Barrier::new(2);
            thread::scope(|s| {
                let holder = s.spawn(|| {
                    let mut value = lock.$take();
                    *value += 1;
                    held.wait();
                    // Usually long enough that the other thread sleeps. The result does not depend on
                    // it.
                    thread::sleep(Duration::from_millis(2));
                    std::panic::resume_unwind(Box::new(()));
                });
                held.wait();
                *lock.$take() += 1;
                assert!(holder.join().is_err());
            });
            assert_eq!(lock.into_inner(), 2);
        }
    };
}

survives_a_panic!(a_panic_releases_a_mutex, Mutex, lock);
survives_a_panic!(a_panic_releases_a_spin_lock, SpinLock, lock);
survives_a_panic!(a_panic_releases_a_heavy_mutex, HeavyMutex, lock);
survives_a_panic!(a_panic_releases_an_adaptive_mutex, AdaptiveMutex, lock);
survives_a_panic!(a_panic_releases_a_writer, RwLock, write);
