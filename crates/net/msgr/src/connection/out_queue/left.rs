//! Operations that threads leave when they find the lock taken, and how the lock's owner performs them.
//!
//! No sender, reader or writer waits for the lock: its owner may be preempted, and a thousand senders
//! sleeping on the lock would have to be woken one by one. A thread that finds it taken leaves its
//! operation, and the lock's owner performs it (see `loligo_lane::Combiner` for the rules). If the
//! operation makes further work necessary, such as writing, the thread that performed it does that work.
//!
//! Operations can be left only while the connection is open and the queue so far from its bounds that
//! everything left fits. Otherwise threads wait for the lock, and then see whether there is room.

use std::collections::VecDeque;
use std::mem;
use std::ops::ControlFlow;

use loligo_lane::Bound;

use super::{Action, Baton, Control, FIRST_MESSAGES, Guard, Holder, Inner, Item, MOVED_MAX, OutQueue, State};

/// Operations that may be left: as many as may come while a preempted owner is off its processor for
/// some milliseconds.
const LEFT_MAX: usize = 1024;

/// How often a thread takes the lock to perform operations that others left before it hands over to the
/// writer task.
const ROUNDS_MAX: usize = 4;

/// An operation on the queue.
pub(super) enum Left<W> {
    Push(Item),
    Request(Control),
    Cork {
        received: usize,
        control: Control,
    },
    Uncork,
    /// A runner has written its batch.
    Back(Box<Baton<W>>),
    /// A runner hands the rest to the writer task.
    HandOver(Box<Baton<W>>),
    /// The writer task must be woken if it has the baton.
    Look,
    /// The operation was performed.
    Done,
}

impl<W> Left<W> {
    /// Bytes that count against the queue's bound.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Push(item) => item.len(),
            _ => 0,
        }
    }

    pub(super) fn into_item(self) -> Item {
        match self {
            Self::Push(item) => item,
            _ => unreachable!("only who left an item asks for it"),
        }
    }
}

/// The bound of left operations, for a queue with the bound `whole`: at most a quarter.
pub(super) fn left_bound(whole: Bound) -> Bound {
    Bound { items: (whole.items / 4).clamp(1, LEFT_MAX), bytes: (whole.bytes / 4).max(1) }
}

/// The fill level below which operations may be left. In one critical section the queue grows by the
/// operations left before and by one message; meanwhile as much again may be left.
pub(super) fn left_from(whole: Bound) -> Bound {
    let left = left_bound(whole);
    let less = |all: usize, part: usize| all.saturating_sub(2 * part);
    Bound { items: less(whole.items, left.items), bytes: less(whole.bytes, left.bytes) }
}

impl<W> OutQueue<W> {
    /// Takes the lock if it is free and performs all operations left before. On `None` the caller leaves
    /// its own operation.
    #[inline]
    #[track_caller]
    pub(super) fn enter(&self) -> Option<Guard<'_, W>> {
        let inner = self.inner.try_lock()?;
        if inner.is_clear() { Some(inner) } else { self.enter_behind(inner) }
    }

    #[cold]
    fn enter_behind<'a>(&'a self, mut inner: Guard<'a, W>) -> Option<Guard<'a, W>> {
        if inner.serve(MOVED_MAX, |inner, left| inner.apply(left, &mut VecDeque::new())) {
            return Some(inner);
        }
        // The caller's operation is queued behind the others and noticed with them.
        let _ = self.release(inner);
        None
    }

    /// Waits for the lock and performs all operations left before. Until the guard is released no
    /// further operation can be left.
    #[track_caller]
    pub(super) fn lock(&self) -> Guard<'_, W> {
        let mut larger = VecDeque::new();
        loop {
            let mut inner = self.inner.lock();
            inner.shut();
            if inner.is_clear() {
                return inner;
            }
            inner.serve(MOVED_MAX, |inner, left| inner.apply(left, &mut larger));
            let is_handed = inner.hand_to_task();
            let wanted = inner.wanted(&larger);
            // The next iteration performs the rest.
            let _ = inner.release();
            if is_handed {
                self.writer_wake.notify_one();
            }
            if wanted > 0 {
                larger = VecDeque::with_capacity(wanted);
            }
        }
    }

    /// Leaves an operation that cannot be refused for the lock's owner, or waits for the lock and
    /// performs it.
    #[cold]
    pub(super) fn leave(&self, left: Left<W>) -> Action<W> {
        let mut left = match self.inner.leave(left) {
            Ok(None) => return Action::Nothing,
            Ok(Some(inner)) => return self.attend(inner),
            Err(left) => left,
        };
        let mut inner = self.lock();
        let _ = inner.apply(&mut left, &mut VecDeque::new());
        let action = self.schedule(&mut inner);
        self.unlock(inner, action)
    }

    /// Performs left operations until there are none or another thread, which will perform them, holds
    /// the lock. Returns what the caller must do then.
    #[cold]
    pub(super) fn attend<'a>(&'a self, mut inner: Guard<'a, W>) -> Action<W> {
        let mut larger = VecDeque::new();
        for _ in 0..ROUNDS_MAX {
            inner.serve(MOVED_MAX, |inner, left| inner.apply(left, &mut larger));
            let action = self.schedule(&mut inner);
            let wanted = inner.wanted(&larger);
            let is_left = self.release(inner);
            // A writing caller comes back to the queue afterwards.
            if !is_left || !matches!(action, Action::Nothing) {
                return action;
            }
            if wanted > 0 {
                larger = VecDeque::with_capacity(wanted);
            }
            let Some(again) = self.inner.call() else { return Action::Nothing };
            inner = again;
        }
        self.unlock_and_go(inner);
        Action::WakeWriter
    }

    /// Releases the lock. Returns what the caller must do: `action`, or the result of operations left in
    /// the meantime.
    #[inline(always)]
    pub(super) fn unlock(&self, inner: Guard<'_, W>, action: Action<W>) -> Action<W> {
        if self.release(inner) { self.unlocked(action) } else { action }
    }

    #[cold]
    fn unlocked(&self, action: Action<W>) -> Action<W> {
        if !matches!(action, Action::Nothing) {
            // A writing caller comes back to the queue afterwards.
            return action;
        }
        self.inner.call().map_or(Action::Nothing, |inner| self.attend(inner))
    }

    /// Like [`OutQueue::unlock`], for callers that cannot write now.
    pub(super) fn unlock_and_go(&self, mut inner: Guard<'_, W>) {
        let wake_writer = mem::take(&mut inner.wake_writer);
        if self.release(inner) || wake_writer {
            self.writer_wake.notify_one();
        }
    }

    /// Releases the lock and notifies senders that wait for room, if there is some now. Returns whether
    /// operations are left.
    #[inline(always)]
    fn release(&self, inner: Guard<'_, W>) -> bool {
        if inner.crowded | inner.holds_reader || self.has_place_for_left(&inner) != inner.is_open() {
            return self.release_and_tell(inner);
        }
        inner.release()
    }

    #[cold]
    fn release_and_tell(&self, mut inner: Guard<'_, W>) -> bool {
        let place = inner.crowded && !self.is_full(&inner);
        inner.crowded &= !place;
        let is_shorter = inner.holds_reader && (inner.state == State::Closed || !self.is_long_now(&inner));
        inner.holds_reader &= !is_shorter;
        if self.has_place_for_left(&inner) {
            inner.open()
        } else {
            inner.shut()
        }
        let is_left = inner.release();
        if place {
            self.place.notify_waiters();
        }
        if is_shorter {
            self.shorter.notify_one();
        }
        is_left
    }

    /// Whether everything that may be left will fit.
    #[inline]
    fn has_place_for_left(&self, inner: &Inner<W>) -> bool {
        inner.state == State::Open
            && inner.len() < self.left_from.items
            && inner.waiting_bytes + inner.unacked_bytes < self.left_from.bytes
    }
}

impl<W> Inner<W> {
    /// Performs an operation that a thread left. Breaks if there is no memory for a message, even after
    /// `larger` is swapped in if it has more capacity.
    pub(super) fn apply(&mut self, left: &mut Left<W>, larger: &mut VecDeque<Item>) -> ControlFlow<()> {
        if matches!(left, Left::Push(_)) && !self.has_memory(larger) {
            return ControlFlow::Break(());
        }
        match mem::replace(left, Left::Done) {
            Left::Push(item) => {
                let len = item.len();
                self.append(item, len);
            }
            Left::Request(control) => self.request(control),
            Left::Cork { received, control } => self.cork(received, control),
            Left::Uncork => self.uncork(),
            Left::Back(baton) if self.is_current(&baton) => self.holder = Holder::Home(baton),
            Left::HandOver(baton) if self.is_current(&baton) => {
                self.holder = Holder::Task(baton);
                self.wake_writer = true;
            }
            // Freed by the caller together with its slot, outside of the lock.
            Left::Back(baton) | Left::HandOver(baton) => *left = Left::Back(baton),
            Left::Look => self.wake_writer = true,
            Left::Done => {}
        }
        ControlFlow::Continue(())
    }

    /// Whether there is memory for one more message. Memory is allocated and freed outside of the lock,
    /// so the buffer is exchanged for `larger` if that has more capacity.
    pub(super) fn has_memory(&mut self, larger: &mut VecDeque<Item>) -> bool {
        let count = self.waiting.len();
        if count < self.waiting.capacity() {
            return true;
        }
        if larger.capacity() <= count {
            return false;
        }
        larger.append(&mut self.waiting);
        mem::swap(larger, &mut self.waiting);
        true
    }

    /// The capacity to allocate, in messages, if there is no room for one more; else 0.
    pub(super) fn wanted(&self, larger: &VecDeque<Item>) -> usize {
        let count = self.waiting.len();
        let has_memory = count < self.waiting.capacity().max(larger.capacity());
        if has_memory { 0 } else { (2 * count).max(FIRST_MESSAGES) }
    }

    /// Gives the baton to the writer task, if the queue has it and there is something to write. Returns
    /// whether the writer task must be woken.
    pub(super) fn hand_to_task(&mut self) -> bool {
        let baton = if self.is_due() { self.holder.take_home() } else { None };
        match baton {
            Some(baton) => self.holder = Holder::Task(baton),
            None => return mem::take(&mut self.wake_writer),
        }
        true
    }
}
