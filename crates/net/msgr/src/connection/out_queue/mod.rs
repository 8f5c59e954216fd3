//! The out-queue: where senders leave messages for whoever writes the connection's socket.
//!
//! Its "somebody runs it" bit is a thing: the [`Baton`]. While the connection is open and nobody writes, the
//! queue holds the baton. Whoever pushes and finds it there takes it along, and thereby is the one runner;
//! whoever finds it away knows that somebody will look again, because a runner gives it back in the same
//! critical section in which it saw that nothing was left ([`OutQueue::next`]). So no message is left behind,
//! and no two threads write at the same time.
//!
//! ```text
//!                    push, cork                 next: something left
//!   baton at home ───────────────▶ with a thread ──────────────┐
//!        ▲                               │   ▲                 │
//!        │      next: nothing left       │   └─────────────────┘
//!        ├───────────────────────────────┤
//!        │                               ▼ hand_over: socket full, budget spent, or more is about to come
//!        └───────────────────────── the writer task
//! ```
//!
//! The connection's state is kept here too. It is written under this lock *and* the session's, so that
//! holding either is enough to read it. Nothing is freed, encoded or written under this lock: what is to be
//! freed is handed out.
//!
//! Its sections are short; but a thread can lose its processor in the shortest one. So nobody waits for the
//! lock: who finds it taken leaves what he wanted done, and whoever has it does that (`left`). While it is
//! free a send is the acquisition of a free lock and an append, with no memory of its own to be got. Only who
//! opens, closes or loses a socket, who finds the queue almost full, and in lossless sessions who keeps or
//! frees what is not acknowledged waits for it.
//!
//! It is not a `loligo_lane::Lane`, whose push takes no lock at all: here the state, what waits and what is
//! unacknowledged must change in one step.

mod item;
mod left;
mod sockets;

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU8, Ordering};

use az::SaturatingAs as _;
use loligo_lane::{Bound, Combined, Combiner};
use loligo_lockstat::Class;
use loligo_wire::message::Msg;
use tokio::sync::Notify;

pub(crate) use self::item::{Baton, Control, Item, Slot};
pub use self::item::{Unpacked, Watcher};
use self::left::{Left, left_bound, left_from};
use super::State;

static OUT_QUEUE: Class = Class::new("msgr.out_queue");

/// Messages and bytes that one run takes at a time: enough that a run's fixed costs vanish, little enough
/// that it ends soon and that what is revoked has mostly not left yet.
const RUN_MESSAGES_MAX: usize = 1024;
const RUN_BYTES_MAX: usize = 4 << 20;

/// A queue is long when this part of what it may hold waits in it.
const LONG_PART: usize = 8;

/// Messages that are moved in one critical section.
const MOVED_MAX: usize = 64;

/// Messages for which a queue first gets memory, and those for which it keeps it.
const FIRST_MESSAGES: usize = 8;
pub(crate) const KEPT_MESSAGES: usize = 256;

/// What gathers under a cork is written when it is this much: the peer can begin to work on it, and the fixed
/// costs of a write (about 3 µs) are spread over enough messages.
const CORKED_MESSAGES_MAX: usize = 32;
const CORKED_BYTES_MAX: usize = 256 << 10;

/// What a sender has to do after [`OutQueue::push`].
#[must_use]
pub(crate) enum Action<W> {
    /// Nothing: whoever has the baton will look again.
    Nothing,
    /// Run: write the baton's batch, then call [`OutQueue::next`].
    Submit(Box<Baton<W>>),
    /// Wake the writer task, which has been given the baton.
    WakeWriter,
    /// Wake the driver: the connection is in standby.
    WakeDriver,
}

/// Why a message was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Closed,
    Full,
}

/// See the [module's](self) documentation.
pub(crate) struct OutQueue<W> {
    inner: Combiner<Inner<W>, Left<W>>,
    /// The state, a copy to be read without the lock.
    state: AtomicU8,
    /// With less than this in the queue things may be left.
    left_from: Bound,
    messages_max: usize,
    bytes_max: usize,
    lossless: bool,
    /// Place was made after somebody was told that there is none, or the connection was closed.
    pub(crate) place: Notify,
    /// Wakes the writer task: it has been given the baton, or something was left that it is to look at.
    pub(crate) writer_wake: Notify,
    /// Less waits than the reader was told of by [`OutQueue::is_long`].
    pub(crate) shorter: Notify,
}

/// To be given back by one of the `unlock`s: see `left`.
type Guard<'a, W> = Combined<'a, Inner<W>, Left<W>>;

struct Inner<W> {
    state: State,
    generation: u64,
    holder: Holder<W>,
    /// Not sent yet. Those with a sequence number were, on an earlier socket; they stand in front.
    waiting: VecDeque<Item>,
    /// Sent and not acknowledged, in order. Empty if lossy.
    unacked: VecDeque<Msg>,
    waiting_bytes: usize,
    unacked_bytes: usize,
    /// The newest sequence number given. Only if lossless: else each socket's writer counts from 1.
    out_seq: u64,
    control: Control,
    /// Those who have asked that messages gather.
    corks: u32,
    /// Messages sent less messages received: see [`Inner::more_to_come`].
    balance: i64,
    /// The least and the greatest balance since the last [`OutQueue::settle`].
    extremes: (i64, i64),
    /// Somebody waits for place.
    crowded: bool,
    /// The reader waits until less waits here.
    holds_reader: bool,
    /// The writer task is to be woken, if it has been given the baton.
    wake_writer: bool,
}

/// Who has the baton.
enum Holder<W> {
    /// Nobody: the next sender takes it.
    Home(Box<Baton<W>>),
    /// A thread that runs; or the connection is not open and there is no baton.
    Away,
    /// The writer task, once it comes.
    Task(Box<Baton<W>>),
}

impl<W> Holder<W> {
    fn take_home(&mut self) -> Option<Box<Baton<W>>> {
        match mem::replace(self, Self::Away) {
            Self::Home(baton) => Some(baton),
            other => {
                *self = other;
                None
            }
        }
    }

    fn take_task(&mut self) -> Option<Box<Baton<W>>> {
        match mem::replace(self, Self::Away) {
            Self::Task(baton) => Some(baton),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl<W> OutQueue<W> {
    /// An empty queue of a connection that is not open.
    pub(crate) fn new(lossless: bool, messages_max: usize, bytes_max: usize) -> Self {
        let inner = Inner {
            state: State::Connecting,
            generation: 0,
            holder: Holder::Away,
            waiting: VecDeque::new(),
            unacked: VecDeque::new(),
            waiting_bytes: 0,
            unacked_bytes: 0,
            out_seq: 0,
            control: Control::default(),
            corks: 0,
            balance: 0,
            extremes: (0, 0),
            crowded: false,
            holds_reader: false,
            wake_writer: false,
        };
        let whole = Bound { items: messages_max, bytes: bytes_max };
        Self {
            state: AtomicU8::new(State::Connecting as u8),
            inner: Combiner::new(&OUT_QUEUE, left_bound(whole), Left::len, inner),
            left_from: left_from(whole),
            messages_max,
            bytes_max,
            lossless,
            place: Notify::new(),
            writer_wake: Notify::new(),
            shorter: Notify::new(),
        }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// The message comes back with the refusal, so that the caller frees it.
    #[inline]
    pub(crate) fn push(&self, item: Item) -> Result<Action<W>, Box<(Refusal, Item)>> {
        let len = item.len();
        let Some(mut inner) = self.enter() else { return self.push_aside(item) };
        let has_memory = inner.waiting.len() < inner.waiting.capacity();
        if inner.state == State::Closed || self.is_full(&inner) || !has_memory {
            // What others had left, and is now done, may have made a write due.
            inner.wake_writer |= inner.hand_to_task();
            self.unlock_and_go(inner);
            return self.push_aside(item);
        }
        inner.append(item, len);
        let action = self.schedule(&mut inner);
        Ok(self.unlock(inner, action))
    }

    /// As [`OutQueue::push`], when somebody else has the lock, or memory must be got, or the message is
    /// likely to be refused.
    #[cold]
    fn push_aside(&self, mut item: Item) -> Result<Action<W>, Box<(Refusal, Item)>> {
        let mut larger = VecDeque::new();
        loop {
            match self.inner.leave(Left::Push(item)) {
                Ok(None) => return Ok(Action::Nothing),
                Ok(Some(inner)) => return Ok(self.attend(inner)),
                Err(refused) => item = refused.into_item(),
            }
            let mut inner = self.lock();
            let closed = inner.state == State::Closed;
            if closed || self.is_full(&inner) {
                inner.crowded = true;
                self.unlock_and_go(inner);
                let refusal = if closed { Refusal::Closed } else { Refusal::Full };
                return Err(Box::new((refusal, item)));
            }
            if inner.has_memory(&mut larger) {
                let len = item.len();
                inner.append(item, len);
                let action = self.schedule(&mut inner);
                return Ok(self.unlock(inner, action));
            }
            let wanted = inner.wanted(&larger);
            self.unlock_and_go(inner);
            larger = VecDeque::with_capacity(wanted);
        }
    }

    /// Queues messages and leaves writing them to the writer task.
    pub(crate) fn push_for_task(&self, msgs: Box<dyn Unpacked>) -> Result<(), Refusal> {
        let (count, bytes) = (msgs.count(), msgs.bytes());
        let mut larger = VecDeque::new();
        loop {
            let mut inner = self.lock();
            let closed = inner.state == State::Closed;
            if closed || self.is_full(&inner) {
                self.unlock_and_go(inner);
                return Err(if closed { Refusal::Closed } else { Refusal::Full });
            }
            if inner.has_memory(&mut larger) {
                inner.append(Item::Unpacked(msgs), bytes);
                inner.weigh(count.saturating_as::<i64>() - 1);
                inner.wake_writer |= inner.hand_to_task();
                self.unlock_and_go(inner);
                return Ok(());
            }
            let wanted = inner.wanted(&larger);
            self.unlock_and_go(inner);
            larger = VecDeque::with_capacity(wanted);
        }
    }

    /// Asks for something to be sent besides messages. Does not wake a connection that is not open:
    /// acknowledgements and signs of life belong to a socket.
    pub(crate) fn request(&self, control: Control) -> Action<W> {
        let Some(mut inner) = self.enter() else { return self.leave(Left::Request(control)) };
        inner.request(control);
        let action = if inner.state == State::Open { self.schedule(&mut inner) } else { Action::Nothing };
        self.unlock(inner, action)
    }

    /// Counts `received` messages and asks for `control` to be sent. From now on, and until as many calls of
    /// [`OutQueue::uncork`], what is pushed waits until it is worth a write of its own. `None` if the queue
    /// is closed.
    pub(crate) fn cork(&self, received: usize, control: Control) -> Option<Action<W>> {
        if self.state() == State::Closed {
            return None;
        }
        let Some(mut inner) = self.enter() else { return Some(self.leave(Left::Cork { received, control })) };
        inner.cork(received, control);
        let action = self.schedule(&mut inner);
        Some(self.unlock(inner, action))
    }

    /// Takes a cork out.
    pub(crate) fn uncork(&self) -> Action<W> {
        let Some(mut inner) = self.enter() else { return self.leave(Left::Uncork) };
        inner.uncork();
        let action = self.load_if_due(&mut inner);
        self.unlock(inner, action)
    }

    /// Gives the runner its next batch (Submit); or, if there is nothing to write, takes the baton back.
    pub(crate) fn next(&self, baton: Box<Baton<W>>) -> Action<W> {
        if self.lossless {
            self.make_room();
        }
        let Some(mut inner) = self.enter() else { return self.leave(Left::Back(baton)) };
        let mut stale = None;
        if inner.is_current(&baton) {
            inner.holder = Holder::Home(baton);
        } else {
            stale = Some(baton);
        }
        let action = self.load_if_due(&mut inner);
        let action = self.unlock(inner, action);
        drop(stale);
        action
    }

    /// Leaves the baton to the writer task.
    pub(crate) fn hand_over(&self, baton: Box<Baton<W>>) -> Action<W> {
        let Some(mut inner) = self.enter() else { return self.leave(Left::HandOver(baton)) };
        if !inner.is_current(&baton) {
            // The baton is dropped after the lock, because parameters are dropped last.
            let action = self.schedule(&mut inner);
            return self.unlock(inner, action);
        }
        inner.holder = Holder::Task(baton);
        self.unlock(inner, Action::WakeWriter)
    }

    /// The baton, if it was left to the writer task, or if what others have left made a write due.
    pub(crate) fn take_handed(&self) -> Option<Box<Baton<W>>> {
        let action = match self.enter() {
            Some(mut inner) => {
                inner.wake_writer = false;
                let action = match inner.holder.take_task() {
                    Some(baton) => Action::Submit(baton),
                    None => self.load_if_due(&mut inner),
                };
                self.unlock(inner, action)
            }
            None => self.leave(Left::Look),
        };
        match action {
            Action::Submit(baton) => Some(baton),
            Action::WakeWriter => {
                // It is we who are meant, once more.
                self.writer_wake.notify_one();
                None
            }
            Action::Nothing | Action::WakeDriver => None,
        }
    }

    /// Corrects the balance for messages that are neither requests nor replies, such as maps. Of the extremes
    /// the one nearer to zero was when the connection was at rest, or would have been without them. Another
    /// time, if the lock is taken.
    pub(crate) fn settle(&self) {
        let Some(mut inner) = self.inner.try_lock() else { return };
        let (least, greatest) = inner.extremes;
        let rest = if least.abs() < greatest.abs() { least } else { greatest };
        inner.balance -= rest;
        inner.extremes = (inner.balance, inner.balance);
        self.unlock_and_go(inner);
    }

    /// Whether nothing waits now, but messages are expected within microseconds.
    pub(crate) fn is_about_to_fill(&self) -> bool {
        // Who has the lock is leaving a message, most likely.
        let Some(inner) = self.inner.try_lock() else { return false };
        let is_about_to = inner.waiting.is_empty() && inner.is_clear() && inner.more_to_come();
        self.unlock_and_go(inner);
        is_about_to
    }

    /// Whether messages wait.
    pub(crate) fn has_waiting(&self) -> bool {
        let inner = self.inner.lock();
        let waiting = !inner.waiting.is_empty() || !inner.is_clear();
        self.unlock_and_go(inner);
        waiting
    }

    /// The connection's state, for those who hold neither lock: it may be another by the time that they look
    /// at it.
    pub(crate) fn state(&self) -> State {
        // Acquire and release: who sees a state sees what led to it.
        State::from_bits(self.state.load(Ordering::Acquire))
    }

    /// Messages that wait or are not acknowledged, and the few other things that wait for the lock.
    pub(crate) fn len(&self) -> usize {
        let inner = self.inner.lock();
        let len = inner.len() + self.inner.left();
        self.unlock_and_go(inner);
        len
    }

    /// Whether there is place; if not, `place` will be notified. `Err` if the queue is closed.
    pub(crate) fn check_place(&self) -> Result<bool, Refusal> {
        let mut inner = self.lock();
        let closed = inner.state == State::Closed;
        let full = self.is_full(&inner);
        inner.crowded |= full;
        self.unlock_and_go(inner);
        if closed { Err(Refusal::Closed) } else { Ok(!full) }
    }

    /// Whether so much waits that the peer should take some of it before it asks for more; if so, `shorter`
    /// will be notified. Perhaps not, if somebody else has the lock: then another time.
    pub(crate) fn is_long(&self) -> bool {
        let Some(inner) = self.inner.try_lock() else { return false };
        let may_be = self.is_long_now(&inner);
        self.unlock_and_go(inner);
        if !may_be {
            return false;
        }
        let mut inner = self.lock();
        let is_long = inner.state != State::Closed && self.is_long_now(&inner);
        inner.holds_reader = is_long;
        self.unlock_and_go(inner);
        is_long
    }

    fn is_long_now(&self, inner: &Inner<W>) -> bool {
        inner.len() >= (self.messages_max / LONG_PART).max(1)
            || inner.waiting_bytes + inner.unacked_bytes >= (self.bytes_max / LONG_PART).max(1)
    }

    fn is_full(&self, inner: &Inner<W>) -> bool {
        inner.len() >= self.messages_max || inner.waiting_bytes + inner.unacked_bytes >= self.bytes_max
    }

    fn set_state(&self, inner: &mut Inner<W>, state: State) {
        inner.state = state;
        self.state.store(state as u8, Ordering::Release);
    }

    /// What whoever has just left something in the queue must do.
    #[inline]
    fn schedule(&self, inner: &mut Inner<W>) -> Action<W> {
        if inner.state == State::Standby {
            return Action::WakeDriver;
        }
        if inner.corks == 0
            && inner.more_to_come()
            && inner.is_due()
            && let Some(baton) = inner.holder.take_home()
        {
            inner.holder = Holder::Task(baton);
            inner.wake_writer = true;
        }
        self.load_if_due(inner)
    }

    /// As [`OutQueue::schedule`], for those who may write even if more is to come.
    fn load_if_due(&self, inner: &mut Inner<W>) -> Action<W> {
        let wake_writer = mem::take(&mut inner.wake_writer);
        if wake_writer && matches!(inner.holder, Holder::Task(_)) {
            return Action::WakeWriter;
        }
        if !inner.is_due() {
            return Action::Nothing;
        }
        let Some(mut baton) = inner.holder.take_home() else {
            return Action::Nothing;
        };
        self.load(inner, &mut baton);
        Action::Submit(baton)
    }

    /// Moves what is to be written next into the baton.
    fn load(&self, inner: &mut Inner<W>, baton: &mut Baton<W>) {
        baton.control = mem::take(&mut inner.control);
        if self.lossless {
            return self.load_lossless(inner, baton);
        }
        debug_assert!(baton.batch.is_empty(), "the batch before was not written");
        if inner.waiting.len() <= RUN_MESSAGES_MAX && inner.waiting_bytes <= RUN_BYTES_MAX {
            mem::swap(&mut inner.waiting, &mut baton.batch);
            inner.waiting_bytes = 0;
            return;
        }
        let mut bytes = 0;
        while bytes < RUN_BYTES_MAX && baton.batch.len() < RUN_MESSAGES_MAX {
            let Some(item) = inner.waiting.pop_front() else { break };
            bytes += item.len();
            baton.batch.push_back(item);
        }
        inner.waiting_bytes -= bytes;
    }
}

impl<W> Inner<W> {
    fn len(&self) -> usize {
        self.waiting.len() + self.unacked.len()
    }

    /// Whether the baton is that of the socket which is in use.
    fn is_current(&self, baton: &Baton<W>) -> bool {
        self.generation == baton.generation && self.state == State::Open
    }

    /// There is memory for it.
    #[inline(always)]
    fn append(&mut self, item: Item, len: usize) {
        self.weigh(1);
        self.waiting_bytes += len;
        self.waiting.push_back(item);
    }

    fn request(&mut self, control: Control) {
        if self.state == State::Open {
            self.control.add(control);
        }
    }

    fn cork(&mut self, received: usize, control: Control) {
        self.weigh(-received.saturating_as::<i64>());
        self.control.add(control);
        self.corks += 1;
    }

    fn uncork(&mut self) {
        self.corks = self.corks.saturating_sub(1);
    }

    /// Counts messages sent (or, negative, received).
    fn weigh(&mut self, messages: i64) {
        self.balance += messages;
        self.extremes = (self.extremes.0.min(self.balance), self.extremes.1.max(self.balance));
    }

    /// Whether there is something to write that shall not wait for a cork to be taken out.
    fn is_due(&self) -> bool {
        if self.corks == 0 {
            return !self.waiting.is_empty() || !self.control.is_empty();
        }
        self.waiting.len() >= CORKED_MESSAGES_MAX || self.waiting_bytes >= CORKED_BYTES_MAX
    }

    /// Guesses whether further messages will be sent within microseconds, so that it pays to wait for them.
    ///
    /// Almost all traffic is requests and replies. The balance of a client that has one request in flight is
    /// 1 after the send, that of a server which answers its only request is 0: nothing else is to come, so
    /// write at once. A balance further from zero means that more requests are in flight; their replies come
    /// in batches, and each batch makes several senders run. The guess is only about speed: what it gets
    /// wrong costs a yield or a system call.
    fn more_to_come(&self) -> bool {
        !(-1..=1).contains(&self.balance)
    }
}

#[cfg(test)]
mod tests;
