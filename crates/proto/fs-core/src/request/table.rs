//! The table of requests.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Ino, Rank, Tid};

/// A server without the feature bit `32BITS_RETRY_FWD` counts retries and forwards in 8 bits.
const OLD_COUNT_MAX: u32 = 255;

/// What the table must know of a request's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Whether it changes something: it may be answered before it is durable.
    pub changes: bool,
    /// Whether it is a file lock. One that waits may be older than all others for hours, so servers do not
    /// keep results back to it.
    pub is_lock: bool,
}

/// A message to a metadata server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// The request.
    pub tid: Tid,
    /// The metadata server.
    pub rank: Rank,
    /// The oldest request whose result the server must keep.
    pub oldest: Tid,
    /// Whether the server has answered it before it restarted. A replay carries no releases.
    pub is_replay: bool,
    /// How often the request was sent before.
    pub retries: u32,
    /// How often servers have forwarded it.
    pub forwards: u32,
    /// The inode that it created, in a replay.
    pub created: Option<Ino>,
}

/// Why a request ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A forward with no larger number than the last: the servers do not agree (EMULTIHOP).
    #[error("metadata servers forward the request in a circle (after {0} forwards)")]
    Circle(u32),
    /// The server cannot count further retries.
    #[error("the request was sent {0} times, more than the metadata server can count")]
    TooOften(u32),
}

/// Something that the owner must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Choose a rank for the request and call [`Requests::route`].
    Choose(Tid),
    /// Open a session.
    OpenSession(Rank),
    /// Send a request.
    Send(Send),
    /// Give the reply at hand to the caller.
    Deliver(Tid),
    /// The change is durable; its content can be forgotten.
    Safe(Tid),
    /// Give the caller an error.
    Fail(Tid, Failure),
    /// A change that its caller takes for done may be lost with the session (EIO at the next `fsync`).
    Lost(Tid),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No rank is known.
    Unrouted,
    /// The session is not open.
    Queued,
    /// It was sent and has no reply.
    Sent,
    /// It has its first reply.
    Unsafe,
}

#[derive(Clone, Debug)]
struct Request {
    kind: Kind,
    state: State,
    rank: Option<Rank>,
    retries: u32,
    forwards: u32,
    created: Option<Ino>,
    /// Whether the caller no longer waits.
    is_abandoned: bool,
}

/// The requests of one client.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    last: u64,
    table: BTreeMap<Tid, Request>,
    open: BTreeSet<Rank>,
    opening: BTreeSet<Rank>,
    effects: Vec<Effect>,
}

impl Requests {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the effects of all events since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The number of requests, those whose callers have their reply included.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no request.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The changes that are answered and not durable, which `fsync` and `umount` wait for.
    pub fn unsafe_changes(&self) -> impl Iterator<Item = Tid> + '_ {
        self.table.iter().filter(|(_, request)| request.state == State::Unsafe).map(|(tid, _)| *tid)
    }

    /// The oldest request whose result the servers must keep: the next tid, if there is none.
    pub fn oldest(&self) -> Tid {
        let counted = self.table.iter().find(|(_, request)| !request.kind.is_lock);
        counted.map_or(Tid(self.last + 1), |(tid, _)| *tid)
    }

    /// Adds a request. The owner keeps its content under the tid.
    pub fn submit(&mut self, kind: Kind) -> Tid {
        self.last += 1;
        let tid = Tid(self.last);
        let request = Request {
            kind,
            state: State::Unrouted,
            rank: None,
            retries: 0,
            forwards: 0,
            created: None,
            is_abandoned: false,
        };
        self.table.insert(tid, request);
        self.effects.push(Effect::Choose(tid));
        tid
    }

    /// The owner has chosen a rank; none if the request must wait for a map.
    pub fn route(&mut self, tid: Tid, rank: Option<Rank>) {
        let Some(request) = self.table.get_mut(&tid) else { return };
        if matches!(request.state, State::Sent | State::Unsafe) {
            return;
        }
        request.rank = rank;
        request.state = if rank.is_some() { State::Queued } else { State::Unrouted };
        let Some(rank) = rank else { return };
        if self.open.contains(&rank) {
            self.send(tid, false);
        } else if self.opening.insert(rank) {
            self.effects.push(Effect::OpenSession(rank));
        }
    }

    /// A newer map has come: requests that wait for it get another choice.
    pub fn map_changed(&mut self) {
        let waiting = self.table.iter().filter(|(_, request)| request.state == State::Unrouted);
        self.effects.extend(waiting.map(|(tid, _)| Effect::Choose(*tid)));
    }

    /// A session is open: what waits for it is sent in the order of submission.
    pub fn session_opened(&mut self, rank: Rank) {
        self.opening.remove(&rank);
        self.open.insert(rank);
        for tid in self.on(rank, State::Queued) {
            self.send(tid, false);
        }
    }

    /// The owner could not open a session: its requests get another choice.
    pub fn session_refused(&mut self, rank: Rank) {
        self.opening.remove(&rank);
        for tid in self.on(rank, State::Queued) {
            self.choose_again(tid);
        }
    }

    /// A session is lost: changes that were answered and not durable are lost, the rest is sent again.
    pub fn session_lost(&mut self, rank: Rank) {
        self.open.remove(&rank);
        self.opening.remove(&rank);
        for tid in self.on(rank, State::Unsafe) {
            self.table.remove(&tid);
            self.effects.push(Effect::Lost(tid));
        }
        for state in [State::Sent, State::Queued] {
            for tid in self.on(rank, state) {
                self.choose_again(tid);
            }
        }
    }

    /// A metadata server has restarted and asks for what it had answered: to be called before its
    /// capabilities are claimed. Until [`Requests::reconnected`] nothing else goes to it.
    pub fn replay(&mut self, rank: Rank) {
        self.open.remove(&rank);
        self.opening.insert(rank);
        for tid in self.on(rank, State::Unsafe) {
            self.send(tid, true);
        }
    }

    /// The capabilities are claimed: requests without a reply are sent again, then those that wait.
    pub fn reconnected(&mut self, rank: Rank) {
        let sent = self.on(rank, State::Sent);
        self.opening.remove(&rank);
        self.open.insert(rank);
        for tid in sent.into_iter().chain(self.on(rank, State::Queued)) {
            self.send(tid, false);
        }
    }

    /// A reply has come. A reply of a rank that was not asked is ignored: it is one of before a forward.
    pub fn reply(&mut self, rank: Rank, tid: Tid, is_safe: bool, created: Option<Ino>) {
        let Some(request) = self.table.get_mut(&tid).filter(|request| request.rank == Some(rank)) else {
            return;
        };
        let is_first = request.state == State::Sent;
        if !is_first && request.state != State::Unsafe {
            return;
        }
        request.created = request.created.or(created);
        if is_first && !request.is_abandoned {
            self.effects.push(Effect::Deliver(tid));
        }
        if is_safe || !request.kind.changes {
            self.effects.push(Effect::Safe(tid));
            self.table.remove(&tid);
        } else {
            request.state = State::Unsafe;
        }
    }

    /// A server names another one (`MClientRequestForward`).
    pub fn forward(&mut self, rank: Rank, tid: Tid, destination: Rank, forwards: u32) {
        let is_asked = |request: &&mut Request| request.rank == Some(rank) && request.state == State::Sent;
        let Some(request) = self.table.get_mut(&tid).filter(is_asked) else { return };
        if forwards <= request.forwards {
            return self.fail(tid, Failure::Circle(forwards));
        }
        request.forwards = forwards;
        request.state = State::Unrouted;
        self.route(tid, Some(destination));
    }

    /// The caller no longer waits. What was not sent is forgotten; otherwise the reply is awaited, because
    /// it may bring capabilities, and a change may have happened.
    pub fn abandon(&mut self, tid: Tid) {
        let Some(request) = self.table.get_mut(&tid) else { return };
        if request.retries == 0 && matches!(request.state, State::Unrouted | State::Queued) {
            self.table.remove(&tid);
            self.effects.push(Effect::Safe(tid));
        } else {
            request.is_abandoned = true;
        }
    }

    /// A server without the feature bit for long counts cannot be asked more often than it can count.
    /// Returns whether the request ended for that reason. The owner calls this before it encodes a message
    /// for such a server.
    pub fn check_old_counts(&mut self, tid: Tid) -> bool {
        let Some(request) = self.table.get(&tid) else { return true };
        let is_too_often = request.retries > OLD_COUNT_MAX || request.forwards > OLD_COUNT_MAX;
        if is_too_often {
            self.fail(tid, Failure::TooOften(request.retries));
        }
        is_too_often
    }

    /// The requests of a rank in a state, in the order of submission.
    fn on(&self, rank: Rank, state: State) -> Vec<Tid> {
        let there = |request: &Request| request.rank == Some(rank) && request.state == state;
        self.table.iter().filter(|(_, request)| there(request)).map(|(tid, _)| *tid).collect()
    }

    fn choose_again(&mut self, tid: Tid) {
        if let Some(request) = self.table.get_mut(&tid) {
            request.state = State::Unrouted;
            request.rank = None;
            self.effects.push(Effect::Choose(tid));
        }
    }

    fn fail(&mut self, tid: Tid, failure: Failure) {
        if let Some(request) = self.table.remove(&tid)
            && !request.is_abandoned
        {
            self.effects.push(Effect::Fail(tid, failure));
        }
        self.effects.push(Effect::Safe(tid));
    }

    fn send(&mut self, tid: Tid, is_replay: bool) {
        let oldest = self.oldest();
        let Some(request) = self.table.get_mut(&tid) else { return };
        let Some(rank) = request.rank else { return };
        let Request { retries, forwards, created, .. } = *request;
        request.retries = retries.saturating_add(1);
        if !is_replay {
            request.state = State::Sent;
        }
        let created = created.filter(|_| is_replay);
        self.effects.push(Effect::Send(Send { tid, rank, oldest, is_replay, retries, forwards, created }));
    }
}
