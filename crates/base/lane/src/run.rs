//! One run of a lane by one worker.

use std::collections::VecDeque;
use std::mem;
use std::ops::ControlFlow;

use crate::chain::{Chain, Node};
use crate::lane::{Lane, SPARE_ITEMS_MAX, Taken};

/// The outcome of a run.
#[must_use = "after Again the caller must have the lane run once more"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The lane was empty. The next push returns Submit.
    Idle,
    /// There is more to do, and the caller must have the lane run again: pushes return Nothing until
    /// then.
    Again,
}

/// The exclusive right to run a lane. From [`Lane::begin`].
///
/// A run ends when [`pop`](Run::pop) or [`take`](Run::take) finds the lane empty, or by
/// [`end`](Run::end) or [`hand_over`](Run::hand_over). A run that is dropped before that leaves the lane
/// idle with its items queued.
pub struct Run<'a, T> {
    lane: &'a Lane<T>,
    ended: bool,
}

impl<T> Lane<T> {
    /// Begins a run if the lane is due. None if it is idle or another run is under way.
    pub fn begin(&self) -> Option<Run<'_, T>> {
        self.begin_and(|_| ()).map(|(run, ())| run)
    }

    /// Runs the lane: calls `f` with one item after another, in order and without the lane's lock, until
    /// the lane is empty or `budget` items (at least one) have been processed. Items that have not been
    /// passed to `f` yet can still be [removed](Lane::remove).
    pub fn run(&self, budget: usize, mut f: impl FnMut(T)) -> RunEnd {
        let Some((mut run, mut next)) = self.begin_and(|taken| self.pop_or_idle(taken)) else {
            return RunEnd::Idle;
        };
        let mut done = 0;
        while let Some(node) = next {
            f(self.released(node.item));
            done += 1;
            if done >= budget {
                return run.end();
            }
            next = self.pop_or_idle(&mut self.taken.lock());
        }
        run.ended = true;
        RunEnd::Idle
    }

    /// Runs the lane: calls `f` with all queued items at once, in order and without the lane's lock, and
    /// repeats this until the lane is empty or `f` has been given `budget` items (at least one). `f`
    /// removes the items it has finished; those it leaves are passed to it again, in front of newly
    /// pushed ones. If `f` panics, the items of its batch are dropped.
    ///
    /// If `f` breaks, the items it has left are put back in front, and the run ends with
    /// [`RunEnd::Again`] even if there are none: a full socket, for example, is a reason to run again
    /// later.
    pub fn run_batch(&self, budget: usize, mut f: impl FnMut(&mut VecDeque<T>) -> ControlFlow<()>) -> RunEnd {
        let Some((mut run, (chain, mut batch))) = self.begin_and(|taken| {
            self.gather(taken);
            (taken.chain.split_front(budget.max(1)), mem::take(&mut taken.spare))
        }) else {
            return RunEnd::Idle;
        };
        self.unpack(chain, &mut batch);
        let mut given = 0;
        loop {
            given += batch.len();
            if f(&mut batch).is_break() {
                return run.hand_over(batch);
            }
            if given >= budget {
                return run.finish(batch, Then::RunIfQueued);
            }
            if !run.take(&mut batch, budget - given) {
                return RunEnd::Idle;
            }
        }
    }

    /// Begins a run and performs its first step under the same lock.
    fn begin_and<R>(&self, first: impl FnOnce(&mut Taken<T>) -> R) -> Option<(Run<'_, T>, R)> {
        let mut taken = self.taken.lock();
        if taken.running || self.inbox.is_idle() {
            return None;
        }
        taken.running = true;
        let first = first(&mut taken);
        Some((Run { lane: self, ended: false }, first))
    }

    /// Takes out the first item. If there is none, ends the run in the same step.
    #[inline]
    fn pop_or_idle(&self, taken: &mut Taken<T>) -> Option<Box<Node<T>>> {
        loop {
            if taken.chain.is_empty() {
                self.gather(taken);
            }
            if let Some(node) = taken.chain.pop() {
                return Some(node);
            }
            if self.inbox.rest() {
                taken.running = false;
                return None;
            }
        }
    }
}

impl<T> Run<'_, T> {
    /// Takes out the next item. None if the lane is empty; this ends the run.
    pub fn pop(&mut self) -> Option<T> {
        if self.ended {
            return None;
        }
        let node = self.lane.pop_or_idle(&mut self.lane.taken.lock());
        self.ended = node.is_none();
        node.map(|node| self.lane.released(node.item))
    }

    /// Moves all items, but at most `items_max`, to the end of `batch`. False if there are none and
    /// `batch` is empty too; this ends the run.
    pub fn take(&mut self, batch: &mut VecDeque<T>, items_max: usize) -> bool {
        if self.ended {
            return !batch.is_empty();
        }
        let mut taken = self.lane.taken.lock();
        loop {
            self.lane.gather(&mut taken);
            if !taken.chain.is_empty() || !batch.is_empty() {
                let chain = taken.chain.split_front(items_max);
                drop(taken);
                self.lane.unpack(chain, batch);
                return true;
            }
            if self.lane.inbox.rest() {
                break;
            }
        }
        self.ended = true;
        taken.running = false;
        let buffer = taken.keep(mem::take(batch));
        // Memory is freed without the lock.
        drop(taken);
        drop(buffer);
        false
    }

    /// Ends the run: the lane becomes idle if it is empty; otherwise the caller must have it run again.
    pub fn end(self) -> RunEnd {
        if self.ended { RunEnd::Idle } else { self.finish(VecDeque::new(), Then::RunIfQueued) }
    }

    /// Ends the run with work left, and puts `rest` back in front. The caller must have the lane run
    /// again, even if nothing is queued. If the lane has been closed meanwhile, `rest` is dropped.
    pub fn hand_over(self, rest: VecDeque<T>) -> RunEnd {
        assert!(!self.ended, "a run that has ended cannot be handed over");
        self.finish(rest, Then::RunAgain)
    }

    fn finish(mut self, mut rest: VecDeque<T>, then: Then) -> RunEnd {
        self.ended = true;
        let bytes = rest.iter().map(|item| self.lane.weight(item)).sum();
        let chain: Chain<T> = rest.drain(..).collect();
        let mut taken = self.lane.taken.lock();
        // Refused items and the spare buffer are dropped at the end, without the lock.
        let _refused = self.lane.put_in_front(&mut taken, chain, bytes);
        let _buffer = taken.keep(rest);
        taken.running = false;
        let idle = then == Then::RunIfQueued && taken.chain.is_empty() && self.lane.inbox.rest();
        drop(taken);
        if idle { RunEnd::Idle } else { RunEnd::Again }
    }
}

/// The state of a lane after its run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    RunIfQueued,
    RunAgain,
}

impl<T> Drop for Run<'_, T> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut taken = self.lane.taken.lock();
        loop {
            self.lane.gather(&mut taken);
            if self.lane.inbox.rest() {
                break;
            }
        }
        taken.running = false;
    }
}

impl<T> Taken<T> {
    /// Keeps an empty buffer if it is useful. Returns the one that is to be freed without the lock.
    fn keep(&mut self, buffer: VecDeque<T>) -> VecDeque<T> {
        let is_worth_it = buffer.capacity() <= SPARE_ITEMS_MAX && buffer.capacity() > self.spare.capacity();
        if is_worth_it { mem::replace(&mut self.spare, buffer) } else { buffer }
    }
}
