//! What those leave who find the lock taken, and how it is done for them.
//!
//! Nobody who sends, reads or writes waits for the lock: its holder may have lost the processor, and a
//! thousand senders that sleep for it would have to be woken one by one. They leave what they wanted done
//! instead, and whoever has the lock does it (`loligo_lane::Combiner` has the rules). What then is to be done
//! by somebody, such as writing, falls to the one who did it.
//!
//! Things can be left only while the connection is open and the queue far enough from its bounds that all
//! that is left finds place. Otherwise everybody waits for the lock, and learns there whether there is place.

use std::collections::VecDeque;
use std::mem;
use std::ops::ControlFlow;

use loligo_lane::Bound;

use super::{Action, Baton, Control, FIRST_MESSAGES, Guard, Holder, Inner, Item, MOVED_MAX, OutQueue, State};

/// Things that may be left: as many as can come while a holder is without a processor for some milliseconds.
const LEFT_MAX: usize = 1024;

/// How often a thread takes the lock for what others have left before it calls the writer task to go on.
const ROUNDS_MAX: usize = 4;

/// Something to be done in the queue.
pub(super) enum Left<W> {
    Push(Item),
    Request(Control),
    Cork {
        received: usize,
        control: Control,
    },
    Uncork,
    /// A runner has written what it had.
    Back(Box<Baton<W>>),
    /// A runner leaves the rest to the writer task.
    HandOver(Box<Baton<W>>),
    /// The writer task is to be woken if it has been given the baton.
    Look,
    /// What was here has been done.
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

/// How much may be left, for a queue that may hold `whole`: at most a quarter.
pub(super) fn left_bound(whole: Bound) -> Bound {
    Bound { items: (whole.items / 4).clamp(1, LEFT_MAX), bytes: (whole.bytes / 4).max(1) }
}

/// With how much less than this in the queue things may be left. In one critical section it grows by what was
/// left before and by one message; meanwhile as much again may be left.
pub(super) fn left_from(whole: Bound) -> Bound {
    let left = left_bound(whole);
    let less = |all: usize, part: usize| all.saturating_sub(2 * part);
    Bound { items: less(whole.items, left.items), bytes: less(whole.bytes, left.bytes) }
}

impl<W> OutQueue<W> {
    /// The lock, if it is free and all is done that was left before. Else the caller leaves what he has.
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
        // What the caller leaves comes behind the others, and is noticed with them.
        let _ = self.release(inner);
        None
    }

    /// The lock, after waiting for it, when all is done that was left before. Nothing can be left from now
    /// on, until the guard is released.
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
            // The next turn does what is left.
            let _ = inner.release();
            if is_handed {
                self.writer_wake.notify_one();
            }
            if wanted > 0 {
                larger = VecDeque::with_capacity(wanted);
            }
        }
    }

    /// Leaves something that cannot be refused for whoever has the lock; or waits for the lock and does it.
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

    /// Does what was left, until nothing is or somebody else has the lock, who will. Returns what the caller
    /// then must do.
    #[cold]
    pub(super) fn attend<'a>(&'a self, mut inner: Guard<'a, W>) -> Action<W> {
        let mut larger = VecDeque::new();
        for _ in 0..ROUNDS_MAX {
            inner.serve(MOVED_MAX, |inner, left| inner.apply(left, &mut larger));
            let action = self.schedule(&mut inner);
            let wanted = inner.wanted(&larger);
            let is_left = self.release(inner);
            // Whoever writes comes to the queue again afterwards.
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

    /// Releases the lock. Returns what the caller must do: `action`, or what comes of what was left
    /// meanwhile.
    #[inline(always)]
    pub(super) fn unlock(&self, inner: Guard<'_, W>, action: Action<W>) -> Action<W> {
        if self.release(inner) { self.unlocked(action) } else { action }
    }

    #[cold]
    fn unlocked(&self, action: Action<W>) -> Action<W> {
        if !matches!(action, Action::Nothing) {
            // Whoever writes comes to the queue again afterwards.
            return action;
        }
        self.inner.call().map_or(Action::Nothing, |inner| self.attend(inner))
    }

    /// As [`OutQueue::unlock`], for those who cannot write now.
    pub(super) fn unlock_and_go(&self, mut inner: Guard<'_, W>) {
        let wake_writer = mem::take(&mut inner.wake_writer);
        if self.release(inner) || wake_writer {
            self.writer_wake.notify_one();
        }
    }

    /// Releases the lock; tells those who wait for place, if there is some now. Returns whether something is
    /// left to be done.
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

    /// Whether all that may be left will find place.
    #[inline]
    fn has_place_for_left(&self, inner: &Inner<W>) -> bool {
        inner.state == State::Open
            && inner.len() < self.left_from.items
            && inner.waiting_bytes + inner.unacked_bytes < self.left_from.bytes
    }
}

impl<W> Inner<W> {
    /// Does what somebody left. Breaks if a message does not find memory; `larger`, if it has more, is used
    /// then.
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
            // To be freed with what it was left in, without the lock.
            Left::Back(baton) | Left::HandOver(baton) => *left = Left::Back(baton),
            Left::Look => self.wake_writer = true,
            Left::Done => {}
        }
        ControlFlow::Continue(())
    }

    /// Whether there is memory for one more message. It is got, and freed, without the lock: so it is
    /// exchanged for `larger`, if there is more of it.
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

    /// For how many messages memory is to be got, if there is none for one more; else 0.
    pub(super) fn wanted(&self, larger: &VecDeque<Item>) -> usize {
        let count = self.waiting.len();
        let has_memory = count < self.waiting.capacity().max(larger.capacity());
        if has_memory { 0 } else { (2 * count).max(FIRST_MESSAGES) }
    }

    /// Gives the baton to the writer task, if it is at home and there is something to write.
    pub(super) fn hand_to_task(&mut self) -> bool {
        let baton = if self.is_due() { self.holder.take_home() } else { None };
        match baton {
            Some(baton) => self.holder = Holder::Task(baton),
            None => return mem::take(&mut self.wake_writer),
        }
        true
    }
}
