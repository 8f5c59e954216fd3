//! Goal: test builds detect blocking while a lock is held, a contradiction to the order of classes, and
//! a lock that may sleep within a spin lock's section.
#![cfg(debug_assertions)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use loligo_lockstat::{Class, HeavyMutex, Mutex, RwLock, SpinLock, blocking_point};

/// Returns the message with which `f` panics. Runs `f` on a thread of its own, so that no list of held
/// locks remains.
fn panic_of(f: impl FnOnce() + Send) -> String {
    let caught = thread::scope(|s| s.spawn(|| catch_unwind(AssertUnwindSafe(f))).join());
    let payload = caught.expect("the panic was caught").expect_err("this should panic");
    payload.downcast_ref::<String>().expect("a message with values in it").clone()
}

fn assert_names(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "no {part:?} in: {message}");
    }
}

#[test]
fn waiting_while_holding_a_lock_panics() {
    static A: Class = Class::new("t.blocking");
    let message = panic_of(|| {
        let lock = HeavyMutex::new(&A, ());
        let _guard = lock.lock();
        blocking_point("socket write");
    });
    assert_names(&message, &["socket write", "`t.blocking`", "checks.rs:"]);
    // Without a held lock, or after its release, there is no panic.
    let lock = RwLock::new(&A, ());
    blocking_point("socket write");
    drop(lock.read());
    drop(lock.try_write());
    blocking_point("socket write");
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    static A: Class = Class::new("t.any_order.a");
    static B: Class = Class::new("t.any_order.b");
    let (a, b) = (Mutex::new(&A, ()), Mutex::new(&B, ()));
    let message = panic_of(|| {
        let (first, _second) = (a.lock(), b.lock());
        drop(first);
        blocking_point("one is left");
    });
    assert_names(&message, &["one is left", "`t.any_order.b`"]);
    assert!(!message.contains("t.any_order.a"), "{message}");
    let (first, second) = (a.lock(), b.lock());
    drop(first);
    drop(second);
    blocking_point("all released");
}

#[test]
fn the_opposite_order_panics_and_names_both_chains() {
    static A: Class = Class::new("t.order.a");
    static B: Class = Class::new("t.order.b");
    static C: Class = Class::new("t.order.c");
    let (a, b, c) = (Mutex::new(&A, ()), RwLock::new(&B, ()), SpinLock::new(&C, ()));
    // Each acquisition is on a line of its own, which the message must contain.
    let earlier = line!() + 2;
    let chain = || {
        let _a = a.lock();
        drop(b.read());
    };
    let rest = || {
        let _b = b.write();
        drop(c.lock());
    };
    thread::scope(|s| s.spawn(chain).join()).expect("a new order is learnt");
    thread::scope(|s| s.spawn(rest).join()).expect("a longer one too");
    chain();
    let now = line!() + 2;
    let message = panic_of(|| {
        let _b = b.read();
        drop(a.lock());
    });
    let site = |line: u32| format!("({}:{line}:", file!());
    for chain in [
        format!("now:     `t.order.b` {}", site(now)),
        format!("-> `t.order.a` {}", site(now + 1)),
        format!("earlier: `t.order.a` {}", site(earlier)),
        format!("-> `t.order.b` {}", site(earlier + 1)),
    ] {
        assert_names(&message, &[&chain]);
    }
    // `try_lock` cannot wait forever, so it is not an error in itself; but locks it has taken count as
    // held.
    let message = panic_of(|| {
        let _c = c.try_lock();
        drop(a.try_lock());
        drop(a.lock());
    });
    assert_names(&message, &["within the section of the spin lock", "`t.order.c`", "`t.order.a`"]);
    // The refused acquisitions left no lock held.
    assert!(a.try_lock().is_some() && b.try_write().is_some() && c.try_lock().is_some());
}

#[test]
fn a_cycle_over_several_classes_is_found() {
    static CLASSES: [Class; 4] =
        [Class::new("t.ring.0"), Class::new("t.ring.1"), Class::new("t.ring.2"), Class::new("t.ring.3")];
    let locks: Vec<Mutex<()>> = CLASSES.iter().map(|class| Mutex::new(class, ())).collect();
    for pair in locks.windows(2) {
        let _outer = pair[0].lock();
        drop(pair[1].lock());
    }
    let message = panic_of(|| {
        let _last = locks[3].lock();
        drop(locks[0].lock());
    });
    assert_names(&message, &["`t.ring.0`", "`t.ring.1`", "`t.ring.2`", "`t.ring.3`"]);
}

#[test]
fn one_thread_takes_a_lock_once() {
    static A: Class = Class::new("t.recursion");
    let message = panic_of(|| {
        let lock = RwLock::new(&A, ());
        let _first = lock.read();
        drop(lock.read());
    });
    assert_names(&message, &["`t.recursion`", "again"]);
}

#[test]
fn two_locks_of_a_class_need_leave() {
    static A: Class = Class::new("t.twins");
    let message = panic_of(|| {
        let locks = [Mutex::new(&A, ()), Mutex::new(&A, ())];
        let _first = locks[0].lock();
        drop(locks[1].lock());
    });
    assert_names(&message, &["`t.twins`", "another lock of its class"]);
}

#[test]
fn two_locks_of_a_class_by_address() {
    static A: Class = Class::new("t.by_address").nested_by_address();
    let locks = [Mutex::new(&A, ()), Mutex::new(&A, ())];
    {
        let _first = locks[0].lock();
        drop(locks[1].lock());
    }
    let message = panic_of(|| {
        let _second = locks[1].lock();
        drop(locks[0].lock());
    });
    assert_names(&message, &["`t.by_address`", "higher address"]);
}
