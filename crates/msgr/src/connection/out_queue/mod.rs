//! The out-queue: where senders leave messages for whoever writes the connection's socket.
//!
//! Its "somebody runs it" bit is a thing: the [`Baton`]. While the connection is open and nobody writes, the queue holds
//! the baton. Whoever pushes and finds it there takes it along, and thereby is the one runner; whoever finds it away knows
//! that somebody will look again, because a runner gives it back in the same critical section in which it saw that nothing
//! was left ([`OutQueue::next`]). So no message is left behind, and no two threads write at the same time.
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
//! The connection's state is kept here too. It is written under this lock *and* the session's, so that holding either is
//! enough to read it. Nothing is freed, encoded or written under this lock: what is to be freed is handed out.
//!
//! The lock is a spin lock, as in the kernel's fix of this case: its sections are short, and a thousand senders that sleep
//! on it for one that lost its processor would have to be woken one by one. (Measured with what is now `loligo contend out-queue`:
//! half the waiting, a third of the longest wait.)
//!
//! It is not a `loligo_lane::Lane`, whose push takes no lock at all: here the state, what waits and what is unacknowledged
//! must change in one step.

mod item;
mod sockets;

use std::collections::VecDeque;
use std::mem;

use loligo_lockstat::{Class, SpinLock, SpinLockGuard};
use loligo_wire::message::Msg;
use tokio::sync::Notify;

pub(crate) use self::item::{Baton, Control, Item, Slot};
use super::State;

static OUT_QUEUE: Class = Class::new("msgr.out_queue");

/// Messages and bytes that one run takes at a time: enough that a run's fixed costs vanish, little enough that it ends
/// soon and that what is revoked has mostly not left yet.
const RUN_MESSAGES_MAX: usize = 1024;
const RUN_BYTES_MAX: usize = 4 << 20;

/// Messages for which a queue first gets memory, and those for which it keeps it.
const FIRST_MESSAGES: usize = 8;
pub(crate) const KEPT_MESSAGES: usize = 256;

/// What gathers under a cork is written when it is this much: the peer can begin to work on it, and the fixed costs of a
/// write (about 3 µs) are spread over enough messages.
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
    inner: SpinLock<Inner<W>>,
    messages_max: usize,
    bytes_max: usize,
    lossless: bool,
    /// Place was made after somebody was told that there is none, or the connection was closed.
    pub(crate) place: Notify,
}

type Guard<'a, W> = SpinLockGuard<'a, Inner<W>>;

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
        };
        Self {
            inner: SpinLock::new(&OUT_QUEUE, inner),
            messages_max,
            bytes_max,
            lossless,
            place: Notify::new(),
        }
    }

    /// Queues a message.
    ///
    /// # Errors
    /// The message comes back with the refusal, so that the caller frees it.
    pub(crate) fn push(&self, item: Item) -> Result<Action<W>, Box<(Refusal, Item)>> {
        let len = item.len();
        let mut larger = VecDeque::new();
        loop {
            let mut inner = self.inner.lock();
            let closed = inner.state == State::Closed;
            if closed || self.is_full(&inner) {
                inner.crowded = true;
                drop(inner);
                let refusal = if closed { Refusal::Closed } else { Refusal::Full };
                return Err(Box::new((refusal, item)));
            }
            let count = inner.waiting.len();
            if count == inner.waiting.capacity() {
                if larger.capacity() <= count {
                    // Memory is got, and freed, without the lock.
                    drop(inner);
                    larger = VecDeque::with_capacity((2 * count).max(FIRST_MESSAGES));
                    continue;
                }
                larger.append(&mut inner.waiting);
                mem::swap(&mut larger, &mut inner.waiting);
            }
            inner.weigh(1);
            inner.waiting_bytes += len;
            inner.waiting.push_back(item);
            return Ok(self.schedule(&mut inner));
        }
    }

    /// Asks for something to be sent besides messages. Does not wake a connection that is not open: acknowledgements and
    /// signs of life belong to a socket.
    pub(crate) fn request(&self, control: Control) -> Action<W> {
        let mut inner = self.inner.lock();
        if inner.state != State::Open {
            return Action::Nothing;
        }
        inner.control.add(control);
        self.schedule(&mut inner)
    }

    /// Counts `received` messages and asks for `control` to be sent. From now on, and until as many calls of
    /// [`OutQueue::uncork`], what is pushed waits until it is worth a write of its own. `false` if the queue is closed.
    pub(crate) fn cork(&self, received: usize, control: Control) -> bool {
        let mut inner = self.inner.lock();
        if inner.state == State::Closed {
            return false;
        }
        inner.weigh(-(received as i64));
        inner.control.add(control);
        inner.corks += 1;
        true
    }

    /// Takes a cork out. Returns the baton, loaded, if the caller must run.
    pub(crate) fn uncork(&self) -> Option<Box<Baton<W>>> {
        let mut inner = self.inner.lock();
        inner.corks = inner.corks.saturating_sub(1);
        if !inner.is_due() {
            return None;
        }
        let mut baton = inner.holder.take_home()?;
        self.load(&mut inner, &mut baton);
        self.unlock_and_tell(inner);
        Some(baton)
    }

    /// Gives the runner its next batch; or, if there is nothing to write, takes the baton back.
    pub(crate) fn next(&self, mut baton: Box<Baton<W>>) -> Option<Box<Baton<W>>> {
        if self.lossless {
            self.make_room();
        }
        let mut inner = self.inner.lock();
        if inner.generation != baton.generation || inner.state != State::Open {
            // The baton is dropped after the lock, because parameters are dropped last.
            return None;
        }
        if !inner.is_due() {
            inner.holder = Holder::Home(baton);
            return None;
        }
        self.load(&mut inner, &mut baton);
        self.unlock_and_tell(inner);
        Some(baton)
    }

    /// Leaves the baton to the writer task, which the caller then wakes.
    pub(crate) fn hand_over(&self, baton: Box<Baton<W>>) {
        let mut inner = self.inner.lock();
        if inner.generation == baton.generation && inner.state == State::Open {
            inner.holder = Holder::Task(baton);
        }
    }

    /// The baton, if it was left to the writer task.
    pub(crate) fn take_handed(&self) -> Option<Box<Baton<W>>> {
        let mut inner = self.inner.lock();
        match mem::replace(&mut inner.holder, Holder::Away) {
            Holder::Task(baton) => Some(baton),
            other => {
                inner.holder = other;
                None
            }
        }
    }

    /// Corrects the balance for messages that are neither requests nor replies, such as maps. Of the extremes the one nearer
    /// to zero was when the connection was at rest, or would have been without them.
    pub(crate) fn settle(&self) {
        let mut inner = self.inner.lock();
        let (least, greatest) = inner.extremes;
        let rest = if least.abs() < greatest.abs() { least } else { greatest };
        inner.balance -= rest;
        inner.extremes = (inner.balance, inner.balance);
    }

    /// Whether nothing waits now, but messages are expected within microseconds.
    pub(crate) fn is_about_to_fill(&self) -> bool {
        let inner = self.inner.lock();
        inner.waiting.is_empty() && inner.more_to_come()
    }

    /// Whether messages wait.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.inner.lock().waiting.is_empty()
    }

    /// The connection's state, for those who do not hold the session's lock.
    pub(crate) fn state(&self) -> State {
        self.inner.lock().state
    }

    /// Messages that wait or are not acknowledged.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().len()
    }

    /// Whether there is place; if not, `place` will be notified. `Err` if the queue is closed.
    pub(crate) fn check_place(&self) -> Result<bool, Refusal> {
        let mut inner = self.inner.lock();
        if inner.state == State::Closed {
            return Err(Refusal::Closed);
        }
        let full = self.is_full(&inner);
        inner.crowded |= full;
        Ok(!full)
    }

    fn is_full(&self, inner: &Inner<W>) -> bool {
        inner.len() >= self.messages_max || inner.waiting_bytes + inner.unacked_bytes >= self.bytes_max
    }

    /// What whoever has just left something in the queue must do.
    fn schedule(&self, inner: &mut Inner<W>) -> Action<W> {
        if inner.state == State::Standby {
            return Action::WakeDriver;
        }
        if !inner.is_due() {
            return Action::Nothing;
        }
        let Some(mut baton) = inner.holder.take_home() else {
            return Action::Nothing;
        };
        if inner.corks == 0 && inner.more_to_come() {
            inner.holder = Holder::Task(baton);
            return Action::WakeWriter;
        }
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

    /// Releases the lock; then tells those who wait for place, if there is some now.
    fn unlock_and_tell(&self, mut inner: Guard<'_, W>) {
        let place = inner.crowded && !self.is_full(&inner);
        inner.crowded &= !place;
        drop(inner);
        if place {
            self.place.notify_waiters();
        }
    }
}

impl<W> Inner<W> {
    fn len(&self) -> usize {
        self.waiting.len() + self.unacked.len()
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
    /// Almost all traffic is requests and replies. The balance of a client that has one request in flight is 1 after the
    /// send, that of a server which answers its only request is 0: nothing else is to come, so write at once. A balance
    /// further from zero means that more requests are in flight; their replies come in batches, and each batch makes
    /// several senders run. The guess is only about speed: what it gets wrong costs a yield or a system call.
    fn more_to_come(&self) -> bool {
        !(-1..=1).contains(&self.balance)
    }
}

#[cfg(test)]
mod tests;
