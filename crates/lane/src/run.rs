use std::collections::VecDeque;
use std::ops::ControlFlow;

use crate::lane::{Lane, Phase, Queue};

/// How a run ended.
#[must_use = "after Again the caller must have the lane run once more"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The lane was empty. The next push will say Submit.
    Idle,
    /// There is more to do, and it is on the caller to have the lane run again: pushes say Nothing until then.
    Again,
}

/// The right to run a lane: there is one at a time. From [`Lane::begin`].
///
/// To be ended by [`pop`](Run::pop) or [`take`](Run::take) finding the lane empty, by [`end`](Run::end) or by
/// [`hand_over`](Run::hand_over). Dropped before that, it leaves the lane idle with what is queued.
pub struct Run<'a, T> {
    lane: &'a Lane<T>,
    ended: bool,
}

impl<T> Lane<T> {
    /// Begins a run, if the lane is due for one.
    pub fn begin(&self) -> Option<Run<'_, T>> {
        self.begin_and(|_| ()).map(|(run, ())| run)
    }

    /// Runs the lane: `f` gets one item after another, in order and without the lane's lock, until none is left or
    /// `budget` of them (at least one) have been done. Items that `f` has not got yet can still be
    /// [removed](Lane::remove).
    pub fn run(&self, budget: usize, mut f: impl FnMut(T)) -> RunEnd {
        let Some((mut run, mut next)) = self.begin_and(|queue| self.pop_or_idle(queue)) else {
            return RunEnd::Idle;
        };
        let mut done = 0;
        while let Some(item) = next {
            f(item);
            done += 1;
            if done >= budget {
                return run.end();
            }
            next = run.pop();
        }
        run.ended = true;
        RunEnd::Idle
    }

    /// Runs the lane: `f` gets all items at once, in order and without the lane's lock, again and again until none is
    /// left or it has got at least `budget` of them. It takes out what it has done with; what it leaves comes back to
    /// it first, together with what was pushed since. Should it panic, what it had got is dropped.
    ///
    /// If `f` breaks, what it has left is put back in front, and the run ends with [`RunEnd::Again`] even if that is
    /// nothing: a socket that takes no more is a reason to come back later.
    pub fn run_batch(&self, budget: usize, mut f: impl FnMut(&mut VecDeque<T>) -> ControlFlow<()>) -> RunEnd {
        let Some((mut run, mut batch)) = self.begin_and(Queue::take_all) else {
            return RunEnd::Idle;
        };
        let mut given = 0;
        loop {
            given += batch.len();
            if f(&mut batch).is_break() {
                return run.hand_over(batch);
            }
            if given >= budget {
                return run.finish(batch, Then::RunIfQueued);
            }
            if !run.take(&mut batch) {
                return RunEnd::Idle;
            }
        }
    }

    /// Begins a run and takes a first step under the same lock.
    fn begin_and<R>(&self, first: impl FnOnce(&mut Queue<T>) -> R) -> Option<(Run<'_, T>, R)> {
        let mut queue = self.queue().lock();
        if queue.phase != Phase::Due {
            return None;
        }
        queue.phase = Phase::Running;
        let first = first(&mut queue);
        Some((Run { lane: self, ended: false }, first))
    }

    /// The first item; if there is none, the run ends in the same step.
    #[inline]
    fn pop_or_idle(&self, queue: &mut Queue<T>) -> Option<T> {
        let item = self.pop(queue);
        if item.is_none() {
            queue.phase = Phase::Idle;
        }
        item
    }
}

impl<T> Run<'_, T> {
    /// The next item. None if there is none; with that the run has ended.
    pub fn pop(&mut self) -> Option<T> {
        if self.ended {
            return None;
        }
        let item = self.lane.pop_or_idle(&mut self.lane.queue().lock());
        self.ended = item.is_none();
        item
    }

    /// Moves all items to the end of `batch`. False if there are none and `batch` is empty too; with that the run has
    /// ended.
    pub fn take(&mut self, batch: &mut VecDeque<T>) -> bool {
        if self.ended {
            return !batch.is_empty();
        }
        let mut queue = self.lane.queue().lock();
        let mut taken;
        if queue.items.is_empty() {
            if !batch.is_empty() {
                return true;
            }
            self.ended = true;
            taken = queue.end(std::mem::take(batch));
        } else if batch.is_empty() {
            taken = queue.exchange(std::mem::take(batch));
            std::mem::swap(batch, &mut taken);
        } else {
            taken = queue.take_all();
        }
        // Memory is got and freed without the lock.
        drop(queue);
        batch.append(&mut taken);
        !self.ended
    }

    /// Ends the run where it stands: idle if the lane is empty, else it is on the caller to have it run again.
    pub fn end(self) -> RunEnd {
        if self.ended { RunEnd::Idle } else { self.finish(VecDeque::new(), Then::RunIfQueued) }
    }

    /// Ends the run with something left to do, and puts `rest` back in front. It is on the caller to have the lane
    /// run again, even if nothing is queued. If the lane has been closed meanwhile, `rest` is dropped.
    pub fn hand_over(self, rest: VecDeque<T>) -> RunEnd {
        assert!(!self.ended, "a run that has ended cannot be handed over");
        self.finish(rest, Then::RunAgain)
    }

    fn finish(mut self, mut rest: VecDeque<T>, then: Then) -> RunEnd {
        self.ended = true;
        if !rest.is_empty() && self.lane.put_in_front(&mut rest, |queue| queue.phase = Phase::Due).is_some() {
            return RunEnd::Again;
        }
        rest.clear();
        let mut queue = self.lane.queue().lock();
        if then == Then::RunAgain || !queue.items.is_empty() {
            queue.phase = Phase::Due;
            return RunEnd::Again;
        }
        let buffer = queue.end(rest);
        // Memory is freed without the lock.
        drop(queue);
        drop(buffer);
        RunEnd::Idle
    }
}

/// What is to become of a lane whose run ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    RunIfQueued,
    RunAgain,
}

impl<T> Drop for Run<'_, T> {
    fn drop(&mut self) {
        if !self.ended {
            self.lane.queue().lock().phase = Phase::Idle;
        }
    }
}
