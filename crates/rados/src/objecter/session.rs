//! What is in flight to one OSD.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Unpacked};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{Attempt, HObject, MOSDBackoff, ObjectLocator, OsdFlags, OsdReply};
use loligo_wire::{EntityAddr, Epoch, OsdId, Tid};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::op::Op;
use super::replica::ANYWHERE;
use super::requests::{Request, WaitsFor};
use super::target::Placement;

static SESSION: Class = Class::new("rados.session");

/// Everything that is in flight to one OSD; or, in the one session without an OSD, to nobody for now.
pub(crate) struct Session {
    pub(super) osd: OsdId,
    /// Where the OSD listens; one that moves gets another session.
    pub(super) addr: EntityAddr,
    state: Mutex<State>,
}

/// # The gate
/// Operations on one object must reach its OSD in the order in which they were submitted, also when those before are sent
/// again. So whoever sends again (only the [steward](super::steward)) closes the gate first: operations that come
/// meanwhile queue in `held`, and the gate opens in the same critical section in which `held` is seen to be empty.
struct State {
    conn: Option<Arc<Connection>>,
    conn_made: Instant,
    /// Operations placed by an older map have to look again: those before them may have moved elsewhere.
    epoch: Epoch,
    /// Nobody may come any more: the OSD is gone or has moved, or the client is shut down.
    ended: bool,
    gated: bool,
    held: VecDeque<InFlight>,
    table: FxHashMap<Tid, InFlight>,
    backoffs: Vec<Backoff>,
}

/// How many operations the steward puts into a table at most while it holds a session's lock: some ten microseconds of work.
pub(super) const HELD_OPS_MAX: usize = 32;

/// An operation's place and history.
#[derive(Clone)]
pub(super) struct InFlight {
    /// The operation's, here too: operations lie all over the memory.
    pub(super) tid: Tid,
    pub(super) op: Arc<Op>,
    pub(super) place: Placement,
    /// How often it was sent.
    pub(super) attempts: i32,
    /// Where it goes instead of where it was asked to go.
    pub(super) elsewhere: Option<Arc<Elsewhere>>,
    /// Another copy than the primary's could not answer.
    pub(super) primary_only: bool,
}

/// An attempt that waits for its turn to be packed.
struct Waiting(InFlight);

/// About how long a message is without its data.
const REQUEST_LEN: usize = 256;

impl Unpacked for Waiting {
    fn bytes(&self) -> usize {
        REQUEST_LEN + self.0.op.data_len
    }

    fn pack(self: Box<Self>) -> Msg {
        self.0.pack()
    }
}

/// Another object, to which an OSD has redirected a request; or the same one in the pool that caches its pool.
pub(super) struct Elsewhere {
    pub(super) locator: ObjectLocator,
    pub(super) oid: Vec<u8>,
    pub(super) flags: OsdFlags,
}

impl InFlight {
    pub(super) fn new(op: Arc<Op>, place: Placement) -> Self {
        Self { tid: op.tid, op, place, attempts: 0, elsewhere: None, primary_only: false }
    }

    /// Where it goes: the locator, the name, and the flags of that.
    pub(super) fn address(&self) -> (&ObjectLocator, &[u8], OsdFlags) {
        let request = &self.op.request;
        let flags = if self.primary_only { request.flags.without(ANYWHERE) } else { request.flags };
        match &self.elsewhere {
            Some(elsewhere) => (&elsewhere.locator, &elsewhere.oid, flags | elsewhere.flags),
            None => (&request.locator, &request.oid, flags),
        }
    }

    /// The next attempt, to be packed later.
    fn attempt(&mut self) -> Box<dyn Unpacked> {
        self.attempts += 1;
        Box::new(Waiting(self.clone()))
    }

    /// The message of the attempt that was counted last.
    fn pack(&self) -> Msg {
        let retry_attempt = self.attempts - 1;
        let (locator, oid, flags) = self.address();
        pack(&self.op, &self.place, retry_attempt, locator, oid, flags)
    }

    fn shown(&self, waits_for: WaitsFor) -> Request {
        let (_, oid, _) = self.address();
        Request {
            tid: self.tid,
            object: oid.to_vec(),
            pg: self.place.spgid.pgid,
            osd: self.place.osd.map(|(osd, _)| osd),
            epoch: self.place.epoch,
            attempts: u32::try_from(self.attempts).unwrap_or(0),
            waits_for,
        }
    }

    fn object(&self) -> HObject {
        let (locator, oid, _) = self.address();
        HObject {
            key: locator.key.clone(),
            oid: oid.to_vec(),
            snap: self.op.request.snapid,
            hash: self.place.hash,
            max: false,
            nspace: locator.nspace.clone(),
            pool: self.place.spgid.pgid.pool.0,
        }
    }
}

/// The message of an operation's first attempt.
pub(super) fn pack_first(op: &Op, place: &Placement) -> Msg {
    let request = &op.request;
    pack(op, place, 0, &request.locator, &request.oid, request.flags)
}

fn pack(
    op: &Op,
    place: &Placement,
    retry_attempt: i32,
    locator: &ObjectLocator,
    oid: &[u8],
    flags: OsdFlags,
) -> Msg {
    let pool = place.spgid.pgid.pool;
    let tiered;
    let locator = if locator.pool == pool {
        locator
    } else {
        tiered = ObjectLocator { pool, ..locator.clone() };
        &tiered
    };
    if let Some(marks) = &op.marks {
        marks.queued(place.spgid.pgid, place.osd.as_ref().map(|(osd, _)| *osd));
    }
    let retry = if retry_attempt > 0 { OsdFlags::RETRY } else { OsdFlags::empty() };
    let attempt = Attempt {
        spgid: place.spgid,
        hash: place.hash,
        map_epoch: place.epoch,
        flags: flags | retry,
        locator,
        oid,
        retry_attempt,
    };
    op.request.pack(&attempt).with_tid(op.tid)
}

/// What became of an operation that came to a session.
pub(super) enum Admission {
    /// It is in the table: send it, with [`pack_first`].
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
    Again(InFlight, OsdReply),
}

impl Session {
    /// A session that takes operations placed by maps from `epoch` on. A session without a connection sends nothing.
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
            state.held.push_back(InFlight::new(Arc::clone(op), place.clone()));
        }
        holds
    }

    /// Takes a new operation in.
    pub(super) fn admit(&self, op: &Arc<Op>, place: &Placement) -> Admission {
        let mut state = self.state.lock();
        if state.ended || place.epoch < state.epoch {
            return Admission::Stale;
        }
        let mut entry = InFlight::new(Arc::clone(op), place.clone());
        if state.gated {
            state.held.push_back(entry);
            return Admission::Taken;
        }
        let conn = if place.paused || state.is_backed_off(&entry) { None } else { state.conn.clone() };
        entry.attempts = i32::from(conn.is_some());
        state.table.insert(op.tid, entry);
        conn.map_or(Admission::Taken, Admission::Send)
    }

    /// Takes the operations that `replies` end out of the table, all under one lock. An answer to an attempt that was not
    /// the last one is ignored: the last one's will come.
    pub(super) fn answered(&self, replies: Vec<(Tid, OsdReply)>) -> Vec<Answered> {
        let mut answered = Vec::with_capacity(replies.len());
        let mut state = self.state.lock();
        for (tid, reply) in replies {
            let Some(entry) = state.table.get(&tid) else { continue };
            if reply.retry_attempt >= 0 && reply.retry_attempt != entry.attempts - 1 {
                continue;
            }
            let Some(entry) = state.table.remove(&tid) else { continue };
            let again = reply.redirect.is_some() || reply.result == -EAGAIN;
            answered.push(if again {
                Answered::Again(entry, reply)
            } else {
                Answered::Done(entry.op, reply)
            });
        }
        answered
    }

    /// Takes one operation out of the table: its answer could not be read, or nobody waits for it any more.
    pub(super) fn remove(&self, tid: Tid) -> Option<Arc<Op>> {
        let mut state = self.state.lock();
        if let Some(entry) = state.table.remove(&tid) {
            return Some(entry.op);
        }
        let at = state.held.iter().position(|entry| entry.tid == tid)?;
        state.held.remove(at).map(|entry| entry.op)
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
        let state = self.state.lock();
        let conn = state.conn.as_ref().map(|conn| conn.state());
        let in_table = state.table.values().map(|entry| {
            let is_backed_off = state.is_backed_off(entry);
            (entry, WaitsFor::of(self.is_homeless(), entry.place.paused, is_backed_off, conn))
        });
        let held = state.held.iter().map(|entry| (entry, WaitsFor::Turn));
        in_table.chain(held).map(|(entry, waits_for)| entry.shown(waits_for)).collect()
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
    pub(super) fn open_gate(&self) -> Option<VecDeque<InFlight>> {
        let mut state = self.state.lock();
        if state.held.is_empty() {
            state.gated = false;
            return None;
        }
        Some(std::mem::take(&mut state.held))
    }

    /// Says where each operation in the table is.
    pub(super) fn places(&self) -> Vec<(Tid, Placement)> {
        self.state.lock().table.iter().map(|(tid, entry)| (*tid, entry.place.clone())).collect()
    }

    /// Takes operations out of the table that are still there.
    pub(super) fn take(&self, tids: &[Tid]) -> Vec<InFlight> {
        let mut state = self.state.lock();
        tids.iter().filter_map(|tid| state.table.remove(tid)).collect()
    }

    /// Puts the next operations into the table, whatever the gate, and adds the attempts that are to be sent now. `None` when there
    /// are no more; else where to send them, if there is a connection. Call it again.
    pub(super) fn place(
        &self,
        entries: &mut impl Iterator<Item = InFlight>,
        attempts: &mut Vec<Box<dyn Unpacked>>,
    ) -> Option<Option<Arc<Connection>>> {
        let mut state = self.state.lock();
        let conn = state.conn.clone();
        let mut count = 0;
        for mut entry in entries.take(HELD_OPS_MAX) {
            count += 1;
            if conn.is_some() && !entry.place.paused && !state.is_backed_off(&entry) {
                attempts.push(entry.attempt());
            }
            state.table.insert(entry.tid, entry);
        }
        (count > 0).then_some(conn)
    }

    /// Uses a new connection, and gives back the one that is not used any more: the old one, or this one after the end. Backoffs belong
    /// to the old one and are forgotten.
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
    pub(super) fn take_all(&self) -> Vec<InFlight> {
        self.state.lock().table.drain().map(|(_, entry)| entry).collect()
    }

    /// Forgets a backoff and takes out the operations that it held back or that the OSD has dropped because of it.
    pub(super) fn unblock(&self, msg: &MOSDBackoff) -> Vec<InFlight> {
        let mut state = self.state.lock();
        let Some(at) = state.backoffs.iter().position(|backoff| backoff.is(msg)) else {
            return Vec::new();
        };
        let backoff = state.backoffs.swap_remove(at);
        let covered = |entry: &InFlight| backoff.covers(entry.place.spgid, &entry.object());
        let tids: Vec<_> =
            state.table.iter().filter(|(_, entry)| covered(entry)).map(|(tid, _)| *tid).collect();
        tids.iter().filter_map(|tid| state.table.remove(tid)).collect()
    }

    /// Ends the session: gives back its connection and all its operations, and takes no more.
    pub(super) fn end(&self) -> (Option<Arc<Connection>>, Vec<InFlight>) {
        let mut state = self.state.lock();
        state.ended = true;
        let mut entries: Vec<_> = state.table.drain().map(|(_, entry)| entry).collect();
        entries.extend(state.held.drain(..));
        (state.conn.take(), entries)
    }
}

impl State {
    fn is_backed_off(&self, entry: &InFlight) -> bool {
        if self.backoffs.is_empty() {
            return false;
        }
        let object = entry.object();
        self.backoffs.iter().any(|backoff| backoff.covers(entry.place.spgid, &object))
    }
}
