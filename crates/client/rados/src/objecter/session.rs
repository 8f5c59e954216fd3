//! What is in flight to one OSD.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Unpacked, Watcher};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDBackoff, OsdFlags, OsdReply};
use loligo_wire::{EntityAddr, Epoch, OsdId, PgId, SpgId, Tid};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::flight::Flight;
use super::op::{Numbered, Op};
use super::requests::{Request, WaitsFor};
use super::target::Placement;
use super::traced::watcher;

static SESSION: Class = Class::new("rados.session");

/// Everything that is in flight to one OSD; or, in the one session without an OSD, to nobody for now.
pub(crate) struct Session {
    pub(super) osd: OsdId,
    /// Where the OSD listens; one that moves gets another session.
    pub(super) addr: EntityAddr,
    state: Mutex<State>,
}

/// # The gate
/// Operations on one object must reach its OSD in the order in which they were submitted, also when those
/// before are sent again. So whoever sends again (only the [steward](super::steward)) closes the gate first:
/// operations that come meanwhile queue in `held`, and the gate opens in the same critical section in which
/// `held` is seen to be empty.
struct State {
    conn: Option<Arc<Connection>>,
    conn_made: Instant,
    /// Operations placed by an older map have to look again: those before them may have moved elsewhere.
    epoch: Epoch,
    /// Nobody may come any more: the OSD is gone or has moved, or the client is shut down.
    ended: bool,
    gated: bool,
    held: VecDeque<Arc<Op>>,
    table: FxHashMap<Tid, Arc<Op>>,
    backoffs: Vec<Backoff>,
}

/// Attempts that wait for their turn to be packed, one after the other. Each is packed as it was placed,
/// whatever has come since: the first attempts of operations behind it are packed already, and must not
/// overtake it.
pub(super) struct Attempts {
    osd: Option<OsdId>,
    epoch: Epoch,
    all: Vec<Attempt>,
    bytes: usize,
}

struct Attempt {
    op: Arc<Op>,
    to: To,
}

/// Where an attempt goes: thousands come at once, and mostly little has to be said of each.
enum To {
    /// See [`FlightCell::usual`](super::flight::FlightCell::usual).
    Usual {
        seed: u32,
        hash: u32,
        attempts: i32,
    },
    Other(Box<Flight>),
}

/// About how long a request is without its data.
const REQUEST_LEN: usize = 256;

impl Attempts {
    /// None yet, to an OSD by the map of `epoch`.
    pub(super) fn new(osd: Option<OsdId>, epoch: Epoch) -> Self {
        Self { osd, epoch, all: Vec::new(), bytes: 0 }
    }

    /// Takes all out.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.osd, self.epoch))
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds the next attempt of an operation, as it is placed now.
    fn add(&mut self, op: &Arc<Op>) {
        let attempts = op.flight.next_attempt();
        let to = match op.flight.usual() {
            Some((seed, hash)) => To::Usual { seed, hash, attempts },
            None => To::Other(Box::new(op.flight.load())),
        };
        self.bytes += REQUEST_LEN + op.data_len;
        self.all.push(Attempt { op: Arc::clone(op), to });
    }

    fn packed(&self, Attempt { op, to }: &Attempt) -> Msg {
        let usual;
        let flight = match to {
            To::Other(flight) => flight,
            To::Usual { seed, hash, attempts } => {
                let pool = op.request.locator.pool;
                let place = Placement {
                    spgid: SpgId::whole(PgId { pool, seed: *seed }),
                    pool,
                    hash: *hash,
                    epoch: self.epoch,
                    osd: self.osd,
                    paused: false,
                    flags: op.request.flags,
                };
                usual = Flight { place, attempts: *attempts, elsewhere: None, primary_only: false };
                &usual
            }
        };
        op.pack(flight)
    }
}

impl Unpacked for Attempts {
    fn count(&self) -> usize {
        self.all.len()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn pack(self: Box<Self>, each: &mut dyn FnMut(Msg, Option<Arc<dyn Watcher>>)) {
        for attempt in &self.all {
            let msg = self.packed(attempt);
            each(msg, watcher(&attempt.op));
        }
    }
}

/// What became of an operation that came to a session.
pub(super) enum Admission {
    /// It is in the table: send it, with [`Op::pack_first`].
    Send(Arc<Connection>),
    /// It is in the table or waits at the gate, and will be sent by others.
    Taken,
    /// Look again where it belongs.
    Stale,
}

/// An answer that has come for an operation.
pub(super) enum Answered {
    /// It is the end.
    Done(Arc<Op>, OsdReply),
    /// The operation has to be sent again, perhaps elsewhere.
    Again(Arc<Op>, OsdReply),
}

impl Session {
    /// A session that takes operations placed by maps from `epoch` on. A session without a connection sends
    /// nothing.
    pub(super) fn new(osd: OsdId, addr: EntityAddr, epoch: Epoch, gated: bool) -> Arc<Self> {
        let state = State {
            conn: None,
            conn_made: Instant::now(),
            epoch,
            ended: false,
            gated,
            held: VecDeque::new(),
            table: FxHashMap::default(),
            backoffs: Vec::new(),
        };
        Arc::new(Self { osd, addr, state: Mutex::new(&SESSION, state) })
    }

    /// Keeps an operation at the gate, if that is closed.
    pub(super) fn hold(&self, op: &Arc<Op>, place: &Placement) -> bool {
        let mut state = self.state.lock();
        let holds = state.gated && !state.ended;
        if holds {
            op.flight.set_place(place);
            state.held.push_back(Arc::clone(op));
        }
        holds
    }

    /// Takes a new operation in.
    pub(super) fn admit(&self, op: &Arc<Op>, place: &Placement) -> Admission {
        let mut state = self.state.lock();
        if state.ended || place.epoch < state.epoch {
            return Admission::Stale;
        }
        op.flight.set_place(place);
        if state.gated {
            state.held.push_back(Arc::clone(op));
            return Admission::Taken;
        }
        let conn = if place.paused || state.is_backed_off(op) { None } else { state.conn.clone() };
        op.flight.set_attempts(i32::from(conn.is_some()));
        state.table.insert(op.tid, Arc::clone(op));
        conn.map_or(Admission::Taken, Admission::Send)
    }

    /// Takes the operations that `replies` end out of the table, all under one lock. An answer to an attempt
    /// that was not the last one is ignored: the last one's will come.
    pub(super) fn answered(&self, replies: Vec<(Tid, OsdReply)>) -> Vec<Answered> {
        let mut answered = Vec::with_capacity(replies.len());
        let mut state = self.state.lock();
        for (tid, reply) in replies {
            let Some(op) = state.table.get(&tid) else { continue };
            if reply.retry_attempt >= 0 && reply.retry_attempt != op.flight.attempts() - 1 {
                continue;
            }
            let Some(op) = state.table.remove(&tid) else { continue };
            let again = reply.redirect.is_some() || reply.result == -EAGAIN;
            answered.push(if again { Answered::Again(op, reply) } else { Answered::Done(op, reply) });
        }
        answered
    }

    /// Takes one operation out of the table: its answer could not be read, or nobody waits for it any more.
    pub(super) fn remove(&self, tid: Tid) -> Option<Arc<Op>> {
        let mut state = self.state.lock();
        if let Some(op) = state.table.remove(&tid) {
            return Some(op);
        }
        let at = state.held.iter().position(|op| op.tid == tid)?;
        state.held.remove(at)
    }

    /// Holds back operations on a range of objects; `false` if the connection is not this session's any more.
    pub(super) fn back_off(&self, msg: &MOSDBackoff, conn: &Arc<Connection>) -> bool {
        let mut state = self.state.lock();
        if state.conn.as_ref().is_none_or(|current| current.id() != conn.id()) {
            return false;
        }
        state.backoffs.retain(|backoff| !backoff.is(msg));
        state.backoffs.push(Backoff::of(msg));
        true
    }
}

/// `EAGAIN`: this OSD cannot answer now, such as a replica that was asked instead of the primary.
const EAGAIN: i32 = 11;

/// What is shown.
impl Session {
    /// The operations in flight.
    pub(super) fn requests(&self) -> Vec<Request> {
        let shown =
            |(op, flight, waits_for): (Arc<Op>, Flight, WaitsFor)| Request::of(&op, &flight, waits_for);
        self.flying(|_| true).into_iter().map(shown).collect()
    }

    /// The operations in flight that are `wanted`, each with its place and what it waits for.
    pub(super) fn flying(&self, wanted: impl Fn(&Op) -> bool) -> Vec<(Arc<Op>, Flight, WaitsFor)> {
        let (ops, conn) = {
            let state = self.state.lock();
            let flying = |op: &Arc<Op>, backed_off| (Arc::clone(op), op.flight.load(), backed_off);
            let in_table = state.table.values().filter(|op| wanted(op));
            let mut ops: Vec<_> = in_table.map(|op| flying(op, Some(state.is_backed_off(op)))).collect();
            ops.extend(state.held.iter().filter(|op| wanted(op)).map(|op| flying(op, None)));
            (ops, state.conn.as_ref().map(|conn| conn.state()))
        };
        let with_reason = |(op, flight, backed_off): (Arc<Op>, Flight, Option<bool>)| {
            let waits_for = match backed_off {
                Some(backed_off) => WaitsFor::of(self.is_homeless(), flight.place.paused, backed_off, conn),
                None => WaitsFor::Turn,
            };
            (op, flight, waits_for)
        };
        ops.into_iter().map(with_reason).collect()
    }
}

/// What the steward does.
impl Session {
    /// Closes the gate.
    pub(super) fn gate(&self) {
        self.state.lock().gated = true;
    }

    /// Closes the gate, and from now on lets only operations in that were placed by maps from `epoch` on.
    pub(super) fn gate_for(&self, epoch: Epoch) {
        let mut state = self.state.lock();
        state.gated = true;
        state.epoch = epoch;
    }

    /// Opens the gate if nobody waits at it; else returns those who wait.
    pub(super) fn open_gate(&self) -> Option<VecDeque<Arc<Op>>> {
        let mut state = self.state.lock();
        if state.held.is_empty() {
            state.gated = false;
            return None;
        }
        Some(std::mem::take(&mut state.held))
    }

    /// The operations in the table.
    pub(super) fn in_table(&self) -> Vec<Arc<Op>> {
        self.state.lock().table.values().cloned().collect()
    }

    /// Takes operations out of the table that are still there.
    pub(super) fn take(&self, tids: &[Tid]) -> Vec<Numbered> {
        let mut state = self.state.lock();
        tids.iter().filter_map(|tid| state.table.remove_entry(tid)).collect()
    }

    /// Puts a few operations into the table, whatever the gate, and makes room in it for `more`, so that it
    /// does not grow step by step. Those that are to be sent now, over the connection that is given back, are
    /// added to `attempts`.
    pub(super) fn place(
        &self,
        ops: impl ExactSizeIterator<Item = Arc<Op>>,
        more: usize,
        attempts: &mut Attempts,
    ) -> Option<Arc<Connection>> {
        let mut state = self.state.lock();
        let conn = state.conn.clone();
        state.table.reserve(ops.len() + more);
        for op in ops {
            if conn.is_some() && !op.flight.is_paused() && !state.is_backed_off(&op) {
                attempts.add(&op);
            }
            state.table.insert(op.tid, op);
        }
        conn
    }

    /// Uses a new connection, and gives back the one that is not used any more: the old one, or this one
    /// after the end. Backoffs belong to the old one and are forgotten.
    pub(super) fn attach(&self, conn: Arc<Connection>) -> Option<Arc<Connection>> {
        let mut state = self.state.lock();
        if state.ended {
            return Some(conn);
        }
        state.backoffs.clear();
        state.conn_made = Instant::now();
        state.conn.replace(conn)
    }

    /// What is left until the connection is as old as `min`; `None` if it is.
    pub(super) fn too_young(&self, min: Duration) -> Option<Duration> {
        let age = self.state.lock().conn_made.elapsed();
        min.checked_sub(age).filter(|left| !left.is_zero())
    }

    /// Whether this is the session without an OSD.
    pub(super) fn is_homeless(&self) -> bool {
        self.osd.0 < 0
    }

    /// The session's connection.
    pub(super) fn conn(&self) -> Option<Arc<Connection>> {
        self.state.lock().conn.clone()
    }

    /// Whether `conn` is the session's connection.
    pub(super) fn uses(&self, conn_id: u64) -> bool {
        self.state.lock().conn.as_ref().is_some_and(|conn| conn.id() == conn_id)
    }

    /// Takes all operations of the table out.
    pub(super) fn take_all(&self) -> Vec<Numbered> {
        let table = std::mem::take(&mut self.state.lock().table);
        table.into_iter().collect()
    }

    /// Takes the changes of the table out that were sent, or stood in a queue to be sent.
    pub(super) fn take_sent_changes(&self) -> Vec<Arc<Op>> {
        let is_sent = |op: &Arc<Op>| op.flight.attempts() > 0 && op.request.flags.contains(OsdFlags::WRITE);
        self.state.lock().table.extract_if(|_, op| is_sent(op)).map(|(_, op)| op).collect()
    }

    /// Forgets a backoff and takes out the operations that it held back or that the OSD has dropped because
    /// of it.
    pub(super) fn unblock(&self, msg: &MOSDBackoff) -> Vec<Numbered> {
        let mut state = self.state.lock();
        let Some(at) = state.backoffs.iter().position(|backoff| backoff.is(msg)) else {
            return Vec::new();
        };
        let backoff = state.backoffs.swap_remove(at);
        state
            .table
            .extract_if(|_, op| {
                let flight = op.flight.load();
                backoff.covers(flight.place.spgid, &flight.object(&op.request))
            })
            .collect()
    }

    /// Ends the session: gives back its connection and all its operations, and takes no more.
    pub(super) fn end(&self) -> (Option<Arc<Connection>>, Vec<Numbered>) {
        let mut state = self.state.lock();
        state.ended = true;
        let (table, held) = (std::mem::take(&mut state.table), std::mem::take(&mut state.held));
        let conn = state.conn.take();
        drop(state);
        (conn, table.into_iter().chain(held.into_iter().map(|op| (op.tid, op))).collect())
    }
}

impl State {
    fn is_backed_off(&self, op: &Op) -> bool {
        if self.backoffs.is_empty() {
            return false;
        }
        let flight = op.flight.load();
        let object = flight.object(&op.request);
        self.backoffs.iter().any(|backoff| backoff.covers(flight.place.spgid, &object))
    }
}
