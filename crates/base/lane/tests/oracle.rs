//! Random operations on a lane and on a simple model of one: both must agree on every result and every
//! item.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use loligo_lane::{Action, Bound, Lane, PushError, RunEnd};
use loligo_lockstat::Class;
use proptest::prelude::*;

const BOUND: Bound = Bound { items: 12, bytes: 40 };

/// An item: its number and its weight in bytes.
type Item = (u32, usize);

#[derive(Clone, Debug)]
enum Op {
    Push {
        weight: usize,
    },
    Requeue {
        count: usize,
    },
    Kick,
    Remove {
        number: u32,
    },
    Drain,
    Close,
    Run {
        budget: usize,
    },
    /// `keep`: how many items the runner leaves in the batch each time; `stop`: it breaks after that
    /// many batches.
    RunBatch {
        budget: usize,
        keep: usize,
        stop: Option<usize>,
    },
    /// Begins a run, pops, pushes meanwhile, and ends in one of the ways of `End`.
    Begin {
        pops: usize,
        pushes: usize,
        end: End,
    },
}

#[derive(Clone, Copy, Debug)]
enum End {
    Plain,
    HandOver { rest: usize },
    Drop,
}

fn op() -> impl Strategy<Value = Op> {
    let end =
        prop_oneof![Just(End::Plain), (0..4usize).prop_map(|rest| End::HandOver { rest }), Just(End::Drop)];
    prop_oneof![
        12 => (0..20usize).prop_map(|weight| Op::Push { weight }),
        2 => (0..4usize).prop_map(|count| Op::Requeue { count }),
        1 => Just(Op::Kick),
        2 => (0..100u32).prop_map(|number| Op::Remove { number }),
        1 => Just(Op::Drain),
        4 => (0..8usize).prop_map(|budget| Op::Run { budget }),
        4 => (1..20usize, 0..3usize, prop::option::of(0..3usize))
            .prop_map(|(budget, keep, stop)| Op::RunBatch { budget, keep, stop }),
        3 => (0..4usize, 0..4usize, end).prop_map(|(pops, pushes, end)| Op::Begin { pops, pushes, end }),
    ]
}

/// The model of a lane, as simple as possible.
#[derive(Default)]
struct Oracle {
    items: VecDeque<Item>,
    /// A worker is responsible for the lane: it has been told to run it, or runs it.
    taken_care_of: bool,
    closed: bool,
}

impl Oracle {
    fn bytes(&self) -> usize {
        self.items.iter().map(|i| i.1).sum()
    }

    fn request(&mut self) -> Action {
        if std::mem::replace(&mut self.taken_care_of, true) { Action::Nothing } else { Action::Submit }
    }

    fn push(&mut self, item: Item) -> Result<Action, PushError<Item>> {
        if self.closed {
            return Err(PushError::Closed(item));
        }
        let too_heavy = self.bytes() > 0 && self.bytes() + item.1 > BOUND.bytes;
        if self.items.len() >= BOUND.items || too_heavy {
            return Err(PushError::Full(item));
        }
        self.items.push_back(item);
        Ok(self.request())
    }

    /// Checks how a run ended.
    fn ended(&mut self, end: RunEnd, handed_over: bool) {
        let again = handed_over || !self.items.is_empty();
        assert_eq!(end, if again { RunEnd::Again } else { RunEnd::Idle });
        self.taken_care_of = again;
    }

    fn put_in_front(&mut self, items: VecDeque<Item>) {
        items.into_iter().rev().for_each(|item| self.items.push_front(item));
    }
}

struct Bench {
    lane: Lane<Item>,
    oracle: Oracle,
    next: u32,
}

impl Bench {
    fn item(&mut self, weight: usize) -> Item {
        self.next += 1;
        (self.next, weight)
    }

    fn push(&mut self, weight: usize) {
        let item = self.item(weight);
        assert_eq!(self.lane.push(item), self.oracle.push(item));
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Push { weight } => self.push(weight),
            Op::Requeue { count } => self.requeue(count),
            Op::Kick => assert_eq!(self.lane.kick(), self.oracle.request()),
            Op::Remove { number } => {
                let index = self.oracle.items.iter().position(|i| i.0 == number);
                let expected = index.and_then(|i| self.oracle.items.remove(i));
                assert_eq!(self.lane.remove(|item| item.0 == number), expected);
            }
            Op::Drain => assert_eq!(self.lane.drain(), std::mem::take(&mut self.oracle.items)),
            Op::Close => {
                self.oracle.closed = true;
                assert_eq!(self.lane.close(), std::mem::take(&mut self.oracle.items));
            }
            Op::Run { budget } => self.run(budget),
            Op::RunBatch { budget, keep, stop } => self.run_batch(budget, keep, stop),
            Op::Begin { pops, pushes, end } => self.begin(pops, pushes, end),
        }
        assert_eq!(self.lane.len(), self.oracle.items.len());
        assert_eq!(self.lane.bytes(), self.oracle.bytes());
    }

    fn requeue(&mut self, count: usize) {
        let items: VecDeque<Item> = (0..count).map(|_| self.item(3)).collect();
        let expected = if self.oracle.closed {
            Err(PushError::Closed(items.clone()))
        } else {
            self.oracle.put_in_front(items.clone());
            Ok(self.oracle.request())
        };
        assert_eq!(self.lane.requeue(items), expected);
    }

    fn run(&mut self, budget: usize) {
        let mut got = Vec::new();
        let end = self.lane.run(budget, |item| got.push(item));
        if !self.oracle.taken_care_of {
            assert_eq!((end, got), (RunEnd::Idle, vec![]));
            return;
        }
        let count = budget.max(1).min(self.oracle.items.len());
        let expected: Vec<Item> = self.oracle.items.drain(..count).collect();
        assert_eq!(got, expected);
        self.oracle.ended(end, false);
    }

    fn run_batch(&mut self, budget: usize, keep: usize, stop: Option<usize>) {
        let (mut got, mut expected) = (Vec::new(), Vec::new());
        let mut batches = 0;
        let end = self.lane.run_batch(budget, |batch| {
            let flow = serve(batch, keep, &mut got);
            batches += 1;
            if stop.is_some_and(|stop| batches > stop) { ControlFlow::Break(()) } else { flow }
        });
        let batches_done = batches;
        if !self.oracle.taken_care_of {
            assert_eq!((end, batches_done), (RunEnd::Idle, 0));
            return;
        }
        let (mut batch, mut given, mut batches) = (VecDeque::new(), 0, 0);
        let stopped = loop {
            let count = (budget.max(1) - given).min(self.oracle.items.len());
            batch.extend(self.oracle.items.drain(..count));
            if batch.is_empty() && batches > 0 {
                break false;
            }
            given += batch.len();
            let _ = serve(&mut batch, keep, &mut expected);
            batches += 1;
            let stopped = stop.is_some_and(|stop| batches > stop);
            if stopped || given >= budget {
                break stopped;
            }
        };
        assert_eq!((got, batches_done), (expected, batches));
        self.oracle.put_in_front(batch);
        self.oracle.ended(end, stopped);
    }

    fn begin(&mut self, pops: usize, pushes: usize, how: End) {
        let run = self.lane.begin();
        assert_eq!(run.is_some(), self.oracle.taken_care_of);
        let Some(mut run) = run else { return };
        assert!(self.lane.begin().is_none(), "a second run");
        for _ in 0..pops {
            let expected = self.oracle.items.pop_front();
            assert_eq!(run.pop(), expected);
            if expected.is_none() {
                self.oracle.taken_care_of = false;
                assert_eq!(run.end(), RunEnd::Idle);
                return;
            }
        }
        for _ in 0..pushes {
            self.next += 1;
            let item = (self.next, 1);
            assert_eq!(self.lane.push(item), self.oracle.push(item));
        }
        match how {
            End::Plain => {
                let end = run.end();
                self.oracle.ended(end, false);
            }
            End::HandOver { rest } => {
                let rest: VecDeque<Item> = (0..rest).map(|n| (1000 + n as u32, 2)).collect();
                if !self.oracle.closed {
                    self.oracle.put_in_front(rest.clone());
                }
                let end = run.hand_over(rest);
                self.oracle.ended(end, true);
            }
            End::Drop => {
                drop(run);
                self.oracle.taken_care_of = false;
            }
        }
    }
}

/// Processes all items of a batch but the last `keep`.
fn serve(batch: &mut VecDeque<Item>, keep: usize, got: &mut Vec<Item>) -> ControlFlow<()> {
    let done = batch.len().saturating_sub(keep);
    got.extend(batch.drain(..done));
    ControlFlow::Continue(())
}

proptest! {
    #[test]
    fn a_lane_does_what_its_description_says(mut ops in prop::collection::vec(op(), 1..80), close_at in 0..160usize) {
        static CLASS: Class = Class::new("t.oracle");
        if close_at < ops.len() {
            ops.insert(close_at, Op::Close);
        }
        let lane = Lane::weighed(&CLASS, BOUND, |item: &Item| item.1);
        let mut bench = Bench { lane, oracle: Oracle::default(), next: 0 };
        for op in ops {
            bench.step(op);
        }
    }
}
