//! Goal: observers are told of each single wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::thread;
use std::time::{Duration, Instant};

use loligo_lockstat::{Class, Kind, Mutex, RwLock, Wait, observe, waited_by_this_thread};

const HOLD: Duration = Duration::from_millis(20);

static QUEUE: Class = Class::new("t.observed_queue");
static TABLE: Class = Class::new("t.observed_table");
static FREE: Class = Class::new("t.observed_free");

/// Collects the observed waits for locks of this class from now on.
fn told_of(class: &'static str) -> (Arc<StdMutex<Vec<Wait>>>, loligo_lockstat::Observing) {
    let told = Arc::new(StdMutex::new(Vec::new()));
    let into = Arc::clone(&told);
    let observing = observe(move |wait| {
        if wait.class == class {
            into.lock().expect("not poisoned").push(*wait);
        }
    });
    (told, observing)
}

/// Runs `hold` in another thread while this one runs `wait`. Repeats both until `wait` has really
/// waited: the other thread may be preempted.
fn while_held(hold: impl Fn(&AtomicBool) + Sync, wait: impl Fn() -> Duration) -> Duration {
    loop {
        let is_held = AtomicBool::new(false);
        let waited = thread::scope(|scope| {
            scope.spawn(|| hold(&is_held));
            while !is_held.load(Ordering::Acquire) {
                thread::yield_now();
            }
            wait()
        });
        if waited > Duration::ZERO {
            return waited;
        }
    }
}

#[test]
fn each_wait_is_told_with_its_places_and_times() {
    let mutex = Mutex::new(&QUEUE, ());
    let (told, observing) = told_of("t.observed_queue");
    let before = Instant::now();
    let hold = |is_held: &AtomicBool| {
        let _held = mutex.lock();
        is_held.store(true, Ordering::Release);
        thread::sleep(HOLD);
    };
    let waited = while_held(hold, || {
        let before = waited_by_this_thread();
        drop(mutex.lock());
        waited_by_this_thread() - before
    });
    let after = Instant::now();
    let told = told.lock().expect("not poisoned").clone();
    let wait = told.last().expect("it was waited for");
    assert_eq!((wait.kind, wait.took), (Kind::Exclusive, waited));
    assert!(wait.waiter.file().ends_with("observe.rs"));
    assert!(wait.holder.is_some_and(|holder| holder.line() != wait.waiter.line()));
    // The two clocks agree to a few microseconds.
    let slack = Duration::from_millis(1);
    assert!(wait.began + slack >= before && wait.began + wait.took <= after + slack, "{wait:?}");
    drop(observing);
}

#[test]
fn readers_and_writers_are_told_apart() {
    let table = RwLock::new(&TABLE, ());
    let (told, _observing) = told_of("t.observed_table");
    let hold = |is_held: &AtomicBool| {
        let _held = table.write();
        is_held.store(true, Ordering::Release);
        thread::sleep(HOLD);
    };
    while_held(hold, || {
        let before = waited_by_this_thread();
        drop(table.read());
        waited_by_this_thread() - before
    });
    assert_eq!(told.lock().expect("not poisoned").last().map(|wait| wait.kind), Some(Kind::Read));
}

#[test]
fn nothing_is_told_of_free_locks_nor_to_those_who_have_gone() {
    let mutex = Mutex::new(&FREE, ());
    let (told, observing) = told_of("t.observed_free");
    let before = waited_by_this_thread();
    (0..1000).for_each(|_| drop(mutex.lock()));
    assert_eq!(waited_by_this_thread(), before);
    drop(observing);
    let hold = |is_held: &AtomicBool| {
        let _held = mutex.lock();
        is_held.store(true, Ordering::Release);
        thread::sleep(HOLD);
    };
    while_held(hold, || {
        let before = waited_by_this_thread();
        drop(mutex.lock());
        waited_by_this_thread() - before
    });
    assert!(told.lock().expect("not poisoned").is_empty());
}
