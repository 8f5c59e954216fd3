//! Every interleaving of a few threads on the bare locks: the locks exclude, publish writes, and wake
//! sleepers.
//!
//! The files of the algorithms are compiled again here, with atomics and a futex made with loom.
//! `RUSTFLAGS="--cfg loom" cargo test -p loligo-lockstat --release --test loom`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

#[path = "../src/raw"]
#[allow(dead_code, unreachable_pub, reason = "the library uses more of these than the models do")]
mod raw {
    /// More checks would add interleavings, but no new interesting ones.
    const LOOKS: u32 = 0;

    pub(crate) mod adaptive;
    pub(crate) mod mutex;
    pub(crate) mod rwlock;

    /// The counterpart of `src/raw/sync.rs`.
    mod sync {
        pub(super) use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
        pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64};
        use loom::sync::{Condvar, Mutex};

        pub(super) fn pause(_step: u32) {
            loom::thread::yield_now();
        }

        /// Each reading advances the clock by a tick: with a stopped clock a spinning waiter would never
        /// sleep.
        pub(super) fn now() -> u64 {
            TICKS.with(|ticks| {
                ticks.set(ticks.get() + 1);
                ticks.get()
            })
        }

        loom::thread_local! {
            static TICKS: std::cell::Cell<u64> = std::cell::Cell::new(0);
        }

        /// Enough for a waiter to check once or twice.
        pub(super) fn wake_cost() -> u64 {
            2
        }

        pub(super) fn learn_wake_cost(_ticks: u64) {}

        /// A futex: checking the word and going to sleep are one step, under `asleep`.
        pub(super) struct Futex {
            word: AtomicU32,
            asleep: Mutex<u32>,
            wakeup: Condvar,
        }

        impl Futex {
            pub(super) fn new(value: u32) -> Self {
                Self { word: AtomicU32::new(value), asleep: Mutex::new(0), wakeup: Condvar::new() }
            }

            pub(super) fn word(&self) -> &AtomicU32 {
                &self.word
            }

            pub(super) fn wait(&self, value: u32) -> bool {
                let mut asleep = self.asleep.lock().expect("no panic");
                if self.word.load(Relaxed) != value {
                    return false;
                }
                *asleep += 1;
                let mut asleep = self.wakeup.wait(asleep).expect("no panic");
                *asleep -= 1;
                true
            }

            pub(super) fn wake_one(&self) -> bool {
                let asleep = self.asleep.lock().expect("no panic");
                self.wakeup.notify_one();
                *asleep > 0
            }

            pub(super) fn wake_all(&self) {
                let _asleep = self.asleep.lock().expect("no panic");
                self.wakeup.notify_all();
            }
        }
    }

    impl<const LOOKS: u32> mutex::FutexMutex<LOOKS> {
        pub(crate) fn free() -> Self {
            Self::from_word(sync::Futex::new(mutex::FREE))
        }
    }

    impl adaptive::Adaptive {
        pub(crate) fn free() -> Self {
            use sync::{AtomicU32, AtomicU64, Futex};
            Self::from_parts(
                Futex::new(mutex::FREE),
                AtomicU32::new(0),
                [AtomicU64::new(0), AtomicU64::new(0)],
            )
        }
    }

    impl rwlock::FutexRwLock {
        pub(crate) fn free() -> Self {
            Self::from_words(sync::Futex::new(0), sync::Futex::new(0))
        }
    }
}

use raw::adaptive::Adaptive;
use raw::mutex::FutexMutex;
use raw::rwlock::FutexRwLock;

/// A counter that is protected only by the lock. loom reports concurrent accesses, and an access that
/// does not see an earlier one.
struct Guarded<L> {
    lock: L,
    value: UnsafeCell<u32>,
}

impl<L> Guarded<L> {
    fn new(lock: L) -> Arc<Self> {
        Arc::new(Self { lock, value: UnsafeCell::new(0) })
    }

    fn bump(&self) {
        // SAFETY: the caller holds the lock for writing; loom checks that this suffices.
        self.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: the caller holds the lock, or is the only thread.
        self.value.with(|value| unsafe { *value })
    }
}

fn increment<const LOOKS: u32>(guarded: &Guarded<FutexMutex<LOOKS>>) {
    if !guarded.lock.try_lock() {
        guarded.lock.lock_slow();
    }
    guarded.bump();
    guarded.lock.unlock();
}

fn increment_adaptive(guarded: &Guarded<Adaptive>) {
    if !guarded.lock.try_lock() {
        guarded.lock.lock_slow();
    }
    guarded.bump();
    guarded.lock.unlock();
}

fn write(guarded: &Guarded<FutexRwLock>) {
    if !guarded.lock.try_lock_exclusive() {
        guarded.lock.lock_exclusive_slow();
    }
    guarded.bump();
    guarded.lock.unlock_exclusive();
}

fn read(guarded: &Guarded<FutexRwLock>) -> u32 {
    if !guarded.lock.try_lock_shared() {
        guarded.lock.lock_shared_slow();
    }
    let value = guarded.read();
    guarded.lock.unlock_shared();
    value
}

fn check(preemptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(preemptions_max);
    bounded.check(model);
}

/// Work that callers leave to the lock's holder instead of waiting for the lock.
struct Called {
    lock: FutexMutex<0>,
    left: AtomicU32,
    done: UnsafeCell<u32>,
}

impl Called {
    fn new() -> Arc<Self> {
        Arc::new(Self { lock: FutexMutex::free(), left: AtomicU32::new(0), done: UnsafeCell::new(0) })
    }

    /// Called with the lock held. Does the work left, releases the lock, and repeats both if the lock
    /// was called.
    fn hold(&self) {
        loop {
            // SAFETY: this thread holds the lock; loom checks this.
            self.done.with_mut(|done| unsafe { *done += self.left.swap(0, Relaxed) });
            let is_called = self.lock.unlock();
            if !is_called || self.left.load(Relaxed) == 0 || !self.lock.try_lock_or_call() {
                return;
            }
        }
    }

    fn leave(&self) {
        self.left.fetch_add(1, Relaxed);
        if self.lock.try_lock_or_call() {
            self.hold();
        }
    }

    /// Waits for the lock, and does the work left only if the lock was called.
    fn wait(&self) {
        if !self.lock.try_lock() {
            self.lock.lock_slow();
        }
        if self.lock.unlock() && self.lock.try_lock_or_call() {
            self.hold();
        }
    }

    fn done(&self) -> u32 {
        // SAFETY: the threads have been joined.
        self.done.with(|done| unsafe { *done })
    }
}

#[test]
fn no_call_is_lost() {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(3);
    bounded.check(|| {
        let called = Called::new();
        let threads = [0, 1].map(|_| {
            let called = called.clone();
            thread::spawn(move || called.leave())
        });
        called.leave();
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(called.done(), 3);
    });
}

#[test]
fn no_call_is_lost_to_one_that_sleeps() {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(3);
    bounded.check(|| {
        let called = Called::new();
        let (waiter, caller) = (called.clone(), called.clone());
        let waiter = thread::spawn(move || waiter.wait());
        let caller = thread::spawn(move || caller.leave());
        called.wait();
        waiter.join().expect("no panic");
        caller.join().expect("no panic");
        assert_eq!(called.done(), 1);
    });
}

#[test]
fn a_mutex_excludes_and_wakes() {
    check(3, || {
        let guarded = Guarded::new(FutexMutex::<0>::free());
        let threads = [(); 2].map(|()| {
            let guarded = guarded.clone();
            thread::spawn(move || increment(&guarded))
        });
        increment(&guarded);
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(guarded.read(), 3);
    });
}

/// With a check before sleeping: a waiter that is awake may take the lock for which a sleeper was woken.
#[test]
fn a_mutex_excludes_and_wakes_while_others_look() {
    check(2, || {
        let guarded = Guarded::new(FutexMutex::<1>::free());
        let threads = [(); 2].map(|()| {
            let guarded = guarded.clone();
            thread::spawn(move || increment(&guarded))
        });
        increment(&guarded);
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(guarded.read(), 3);
    });
}

#[test]
fn a_mutex_taken_again_and_again() {
    check(4, || {
        let guarded = Guarded::new(FutexMutex::<0>::free());
        let other = guarded.clone();
        let thread = thread::spawn(move || (0..2).for_each(|_| increment(&other)));
        (0..2).for_each(|_| increment(&guarded));
        thread.join().expect("no panic");
        assert_eq!(guarded.read(), 4);
    });
}

#[test]
fn an_adaptive_mutex_excludes_and_wakes() {
    check(2, || {
        let guarded = Guarded::new(Adaptive::free());
        let threads = [(); 2].map(|()| {
            let guarded = guarded.clone();
            thread::spawn(move || increment_adaptive(&guarded))
        });
        increment_adaptive(&guarded);
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(guarded.read(), 3);
    });
}

#[test]
fn an_adaptive_mutex_taken_again_and_again() {
    check(3, || {
        let guarded = Guarded::new(Adaptive::free());
        let other = guarded.clone();
        let thread = thread::spawn(move || (0..2).for_each(|_| increment_adaptive(&other)));
        (0..2).for_each(|_| increment_adaptive(&guarded));
        thread.join().expect("no panic");
        assert_eq!(guarded.read(), 4);
    });
}

#[test]
fn writers_exclude_each_other_and_wake() {
    check(3, || {
        let guarded = Guarded::new(FutexRwLock::free());
        let threads = [(); 2].map(|()| {
            let guarded = guarded.clone();
            thread::spawn(move || write(&guarded))
        });
        write(&guarded);
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(guarded.read(), 3);
    });
}

#[test]
fn a_writer_and_two_readers() {
    check(3, || {
        let guarded = Guarded::new(FutexRwLock::free());
        let threads = [(); 2].map(|()| {
            let guarded = guarded.clone();
            thread::spawn(move || assert!(read(&guarded) <= 1))
        });
        write(&guarded);
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(guarded.read(), 1);
    });
}

#[test]
fn two_writers_and_a_reader() {
    check(3, || {
        let guarded = Guarded::new(FutexRwLock::free());
        let writer = guarded.clone();
        let reader = guarded.clone();
        let threads =
            [thread::spawn(move || write(&writer)), thread::spawn(move || assert!(read(&reader) <= 2))];
        write(&guarded);
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(guarded.read(), 2);
    });
}
