//! Lanes under real threads: every item is run once, in its producer's order, by one thread at a time.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use loligo_lane::{Action, Bound, Lane, PushError, RunEnd};
use loligo_lockstat::Class;

const PRODUCERS: usize = 8;
const ITEMS: usize = if cfg!(miri) { 30 } else { 5_000 };

/// Producer and sequence number.
type Item = (usize, usize);

/// Checks that items arrive in order and runs do not overlap.
#[derive(Default)]
struct Witness {
    running: AtomicBool,
    next: Mutex<[usize; PRODUCERS]>,
    done: AtomicUsize,
}

impl Witness {
    fn see(&self, (producer, number): Item) {
        let mut next = self.next.try_lock().expect("runs overlap");
        assert_eq!(next[producer], number);
        next[producer] += 1;
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn alone<R>(&self, f: impl FnOnce() -> R) -> R {
        assert!(!self.running.swap(true, Ordering::Acquire), "runs overlap");
        let result = f();
        self.running.store(false, Ordering::Release);
        result
    }
}

/// Pushes a producer's items; retries while the lane is full.
fn produce(lane: &Lane<Item>, producer: usize, mut submit: impl FnMut()) {
    for number in 0..ITEMS {
        loop {
            match lane.push((producer, number)) {
                Ok(Action::Submit) => break submit(),
                Ok(Action::Nothing) => break,
                Err(PushError::Full(_)) => thread::yield_now(),
                Err(PushError::Closed(_)) => panic!("nobody closes this lane"),
            }
        }
    }
}

#[test]
fn producers_that_run_the_lane_themselves() {
    static CLASS: Class = Class::new("t.inline");
    let lane = Lane::new(&CLASS, 64);
    let witness = Witness::default();
    let run = || while lane.run(7, |item| witness.see(item)) == RunEnd::Again {};
    thread::scope(|s| {
        for producer in 0..PRODUCERS {
            let (lane, run) = (&lane, &run);
            s.spawn(move || produce(lane, producer, run));
        }
    });
    assert_eq!(witness.done.into_inner(), PRODUCERS * ITEMS);
    assert!(lane.is_empty());
}

#[test]
fn workers_that_hand_a_lane_on() {
    static CLASS: Class = Class::new("t.workers");
    let lane = Lane::weighed(&CLASS, Bound { items: 1000, bytes: 4096 }, |_: &Item| 16);
    let witness = Witness::default();
    let (submit, submitted) = mpsc::channel::<()>();
    let submitted = Mutex::new(submitted);
    thread::scope(|s| {
        for _ in 0..3 {
            let (lane, witness, submit, submitted) = (&lane, &witness, submit.clone(), &submitted);
            s.spawn(move || {
                while witness.done.load(Ordering::Relaxed) < PRODUCERS * ITEMS {
                    let wait = std::time::Duration::from_millis(5);
                    let turn = submitted.lock().map(|s| s.recv_timeout(wait));
                    if !matches!(turn, Ok(Ok(()))) {
                        continue;
                    }
                    let end = witness.alone(|| lane.run_batch(10, |batch| take_some(batch, witness)));
                    if end == RunEnd::Again {
                        submit.send(()).expect("the receiver outlives the workers");
                    }
                }
            });
        }
        for producer in 0..PRODUCERS {
            let (lane, submit) = (&lane, submit.clone());
            s.spawn(move || produce(lane, producer, || submit.send(()).expect("somebody receives")));
        }
    });
    assert_eq!(witness.done.into_inner(), PRODUCERS * ITEMS);
}

/// Processes half of the batch; breaks now and then, like a full socket.
fn take_some(batch: &mut VecDeque<Item>, witness: &Witness) -> ControlFlow<()> {
    let part = (batch.len() / 2).max(1).min(batch.len());
    let last = batch.drain(..part).inspect(|&item| witness.see(item)).last();
    if last.is_some_and(|(_, number)| number % 3 == 0) {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

#[test]
fn a_panicking_run_leaves_the_rest_to_the_next() {
    static CLASS: Class = Class::new("t.panicking");
    let lane = Lane::new(&CLASS, 8);
    assert_eq!(lane.push(1), Ok(Action::Submit));
    assert_eq!(lane.push(2), Ok(Action::Nothing));
    let panicked = thread::scope(|s| {
        s.spawn(|| lane.run(8, |_| std::panic::resume_unwind(Box::new(())))).join().is_err()
    });
    assert!(panicked);
    assert_eq!(lane.push(3), Ok(Action::Submit));
    let mut got = Vec::new();
    assert_eq!(lane.run(8, |item| got.push(item)), RunEnd::Idle);
    assert_eq!(got, [2, 3]);
}

#[test]
fn items_are_dropped_without_the_lock() {
    static CLASS: Class = Class::new("t.drops");
    #[derive(PartialEq)]
    struct Nosy;
    impl Drop for Nosy {
        fn drop(&mut self) {
            loligo_lockstat::blocking_point("drop of an item");
        }
    }
    let lane = Lane::new(&CLASS, 2);
    assert_eq!(lane.push(Nosy), Ok(Action::Submit));
    assert!(lane.remove(|_| true).is_some());
    assert_eq!(lane.push(Nosy), Ok(Action::Nothing));
    assert_eq!(lane.push(Nosy), Ok(Action::Nothing));
    assert!(lane.push(Nosy).is_err());
    assert_eq!(lane.run(1, drop), RunEnd::Again);
    assert_eq!(lane.drain().len(), 1);
    assert_eq!(lane.push(Nosy), Ok(Action::Nothing));
    assert_eq!(lane.close().len(), 1);
    assert!(lane.push(Nosy).is_err());
}
