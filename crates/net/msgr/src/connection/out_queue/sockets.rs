//! Changes of the queue when a socket comes or goes, and messages that outlive a socket.
//!
//! Moving many messages takes too long for a lock that a thousand senders may want. So they are moved a
//! few at a time, or outside of the lock: while the connection is not open, only its driver takes
//! messages out.

use std::collections::VecDeque;
use std::mem;

use az::SaturatingAs as _;
use loligo_lane::Discarded;
use loligo_wire::message::Msg;

use super::{Baton, Control, Guard, Holder, Inner, Item, Left, MOVED_MAX, OutQueue, RUN_BYTES_MAX, State};

/// Values that a change of state leaves to be freed, outside of all locks.
#[must_use = "is to be dropped after the session's lock was released"]
pub(crate) struct Garbage<W> {
    _waiting: VecDeque<Item>,
    _unacked: VecDeque<Msg>,
    _baton: Option<Box<Baton<W>>>,
    _left: Discarded<Left<W>>,
}

impl<W> OutQueue<W> {
    /// Removes and frees the messages that the peer has acknowledged.
    pub(crate) fn acked(&self, seq: u64) {
        loop {
            let mut done = VecDeque::with_capacity(MOVED_MAX);
            let mut inner = self.inner.lock();
            while done.len() < MOVED_MAX && inner.unacked.front().is_some_and(|msg| msg.header.seq <= seq) {
                let Some(msg) = inner.unacked.pop_front() else { break };
                inner.unacked_bytes -= msg.len();
                done.push_back(msg);
            }
            self.unlock_and_go(inner);
            if done.len() < MOVED_MAX {
                return;
            }
        }
    }

    /// Installs a new socket: messages may flow. In a session that continues, `peer_in_seq` is the
    /// newest message that the peer has received; messages up to it are not resent. Returns the baton,
    /// which the caller must run; `None` if the queue is closed.
    ///
    /// The caller holds the session's lock.
    pub(crate) fn open(&self, writer: W, peer_in_seq: Option<u64>) -> Option<Box<Baton<W>>> {
        if let Some(seq) = peer_in_seq {
            self.drop_received(seq);
        }
        if self.lossless {
            self.make_room();
        }
        let batch = VecDeque::with_capacity(if self.lossless { MOVED_MAX } else { 0 });
        let mut baton = Box::new(Baton { generation: 0, batch, control: Control::default(), writer });
        let mut inner = self.lock();
        if inner.state == State::Closed {
            self.unlock_and_go(inner);
            return None;
        }
        self.set_state(&mut inner, State::Open);
        inner.generation += 1;
        inner.balance = inner.waiting.len().saturating_as::<i64>();
        inner.extremes = (inner.balance, inner.balance);
        baton.generation = inner.generation;
        self.unlock_and_go(inner);
        Some(baton)
    }

    /// The socket is lost, or the connection leaves standby. Puts the messages that were sent and not
    /// acknowledged back in front of the waiting ones. The state becomes `if_empty` if then no message
    /// waits, else `if_not`; returns the new state. A closed connection stays closed.
    ///
    /// The caller holds the session's lock.
    pub(crate) fn detach(&self, if_empty: State, if_not: State) -> (State, Option<Box<Baton<W>>>) {
        let mut inner = self.inner.lock();
        if inner.state == State::Closed {
            self.unlock_and_go(inner);
            return (State::Closed, None);
        }
        // From here on no operation can be left, and those left before take effect: a baton as a stale
        // one, a message as a waiting one.
        self.set_state(&mut inner, if_not);
        let baton = inner.holder.take_back();
        self.unlock_and_go(inner);
        let mut inner = self.lock();
        let is_empty = inner.waiting.is_empty() && inner.unacked.is_empty();
        let state = if is_empty { if_empty } else { if_not };
        self.set_state(&mut inner, state);
        inner.control = Control::default();
        let unacked = mem::take(&mut inner.unacked);
        self.unlock_and_go(inner);
        self.put_in_front(unacked);
        (state, baton)
    }

    /// The peer has forgotten the session: drops all waiting and unacknowledged messages and restarts
    /// the sequence numbers at 1. Not allowed while open.
    ///
    /// The caller holds the session's lock.
    pub(crate) fn clear(&self) -> Garbage<W> {
        let mut inner = self.lock();
        debug_assert!(inner.state != State::Open, "a session is reset while its messages flow");
        inner.out_seq = 0;
        self.empty(inner)
    }

    /// Closes the queue for good and empties it. Returns `None` if it was closed before.
    ///
    /// The caller holds the session's lock.
    pub(crate) fn close(&self) -> Option<Garbage<W>> {
        let mut inner = self.inner.lock();
        if inner.state == State::Closed {
            self.unlock_and_go(inner);
            return None;
        }
        self.set_state(&mut inner, State::Closed);
        inner.crowded = true;
        Some(self.empty(inner))
    }

    /// Moves the next batch into the baton. Messages are numbered and stored as unacknowledged in the
    /// same critical section that removes them from the waiting ones: wherever the connection is lost,
    /// each message is in one of the two places.
    pub(super) fn load_lossless(&self, inner: &mut Inner<W>, baton: &mut Baton<W>) {
        let room = (inner.unacked.capacity() - inner.unacked.len()).min(MOVED_MAX);
        let mut bytes = 0;
        while bytes < RUN_BYTES_MAX && baton.batch.len() < room {
            let Some(item) = inner.waiting.pop_front() else { break };
            bytes += item.len();
            let Some(mut msg) = item.into_msg() else { continue };
            if msg.header.seq == 0 {
                inner.out_seq += 1;
                msg.header.seq = inner.out_seq;
            }
            baton.batch.push_back(Item::Plain(msg.clone()));
            inner.unacked_bytes += msg.len();
            inner.unacked.push_back(msg);
        }
        inner.waiting_bytes -= bytes;
    }

    /// Makes room to store the next messages as unacknowledged. Without room a load takes nothing, and
    /// the runner comes back through [`OutQueue::next`], which makes room.
    pub(super) fn make_room(&self) {
        let mut larger = VecDeque::new();
        loop {
            let mut inner = self.inner.lock();
            let wanted = inner.unacked.len() + MOVED_MAX;
            let is_enough = inner.unacked.capacity() >= wanted;
            let is_got = larger.capacity() >= wanted;
            if !is_enough && is_got {
                larger.append(&mut inner.unacked);
                mem::swap(&mut larger, &mut inner.unacked);
            }
            // Memory is allocated and freed outside of the lock.
            self.unlock_and_go(inner);
            if is_enough || is_got {
                return;
            }
            larger = VecDeque::with_capacity(2 * wanted);
        }
    }

    /// Drops messages that were sent on an earlier socket and that the peer has received. Not while
    /// open.
    fn drop_received(&self, seq: u64) {
        loop {
            let mut received = VecDeque::with_capacity(MOVED_MAX);
            let mut inner = self.inner.lock();
            let is_received = |item: &Item| (1..=seq).contains(&item.seq());
            while received.len() < MOVED_MAX && inner.waiting.front().is_some_and(is_received) {
                let Some(item) = inner.waiting.pop_front() else { break };
                inner.waiting_bytes -= item.len();
                received.push_back(item);
            }
            self.unlock_and_go(inner);
            if received.len() < MOVED_MAX {
                return;
            }
        }
    }

    /// Puts sent messages, which still count as unacknowledged, in front of the waiting ones. Not while
    /// open.
    fn put_in_front(&self, unacked: VecDeque<Msg>) {
        if unacked.is_empty() {
            return;
        }
        let mut front: VecDeque<Item> = unacked.into_iter().map(Item::Plain).collect();
        loop {
            let mut inner = self.inner.lock();
            let closed = inner.state == State::Closed;
            let behind = inner.waiting.len();
            let is_enough = front.capacity() - front.len() >= behind;
            if !closed && is_enough {
                front.append(&mut inner.waiting);
                mem::swap(&mut front, &mut inner.waiting);
                inner.waiting_bytes += mem::take(&mut inner.unacked_bytes);
            }
            self.unlock_and_go(inner);
            if closed || is_enough {
                return;
            }
            front.reserve(behind);
        }
    }

    fn empty(&self, mut inner: Guard<'_, W>) -> Garbage<W> {
        inner.shut();
        let garbage = Garbage {
            _left: inner.discard(),
            _waiting: mem::take(&mut inner.waiting),
            _unacked: mem::take(&mut inner.unacked),
            _baton: inner.holder.take_back(),
        };
        inner.waiting_bytes = 0;
        inner.unacked_bytes = 0;
        inner.control = Control::default();
        self.unlock_and_go(inner);
        garbage
    }
}

impl<W> Holder<W> {
    /// Takes the baton away for good; a thread that holds it finds out when it returns.
    fn take_back(&mut self) -> Option<Box<Baton<W>>> {
        match mem::replace(self, Self::Away) {
            Self::Home(baton) | Self::Task(baton) => Some(baton),
            Self::Away => None,
        }
    }
}
