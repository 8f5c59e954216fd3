//! Goal: an adaptive lock learns how long its holds are, and learns anew when this changes. Method:
//! simulated holds of known length, and real threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::adaptive::HOLD_MAX;
use super::*;

fn lock(lock: &Adaptive) {
    if !lock.try_lock() {
        lock.lock_slow();
    }
}

#[test]
fn one_long_hold_stops_the_spinning_and_sixteen_short_ones_bring_it_back() {
    const COST: u64 = 10_000;
    let adaptive = Adaptive::INIT;
    assert!(adaptive.spins_for(COST), "nothing is known yet");
    adaptive.learn(HOLD_MAX * COST);
    assert!(!adaptive.spins_for(COST));
    adaptive.learn(100);
    assert!(adaptive.spins_for(COST));
    (0..100).for_each(|_| adaptive.learn(HOLD_MAX * COST));
    let back = (1..).find(|_| {
        adaptive.learn(100);
        adaptive.spins_for(COST)
    });
    assert_eq!(back, Some(16));
    (0..100).for_each(|_| adaptive.learn(COST + COST / 4));
    assert!(!adaptive.spins_for(COST), "a little longer is longer");
    (0..100).for_each(|_| adaptive.learn(COST - COST / 4));
    assert!(adaptive.spins_for(COST));
}

#[cfg(not(miri))]
#[test]
fn what_threads_do_is_learnt() {
    let adaptive = Adaptive::INIT;
    let spins = || adaptive.spins_for(sync::wake_cost());
    if sync::wake_cost() == 0 {
        return; // one processor: it never spins
    }
    // Each long hold is in progress when the other thread arrives, and lasts longer than the upper bound
    // of the wake-up cost.
    contend(&adaptive, || thread::sleep(Duration::from_millis(1)), || !spins());
    contend(&adaptive, || {}, spins);
}

/// Two threads take the lock for a section again and again until the condition holds.
fn contend(adaptive: &Adaptive, section: impl Fn() + Sync, until: impl Fn() -> bool + Sync) {
    let (is_true, began) = (AtomicBool::new(false), Instant::now());
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !is_true.load(Ordering::Relaxed) && began.elapsed() < Duration::from_secs(20) {
                    lock(adaptive);
                    section();
                    if until() {
                        is_true.store(true, Ordering::Relaxed);
                    }
                    adaptive.unlock();
                }
            });
        }
    });
    assert!(is_true.into_inner(), "not learnt");
}
