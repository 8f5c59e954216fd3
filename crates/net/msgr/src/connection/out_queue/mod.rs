//! The out-queue: holds the senders' messages until the thread that writes the connection's socket takes
//! them.
//!
//! The [`Baton`] is the right to write the socket. While the connection is open and no thread writes,
//! the queue holds the baton. A thread that queues a message and finds the baton in the queue takes it
//! and becomes the runner; there is at most one. A thread that finds the baton absent need not write: a
//! runner returns the baton in the same critical section in which it saw that nothing was left
//! ([`OutQueue::next`]). So no message stays behind, and no two threads write at the same time.
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
//! The connection's state is stored here too. It is written under this lock *and* the session's, so
//! either lock suffices to read it. No memory is freed, and nothing is encoded or written, under this
//! lock: values to drop are returned to the caller.
//!
//! Critical sections are short, but a thread may be preempted in one. Senders, readers and writers
//! therefore do not wait for the lock: a thread that finds it taken leaves its operation, and the lock's
//! owner performs it (`left`). If the lock is free, a send is one uncontended acquisition and one
//! append, without an allocation of its own. Threads wait for the lock only to open, close or lose a
//! socket, when the queue is nearly full, and in lossless sessions to store or free unacknowledged
//! messages.
//!
//! This is not a `loligo_lane::Lane`, whose push takes no lock: here the state, the waiting messages and
//! the unacknowledged ones must change in one step.

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

/// Bounds of one batch: large enough that a run's fixed costs vanish, small enough that a run ends soon
/// and that most revoked messages have not left yet.
const RUN_MESSAGES_MAX: usize = 1024;
const RUN_BYTES_MAX: usize = 4 << 20;

/// A queue is long when it holds at least 1/`LONG_PART` of its bounds.
const LONG_PART: usize = 8;

/// Messages moved in one critical section, at most.
const MOVED_MAX: usize = 64;

/// Capacity, in messages, of a queue's first allocation, and capacity that a written batch keeps.
const FIRST_MESSAGES: usize = 8;
pub(crate) const KEPT_MESSAGES: usize = 256;

/// Messages under a cork are written once they reach one of these sizes: the peer can start to process
/// them, and the fixed costs of a write (about 3 µs) are spread over enough messages.
const CORKED_MESSAGES_MAX: usize = 32;
const CORKED_BYTES_MAX: usize = 256 << 10;

/// What the caller must do after an operation such as [`OutQueue::push`].
#[must_use]
pub(crate) enum Action<W> {
    /// Nothing: the baton's holder will look at the queue again.
    Nothing,
    /// Run: write the baton's batch, then call [`OutQueue::next`].
    Submit(Box<Baton<W>>),
    /// Wake the writer task, which has the baton.
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
    /// A copy of the state, to be read without the lock.
    state: AtomicU8,
    /// Operations may be left for the lock's owner while the queue holds less than this.
    left_from: Bound,
    messages_max: usize,
    bytes_max: usize,
    lossless: bool,
    /// Notified when the queue has room again after a sender found it full, or when the connection is
    /// closed.
    pub(crate) place: Notify,
    /// Wakes the writer task: it has the baton, or it must look at operations that were left.
    pub(crate) writer_wake: Notify,
    /// Notified when the queue is not long any more, after [`OutQueue::is_long`] returned `true`.
    pub(crate) shorter: Notify,
}

/// Must be released by one of the `unlock` functions: see `left`.
type Guard<'a, W> = Combined<'a, Inner<W>, Left<W>>;

struct Inner<W> {
    state: State,
    generation: u64,
    holder: Holder<W>,
    /// Not sent yet. Messages with a sequence number were sent on an earlier socket; they are in front.
    waiting: VecDeque<Item>,
    /// Sent and not acknowledged, in order. Empty if lossy.
    unacked: VecDeque<Msg>,
    waiting_bytes: usize,
    unacked_bytes: usize,
    /// The newest sequence number assigned. Only if lossless: on lossy connections each socket's writer
    /// counts from 1.
    out_seq: u64,
    control: Control,
    /// The number of corks in place.
    corks: u32,
    /// Messages sent less messages received: see [`Inner::more_to_come`].
    balance: i64,
    /// The least and the greatest balance since the last [`OutQueue::settle`].
    extremes: (i64, i64),
    /// A sender waits for room.
    crowded: bool,
    /// The reader waits for the queue to become shorter.
    holds_reader: bool,
    /// The writer task must be woken, if it has the baton.
    wake_writer: bool,
}

/// The holder of the baton.
enum Holder<W> {
    /// The queue: the next sender takes it.
    Home(Box<Baton<W>>),
    /// A running thread; or the connection is not open and there is no baton.
    Away,
    /// The writer task, when it runs next.
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
    /// Creates the empty queue of a connection that is not open.
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
    /// The message is returned with the refusal, so that the caller frees it.
    #[inline]
    pub(crate) fn push(&self, item: Item) -> Result<Action<W>, Box<(Refusal, Item)>> {
        let len = item.len();
        let Some(mut inner) = self.enter() else { return self.push_aside(item) };
        let has_memory = inner.waiting.len() < inner.waiting.capacity();
        if inner.state == State::Closed || self.is_full(&inner) || !has_memory {
            // Operations that other threads had left, and that are now done, may have made a write due.
            inner.wake_writer |= inner.hand_to_task();
            self.unlock_and_go(inner);
            return self.push_aside(item);
        }
        inner.append(item, len);
        let action = self.schedule(&mut inner);
        Ok(self.unlock(inner, action))
    }

    /// Like [`OutQueue::push`], for the case that another thread holds the lock, memory must be
    /// allocated, or the message is likely to be refused.
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

    /// Queues messages and leaves the writing to the writer task.
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

    /// Requests control frames to be sent. Does not wake a connection that is not open: acknowledgements
    /// and keepalives belong to a socket.
    pub(crate) fn request(&self, control: Control) -> Action<W> {
        let Some(mut inner) = self.enter() else { return self.leave(Left::Request(control)) };
        inner.request(control);
        let action = if inner.state == State::Open { self.schedule(&mut inner) } else { Action::Nothing };
        self.unlock(inner, action)
    }

    /// Counts `received` messages and requests `control` to be sent. Until the matching
    /// [`OutQueue::uncork`], queued messages wait until they are worth a write of their own. Returns
    /// `None` if the queue is closed.
    pub(crate) fn cork(&self, received: usize, control: Control) -> Option<Action<W>> {
        if self.state() == State::Closed {
            return None;
        }
        let Some(mut inner) = self.enter() else { return Some(self.leave(Left::Cork { received, control })) };
        inner.cork(received, control);
        let action = self.schedule(&mut inner);
        Some(self.unlock(inner, action))
    }

    /// Removes one cork.
    pub(crate) fn uncork(&self) -> Action<W> {
        let Some(mut inner) = self.enter() else { return self.leave(Left::Uncork) };
        inner.uncork();
        let action = self.load_if_due(&mut inner);
        self.unlock(inner, action)
    }

    /// Gives the runner its next batch (`Submit`) or, if there is nothing to write, takes the baton
    /// back.
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

    /// Leaves the baton for the writer task.
    pub(crate) fn hand_over(&self, baton: Box<Baton<W>>) -> Action<W> {
        let Some(mut inner) = self.enter() else { return self.leave(Left::HandOver(baton)) };
        if !inner.is_current(&baton) {
            // The baton is dropped after the lock is released, because parameters are dropped last.
            let action = self.schedule(&mut inner);
            return self.unlock(inner, action);
        }
        inner.holder = Holder::Task(baton);
        self.unlock(inner, Action::WakeWriter)
    }

    /// Returns the baton if it was left for the writer task, or if operations that other threads left
    /// made a write due.
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
                // The writer task is the caller: it must look once more.
                self.writer_wake.notify_one();
                None
            }
            Action::Nothing | Action::WakeDriver => None,
        }
    }

    /// Corrects the balance for messages that are neither requests nor replies, such as maps. Of the two
    /// extremes since the last call, the one nearer to zero was reached at rest, where the balance would
    /// be zero without such messages; it is subtracted. Does nothing if the lock is taken; a later call
    /// makes the correction.
    pub(crate) fn settle(&self) {
        let Some(mut inner) = self.inner.try_lock() else { return };
        let (least, greatest) = inner.extremes;
        let rest = if least.abs() < greatest.abs() { least } else { greatest };
        inner.balance -= rest;
        inner.extremes = (inner.balance, inner.balance);
        self.unlock_and_go(inner);
    }

    /// Whether no message waits now, but messages are expected within microseconds.
    pub(crate) fn is_about_to_fill(&self) -> bool {
        // The lock's owner is most likely queuing a message.
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

    /// The connection's state, for callers that hold neither lock: it may have changed when they look at
    /// the result.
    pub(crate) fn state(&self) -> State {
        // Acquire and release: a thread that sees a state also sees the writes that led to it.
        State::from_bits(self.state.load(Ordering::Acquire))
    }

    /// Messages that wait or are not acknowledged, plus the operations that were left for the lock's
    /// owner.
    pub(crate) fn len(&self) -> usize {
        let inner = self.inner.lock();
        let len = inner.len() + self.inner.left();
        self.unlock_and_go(inner);
        len
    }

    /// Whether there is room; if not, `place` will be notified. `Err` if the queue is closed.
    pub(crate) fn check_place(&self) -> Result<bool, Refusal> {
        let mut inner = self.lock();
        let closed = inner.state == State::Closed;
        let full = self.is_full(&inner);
        inner.crowded |= full;
        self.unlock_and_go(inner);
        if closed { Err(Refusal::Closed) } else { Ok(!full) }
    }

    /// Whether so much waits that the peer should read some of it before it requests more; if so,
    /// `shorter` will be notified. May return `false` while another thread holds the lock; a later call
    /// finds out.
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

    /// Decides what a thread that has just queued something must do.
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

    /// Like [`OutQueue::schedule`], for callers that may write even if more messages are expected.
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

    /// Moves the next batch into the baton.
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

    /// Whether the baton belongs to the socket in use.
    fn is_current(&self, baton: &Baton<W>) -> bool {
        self.generation == baton.generation && self.state == State::Open
    }

    /// The caller has made sure that there is memory for the item.
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

    /// Adds messages sent (or, if negative, received) to the balance.
    fn weigh(&mut self, messages: i64) {
        self.balance += messages;
        self.extremes = (self.extremes.0.min(self.balance), self.extremes.1.max(self.balance));
    }

    /// Whether there is something to write that must not wait for the corks to be removed.
    fn is_due(&self) -> bool {
        if self.corks == 0 {
            return !self.waiting.is_empty() || !self.control.is_empty();
        }
        self.waiting.len() >= CORKED_MESSAGES_MAX || self.waiting_bytes >= CORKED_BYTES_MAX
    }

    /// Guesses whether further messages will be sent within microseconds, so that it pays to wait for
    /// them.
    ///
    /// Almost all traffic is requests and replies. The balance of a client with one request in flight is
    /// 1 after the send; that of a server which answers its only request is 0. Nothing else is expected
    /// then, so the queue is written at once. A balance further from zero means that more requests are
    /// in flight; their replies come in batches, and each batch makes several senders run. The guess
    /// affects only speed: a wrong one costs a yield or a system call.
    fn more_to_come(&self) -> bool {
        !(-1..=1).contains(&self.balance)
    }
}

#[cfg(test)]
mod tests;
