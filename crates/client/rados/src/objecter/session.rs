//! The operations in flight to one OSD.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Unpacked, Watcher};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDBackoff, OsdFlags, OsdReply};
use loligo_wire::{EntityAddr, Epoch, Errno, OsdId, PgId, SpgId, Tid};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::flight::Flight;
use super::op::{Numbered, Op};
use super::requests::{Request, WaitsFor};
use super::target::Placement;
use super::traced::watcher;

static SESSION: Class = Class::new("rados.session");

/// All operations in flight to one OSD. The homeless session, which has no OSD, holds those that no OSD
/// serves at present.
pub(crate) struct Session {
    pub(super) osd: OsdId,
    /// The OSD's address. An OSD that moves gets another session.
    pub(super) addr: EntityAddr,
    state: Mutex<State>,
}

/// # The gate
/// Operations on one object must reach its OSD in the order of submission, even if earlier ones are resent.
/// The [steward](super::steward), the only task that resends, therefore closes the gate first. Operations
/// submitted meanwhile queue in `held`. The gate opens in the same critical section that finds `held` empty.
struct State {
    conn: Option<Arc<Connection>>,
    conn_made: Instant,
    /// Operations placed by an older map must be placed again: earlier operations may have moved elsewhere.
    epoch: Epoch,
    /// No operation is admitted any more: the OSD is gone or has moved, or the client is shut down.
    ended: bool,
    gated: bool,
    held: VecDeque<Arc<Op>>,
    table: FxHashMap<Tid, Arc<Op>>,
    backoffs: Vec<Backoff>,
}

/// Attempts to be packed in order. Each is packed with the placement it has now, even if a newer one exists
/// later: the first attempts of subsequent operations are already packed and must not overtake it.
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

/// The target of an attempt. Thousands are created at once, and most need few fields.
enum To {
    /// See [`FlightCell::usual`](super::flight::FlightCell::usual).
    Usual {
        seed: u32,
        hash: u32,
        attempts: i32,
    },
    Other(Box<Flight>),
}

/// Approximate size of a request without its data.
const REQUEST_LEN: usize = 256;

impl Attempts {
    /// Creates an empty batch to an OSD by the map of `epoch`.
    pub(super) fn new(osd: Option<OsdId>, epoch: Epoch) -> Self {
        Self { osd, epoch, all: Vec::new(), bytes: 0 }
    }

    /// Takes all attempts out.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.osd, self.epoch))
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds an operation's next attempt, with its current placement.
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

/// The outcome of admitting an operation to a session.
pub(super) enum Admission {
    /// The operation is in the table; the caller sends it, with [`Op::pack_first`].
    Send(Arc<Connection>),
    /// The operation is in the table or held at the gate; another task will send it.
    Taken,
    /// The operation must be placed again.
    Stale,
}

/// A reply to an operation.
pub(super) enum Answered {
    /// The operation ends with it.
    Done(Arc<Op>, OsdReply),
    /// The operation has to be resent, possibly to another target.
    Again(Arc<Op>, OsdReply),
}

impl Session {
    /// Creates a session that admits operations placed by maps of `epoch` or newer. A session without a
    /// connection sends nothing.
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

    /// Holds an operation at the gate. Returns `false` if the gate is open or the session has ended.
    pub(super) fn hold(&self, op: &Arc<Op>, place: &Placement) -> bool {
        let mut state = self.state.lock();
        let holds = state.gated && !state.ended;
        if holds {
            op.flight.set_place(place);
            state.held.push_back(Arc::clone(op));
        }
        holds
    }

    /// Admits a new operation.
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

    /// Removes the operations that `replies` end from the table, all under one lock. A reply to an
    /// attempt other than the last is ignored: the last attempt's reply follows.
    pub(super) fn answered(&self, replies: Vec<(Tid, OsdReply)>) -> Vec<Answered> {
        let mut answered = Vec::with_capacity(replies.len());
        let mut state = self.state.lock();
        for (tid, reply) in replies {
            let Some(op) = state.table.get(&tid) else { continue };
            if reply.retry_attempt >= 0 && reply.retry_attempt != op.flight.attempts() - 1 {
                continue;
            }
            let Some(op) = state.table.remove(&tid) else { continue };
            // EAGAIN: this OSD cannot serve the operation now, such as a replica with a possibly outdated
            // copy.
            let again = reply.redirect.is_some() || reply.result == Errno::EAGAIN.to_result();
            answered.push(if again { Answered::Again(op, reply) } else { Answered::Done(op, reply) });
        }
        answered
    }

    /// Removes an operation whose reply could not be decoded or whose caller stopped waiting.
    pub(super) fn remove(&self, tid: Tid) -> Option<Arc<Op>> {
        let mut state = self.state.lock();
        if let Some(op) = state.table.remove(&tid) {
            return Some(op);
        }
        let at = state.held.iter().position(|op| op.tid == tid)?;
        state.held.remove(at)
    }

    /// Holds back operations on a range of objects. Returns `false` if the connection is no longer this
    /// session's.
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

/// Called by observers.
impl Session {
    /// Returns the operations in flight.
    pub(super) fn requests(&self) -> Vec<Request> {
        let shown =
            |(op, flight, waits_for): (Arc<Op>, Flight, WaitsFor)| Request::of(&op, &flight, waits_for);
        self.flying(|_| true).into_iter().map(shown).collect()
    }

    /// Returns the operations in flight that are `wanted`, each with its placement and the reason it waits.
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

/// Called by the steward.
impl Session {
    /// Closes the gate.
    pub(super) fn gate(&self) {
        self.state.lock().gated = true;
    }

    /// Closes the gate, and from now on admits only operations placed by maps of `epoch` or newer.
    pub(super) fn gate_for(&self, epoch: Epoch) {
        let mut state = self.state.lock();
        state.gated = true;
        state.epoch = epoch;
    }

    /// Opens the gate if it holds no operations; otherwise returns the held operations.
    pub(super) fn open_gate(&self) -> Option<VecDeque<Arc<Op>>> {
        let mut state = self.state.lock();
        if state.held.is_empty() {
            state.gated = false;
            return None;
        }
        Some(std::mem::take(&mut state.held))
    }

    /// Returns the operations in the table.
    pub(super) fn in_table(&self) -> Vec<Arc<Op>> {
        self.state.lock().table.values().cloned().collect()
    }

    /// Removes those of the given operations that are still in the table.
    pub(super) fn take(&self, tids: &[Tid]) -> Vec<Numbered> {
        let mut state = self.state.lock();
        tids.iter().filter_map(|tid| state.table.remove_entry(tid)).collect()
    }

    /// Enters a few operations into the table, whatever the gate's state, and reserves room for `more`,
    /// so that the table does not grow repeatedly. Operations to send now, over the returned connection,
    /// are added to `attempts`.
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

    /// Attaches a new connection. Returns the connection that is no longer used: the old one, or the new
    /// one if the session has ended. The old connection's backoffs are dropped.
    pub(super) fn attach(&self, conn: Arc<Connection>) -> Option<Arc<Connection>> {
        let mut state = self.state.lock();
        if state.ended {
            return Some(conn);
        }
        state.backoffs.clear();
        state.conn_made = Instant::now();
        state.conn.replace(conn)
    }

    /// Returns the time until the connection's age reaches `min`; `None` if it has.
    pub(super) fn too_young(&self, min: Duration) -> Option<Duration> {
        let age = self.state.lock().conn_made.elapsed();
        min.checked_sub(age).filter(|left| !left.is_zero())
    }

    /// Returns `true` if this is the session without an OSD.
    pub(super) fn is_homeless(&self) -> bool {
        self.osd.0 < 0
    }

    /// Returns the session's connection.
    pub(super) fn conn(&self) -> Option<Arc<Connection>> {
        self.state.lock().conn.clone()
    }

    /// Returns `true` if the session uses the connection with this id.
    pub(super) fn uses(&self, conn_id: u64) -> bool {
        self.state.lock().conn.as_ref().is_some_and(|conn| conn.id() == conn_id)
    }

    /// Removes all operations from the table.
    pub(super) fn take_all(&self) -> Vec<Numbered> {
        let table = std::mem::take(&mut self.state.lock().table);
        table.into_iter().collect()
    }

    /// Removes from the table the changes that were sent or queued to be sent.
    pub(super) fn take_sent_changes(&self) -> Vec<Arc<Op>> {
        let is_sent = |op: &Arc<Op>| op.flight.attempts() > 0 && op.request.flags.contains(OsdFlags::WRITE);
        self.state.lock().table.extract_if(|_, op| is_sent(op)).map(|(_, op)| op).collect()
    }

    /// Drops a backoff, and removes from the table the operations that it held back or that the OSD
    /// dropped because of it.
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

    /// Ends the session: returns its connection and all its operations, and admits no more.
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
