//! What is in flight, to be looked at.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::State;
use loligo_wire::message::osd::{OpCode, OsdOp};
use loligo_wire::{Epoch, OsdId, PgId, SnapId, Tid};
use rustc_hash::FxHashMap;

use super::Objecter;
use super::flight::Flight;
use super::op::{Op, coarse_now};

/// An operation in flight: what stock clients show as `objecter_requests`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Its number.
    pub tid: Tid,
    /// How long ago it was new, to a few milliseconds.
    pub age: Duration,
    /// The object's name.
    pub object: Vec<u8>,
    /// Its namespace; empty is the default one.
    pub namespace: Vec<u8>,
    /// Placed by this instead of by the object's name, unless empty.
    pub locator_key: Vec<u8>,
    /// The snapshot that is read.
    pub snap: SnapId,
    /// What is to be done, by Ceph's names of it, with the range of bytes where it has one: `write 4096~512`.
    pub operations: Vec<String>,
    /// The placement group that it belongs to by the map of `epoch`.
    pub pg: PgId,
    /// The OSD that it goes to.
    pub osd: Option<OsdId>,
    /// The map that it was placed by.
    pub epoch: Epoch,
    /// How often it was sent.
    pub attempts: u32,
    /// What it waits for.
    pub waits_for: WaitsFor,
}

/// What an operation in flight waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// A place in flight: there are as many operations or bytes as may be (`objecter_inflight_ops`,
    /// `objecter_inflight_op_bytes`), or others are before it. It is not placed yet: what its request says of
    /// that is what the present map would say.
    Place,
    /// An OSD that serves its placement group.
    Osd,
    /// The end of a pause or of a lack of space.
    Unpause,
    /// Those before it, which are being sent again.
    Turn,
    /// The OSD's word that it may come again.
    Backoff,
    /// A connection to the OSD: nothing was sent on this one yet, though it may stand in its queue.
    Connection,
    /// The OSD's answer.
    Answer,
}

impl WaitsFor {
    /// What an operation waits for that stands in its session's table.
    pub(super) fn of(is_homeless: bool, paused: bool, is_backed_off: bool, conn: Option<State>) -> Self {
        match conn {
            _ if paused => Self::Unpause,
            _ if is_homeless => Self::Osd,
            _ if is_backed_off => Self::Backoff,
            Some(State::Open) => Self::Answer,
            _ => Self::Connection,
        }
    }
}

impl Request {
    pub(super) fn of(op: &Op, flight: &Flight, waits_for: WaitsFor) -> Self {
        let (locator, oid, _) = flight.address(op);
        Self {
            tid: op.tid,
            age: coarse_now().saturating_sub(op.began),
            object: oid.to_vec(),
            namespace: locator.nspace.clone(),
            locator_key: locator.key.clone(),
            snap: op.request.snapid,
            operations: op.request.ops.iter().map(described).collect(),
            pg: flight.place.spgid.pgid,
            osd: flight.place.osd,
            epoch: flight.place.epoch,
            attempts: u32::try_from(flight.attempts).unwrap_or(0),
            waits_for,
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tid, object, pg, osd, epoch, attempts, waits_for, .. } = self;
        let object = object.escape_ascii();
        write!(f, "{} on '{object}' in {pg}, map {}, sent {attempts} times", tid.0, epoch.0)?;
        if let Some(osd) = osd {
            write!(f, " to osd.{}", osd.0)?;
        }
        write!(f, ", waits for {waits_for:?}")
    }
}

/// What an operation is to do, in a few words, for people.
pub(super) fn in_words(op: &Op) -> String {
    let what: Vec<_> = op.request.ops.iter().map(described).collect();
    format!("{} on '{}'", what.join(", "), op.request.oid.escape_ascii())
}

/// As Ceph names it: those that are about a range of bytes with it.
fn described(op: &OsdOp) -> String {
    let ranged = [
        OpCode::READ,
        OpCode::SPARSE_READ,
        OpCode::WRITE,
        OpCode::WRITEFULL,
        OpCode::APPEND,
        OpCode::ZERO,
        OpCode::MAPEXT,
    ];
    if !ranged.contains(&op.code) {
        return op.code.to_string();
    }
    let extent = op.extent();
    format!("{} {}~{}", op.code, extent.offset, extent.length)
}

/// Looks at what a client has in flight, without keeping the client alive: for admin sockets and other
/// observers.
#[derive(Clone)]
pub struct InFlight(Weak<Objecter>);

impl InFlight {
    pub(crate) fn new(objecter: Weak<Objecter>) -> Self {
        Self(objecter)
    }

    /// As [`Rados::requests`](crate::Rados::requests); nothing once the client has ended.
    pub fn requests(&self) -> Vec<Request> {
        self.0.upgrade().map(|objecter| objecter.requests()).unwrap_or_default()
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.requests()).finish()
    }
}

/// Operations that wait for a place in flight. Whoever waits enters himself: so the lock is taken by those
/// only who wait anyway, and by who looks; it is held for one change of the table, and to copy its pointers.
pub(super) struct Waiting(Mutex<FxHashMap<Tid, Arc<Op>>>);

static WAITING: Class = Class::new("rados.waiting");

impl Waiting {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&WAITING, FxHashMap::default()))
    }

    /// Shows an operation until the guard is dropped.
    pub(super) fn enter(&self, op: &Arc<Op>) -> Entered<'_> {
        self.0.lock().insert(op.tid, Arc::clone(op));
        Entered { waiting: self, tid: op.tid }
    }

    pub(super) fn all(&self) -> Vec<Arc<Op>> {
        self.0.lock().values().cloned().collect()
    }
}

/// See [`Waiting::enter`].
pub(super) struct Entered<'a> {
    waiting: &'a Waiting,
    tid: Tid,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let op = self.waiting.0.lock().remove(&self.tid);
        // Not under the lock: it may be the last.
        drop(op);
    }
}

impl Objecter {
    /// What is in flight now or waits for a place, in the order of submission. Looks at one session after the
    /// other: what moves meanwhile may be seen twice or not at all.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let view = self.view();
        let waiting = self.waiting.all();
        let waiting = waiting.iter().map(|op| Request::of(op, &Flight::expected(op, &view), WaitsFor::Place));
        let sessions = self.sessions.all();
        let mut requests: Vec<_> =
            sessions.iter().flat_map(|session| session.requests()).chain(waiting).collect();
        requests.sort_by_key(|request| request.tid);
        requests
    }
}
