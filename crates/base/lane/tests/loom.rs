//! Every interleaving of a few threads on a lane: no push is lost, each producer's order holds, one
//! thread runs at a time, nothing is run twice, and a hand-over makes the next thread responsible.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p loligo-lane --release --test loom`
#![cfg(loom)]

use std::collections::VecDeque;
use std::ops::ControlFlow;

use loligo_lane::{Action, Bound, Combined, Combiner, Lane, PushError, RunEnd};
use loligo_lockstat::Class;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;

static CLASS: Class = Class::new("t.loom");

/// Producer and sequence number.
type Item = (u8, u8);

/// A lane and the items its runs have seen. loom reports concurrent accesses of `seen`, that is, runs
/// that overlap, or a run that does not see the effects of the one before it.
struct Model {
    lane: Lane<Item>,
    seen: UnsafeCell<Vec<Item>>,
}

impl Model {
    fn new(items_max: usize) -> Arc<Self> {
        Arc::new(Self { lane: Lane::new(&CLASS, items_max), seen: UnsafeCell::new(Vec::new()) })
    }

    fn see(&self, item: Item) {
        // SAFETY: runs exclude each other; loom checks this.
        self.seen.with_mut(|seen| unsafe { &mut *seen }.push(item));
    }

    fn seen(&self) -> Vec<Item> {
        // SAFETY: as above; the threads have been joined.
        self.seen.with(|seen| unsafe { &*seen }.clone())
    }

    /// Pushes, and runs the lane if told to.
    fn push_and_run(&self, item: Item) {
        match self.lane.push(item) {
            Ok(Action::Submit) => while self.lane.run(1, |item| self.see(item)) == RunEnd::Again {},
            Ok(Action::Nothing) => {}
            Err(refused) => panic!("{refused}"),
        }
    }

    fn push_and_run_batch(&self, item: Item) {
        match self.lane.push(item) {
            Ok(Action::Submit) => {
                while self.lane.run_batch(1, |batch| self.see_one(batch)) == RunEnd::Again {}
            }
            Ok(Action::Nothing) => {}
            Err(refused) => panic!("{refused}"),
        }
    }

    /// Processes the first item and leaves the rest.
    fn see_one(&self, batch: &mut VecDeque<Item>) -> ControlFlow<()> {
        if let Some(item) = batch.pop_front() {
            self.see(item);
        }
        ControlFlow::Continue(())
    }
}

/// Explores every interleaving of a model with at most `preemptions_max` preemptions; without a bound
/// the larger models take hours.
fn check(preemptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut bounded = loom::model::Builder::new();
    bounded.preemption_bound = Some(preemptions_max);
    bounded.check(model);
}

/// Asserts that every item was run once, each producer's in order.
fn assert_complete(mut seen: Vec<Item>, producers: u8, items: u8) {
    // A stable sort by producer keeps the order of each producer's items.
    seen.sort_by_key(|item| item.0);
    let expected: Vec<Item> = (0..producers).flat_map(|p| (0..items).map(move |n| (p, n))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn two_producers_lose_nothing() {
    check(3, || {
        let model = Model::new(8);
        let other = model.clone();
        let thread = thread::spawn(move || (0..2).for_each(|n| other.push_and_run((1, n))));
        (0..2).for_each(|n| model.push_and_run((0, n)));
        thread.join().expect("no panic");
        assert_complete(model.seen(), 2, 2);
    });
}

#[test]
fn three_producers_lose_nothing() {
    check(2, || {
        let model = Model::new(8);
        let threads = [1, 2].map(|p| {
            let model = model.clone();
            thread::spawn(move || model.push_and_run((p, 0)))
        });
        model.push_and_run((0, 0));
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_complete(model.seen(), 3, 1);
    });
}

#[test]
fn batches_lose_nothing() {
    check(3, || {
        let model = Model::new(8);
        let other = model.clone();
        let thread = thread::spawn(move || (0..2).for_each(|n| other.push_and_run_batch((1, n))));
        (0..2).for_each(|n| model.push_and_run_batch((0, n)));
        thread.join().expect("no panic");
        assert_complete(model.seen(), 2, 2);
    });
}

#[test]
fn a_lane_is_handed_over_to_another_thread() {
    check(3, || {
        let model = Model::new(8);
        assert_eq!(model.lane.push((0, 0)), Ok(Action::Submit));
        assert_eq!(model.lane.push((0, 1)), Ok(Action::Nothing));
        // The budget is spent: this thread is responsible for the lane, and then the next one.
        assert_eq!(model.lane.run(1, |item| model.see(item)), RunEnd::Again);
        let heir = {
            let model = model.clone();
            thread::spawn(move || while model.lane.run(1, |item| model.see(item)) == RunEnd::Again {})
        };
        // Meanwhile a push goes to the heir or, if the heir has finished, returns Submit to this thread.
        model.push_and_run((0, 2));
        heir.join().expect("no panic");
        assert_complete(model.seen(), 1, 3);
    });
}

#[test]
fn a_run_sees_what_the_producer_wrote() {
    check(3, || {
        let lane = Arc::new(Lane::new(&CLASS, 8));
        let submit = |lane: &Lane<Arc<UnsafeCell<u8>>>| {
            let item = Arc::new(UnsafeCell::new(0));
            // SAFETY: no other thread knows the item yet; loom checks that its runner agrees.
            item.with_mut(|value| unsafe { *value = 7 });
            if matches!(lane.push(item), Ok(Action::Submit)) {
                // SAFETY: items are only read from here on.
                let read = |item: Arc<UnsafeCell<u8>>| assert_eq!(item.with(|value| unsafe { *value }), 7);
                while lane.run(1, read) == RunEnd::Again {}
            }
        };
        let other = lane.clone();
        let thread = thread::spawn(move || submit(&other));
        submit(&lane);
        thread.join().expect("no panic");
        assert!(lane.is_empty());
    });
}

#[test]
fn of_two_that_begin_only_one_runs() {
    check(3, || {
        let model = Model::new(8);
        assert_eq!(model.lane.push((0, 0)), Ok(Action::Submit));
        let other = model.clone();
        let thread = thread::spawn(move || other.lane.run(9, |item| other.see(item)));
        assert_eq!(model.lane.run(9, |item| model.see(item)), RunEnd::Idle);
        assert_eq!(thread.join().expect("no panic"), RunEnd::Idle);
        assert_complete(model.seen(), 1, 1);
    });
}

#[test]
fn a_run_that_nobody_asked_for_disturbs_nobody() {
    check(3, || {
        let model = Model::new(8);
        let other = model.clone();
        let thread =
            thread::spawn(move || while other.lane.run(1, |item| other.see(item)) == RunEnd::Again {});
        (0..2).for_each(|n| model.push_and_run((0, n)));
        thread.join().expect("no panic");
        assert_complete(model.seen(), 1, 2);
    });
}

#[test]
fn a_run_that_stops_hands_over_with_what_it_left() {
    check(3, || {
        let model = Model::new(8);
        let other = model.clone();
        let thread = thread::spawn(move || other.push_and_run((1, 0)));
        if model.lane.push((0, 0)) == Ok(Action::Submit) {
            // The full socket takes nothing; the item is put back in front.
            if model.lane.run_batch(9, |_| ControlFlow::Break(())) == RunEnd::Again {
                while model.lane.run(1, |item| model.see(item)) == RunEnd::Again {}
            }
        }
        thread.join().expect("no panic");
        assert_complete(model.seen(), 2, 1);
    });
}

#[test]
fn an_item_is_run_or_revoked_but_not_both() {
    check(3, || {
        let model = Model::new(8);
        let other = model.clone();
        let thread = thread::spawn(move || other.push_and_run((0, 0)));
        let revoked = model.lane.remove(|item| item.0 == 0);
        thread.join().expect("no panic");
        assert_eq!(model.seen().len() + usize::from(revoked.is_some()), 1);
        assert!(model.lane.is_empty());
    });
}

#[test]
fn after_a_close_nothing_gets_in() {
    check(3, || {
        let model = Model::new(8);
        let other = model.clone();
        let thread = thread::spawn(move || match other.lane.push((0, 0)) {
            Ok(Action::Submit) => {
                assert_eq!(other.lane.run(9, |item| other.see(item)), RunEnd::Idle);
                0
            }
            Err(PushError::Closed(_)) => 1,
            other => panic!("{other:?}"),
        });
        let drained = model.lane.close().len();
        let refused = thread.join().expect("no panic");
        assert_eq!(model.seen().len() + drained + refused, 1);
        assert!(model.lane.is_empty());
    });
}

#[test]
fn a_full_lane_gives_back_what_it_does_not_take() {
    check(3, || {
        let model = Model::new(1);
        let other = model.clone();
        let push = |model: &Model, item| match model.lane.push(item) {
            Ok(Action::Submit) => {
                while model.lane.run(1, |item| model.see(item)) == RunEnd::Again {}
                None
            }
            Ok(Action::Nothing) => None,
            Err(refused) => Some(refused.into_inner()),
        };
        let thread = thread::spawn(move || push(&other, (1, 0)));
        let mine = push(&model, (0, 0));
        let theirs = thread.join().expect("no panic");
        assert!(mine.is_none() || theirs.is_none(), "an empty lane takes one");
        // A refused item finds room now, and the lane idle.
        for item in mine.into_iter().chain(theirs) {
            assert_eq!(push(&model, item), None);
        }
        assert_complete(model.seen(), 2, 1);
    });
}

/// A queue behind a combiner, like a connection's out-queue: a sender that finds the lock held leaves
/// its item and goes on.
struct Desk {
    combiner: Combiner<Vec<Item>, Item>,
    /// A task was asked to serve the items left.
    woken: AtomicBool,
}

impl Desk {
    /// Creates a desk with room for `items_max` items to be left.
    fn new(items_max: usize) -> Arc<Self> {
        let bound = Bound { items: items_max, bytes: usize::MAX };
        let combiner = Combiner::new(&CLASS, bound, |_| 0, Vec::new());
        let mut seen = combiner.lock();
        seen.open();
        assert!(!seen.release());
        Arc::new(Self { combiner, woken: AtomicBool::new(false) })
    }

    fn send(&self, item: Item) {
        if let Some(mut seen) = self.combiner.try_lock() {
            if seen.serve(1, append) {
                seen.push(item);
                return self.release(seen);
            }
            // Some, but not all, of the items left before were processed: this one goes behind them.
            let _ = seen.release();
        }
        match self.combiner.leave(item) {
            Ok(None) => {}
            Ok(Some(seen)) => self.attend(seen),
            Err(item) => {
                let mut seen = self.combiner.lock();
                while !seen.serve(1, append) {}
                seen.push(item);
                self.release(seen);
            }
        }
    }

    fn release(&self, seen: Combined<'_, Vec<Item>, Item>) {
        if seen.release()
            && let Some(seen) = self.combiner.call()
        {
            self.attend(seen);
        }
    }

    fn attend<'a>(&'a self, mut seen: Combined<'a, Vec<Item>, Item>) {
        loop {
            seen.serve(1, append);
            if !seen.release() {
                return;
            }
            let Some(next) = self.combiner.call() else { return };
            seen = next;
        }
    }

    /// Another user of the lock, which does not serve the items left.
    fn pass_by(&self) {
        let seen = self.combiner.lock();
        if seen.release() {
            self.woken.store(true, Relaxed);
        }
    }

    /// Serves as the woken task does; then everything must have been processed.
    fn end(&self, producers: u8, items: u8) {
        if self.woken.load(Relaxed)
            && let Some(seen) = self.combiner.call()
        {
            self.attend(seen);
        }
        let seen = self.combiner.lock();
        assert_eq!(self.combiner.left(), 0);
        assert_complete(seen.to_vec(), producers, items);
        assert!(!seen.release());
    }
}

fn append(seen: &mut Vec<Item>, item: &mut Item) -> ControlFlow<()> {
    seen.push(*item);
    ControlFlow::Continue(())
}

#[test]
fn what_is_left_at_a_combiner_is_done_in_order() {
    check(3, || {
        let desk = Desk::new(8);
        let other = desk.clone();
        let thread = thread::spawn(move || (0..2).for_each(|n| other.send((1, n))));
        (0..2).for_each(|n| desk.send((0, n)));
        thread.join().expect("no panic");
        desk.end(2, 2);
    });
}

/// Three threads leave one item each at a combiner with room for `places` items.
fn three_at_a_combiner(places: usize) {
    check(2, move || {
        let desk = Desk::new(places);
        let threads = [1, 2].map(|p| {
            let desk = desk.clone();
            thread::spawn(move || desk.send((p, 0)))
        });
        desk.send((0, 0));
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        desk.end(3, 1);
    });
}

#[test]
fn three_leave_nothing_behind_at_a_combiner() {
    three_at_a_combiner(8);
}

#[test]
fn a_combiner_without_room_makes_wait() {
    three_at_a_combiner(1);
}

#[test]
fn who_passes_by_a_combiner_tells_what_was_left() {
    check(3, || {
        let desk = Desk::new(8);
        let other = desk.clone();
        let thread = thread::spawn(move || (0..3).for_each(|n| other.send((0, n))));
        desk.pass_by();
        thread.join().expect("no panic");
        desk.end(1, 3);
    });
}

#[test]
fn a_combiner_that_is_shut_and_opened_loses_nothing() {
    check(3, || {
        let desk = Desk::new(8);
        let other = desk.clone();
        let thread = thread::spawn(move || (0..2).for_each(|n| other.send((0, n))));
        let mut seen = desk.combiner.lock();
        seen.shut();
        assert!(!seen.is_open());
        desk.release(seen);
        let mut seen = desk.combiner.lock();
        seen.open();
        desk.release(seen);
        thread.join().expect("no panic");
        desk.end(1, 2);
    });
}
