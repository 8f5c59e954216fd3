//! Inspection of the operations in flight.

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

/// An operation in flight, as stock clients list it in `objecter_requests`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Its tid.
    pub tid: Tid,
    /// Time since its creation, accurate to a few milliseconds.
    pub age: Duration,
    /// Object name.
    pub object: Vec<u8>,
    /// Namespace; empty is the default one.
    pub namespace: Vec<u8>,
    /// Locator key, which places the object instead of its name unless it is empty.
    pub locator_key: Vec<u8>,
    /// The snapshot to read.
    pub snap: SnapId,
    /// The operations by their Ceph names, with the range of bytes if they have one: `write 4096~512`.
    pub operations: Vec<String>,
    /// The placement group by the map of `epoch`.
    pub pg: PgId,
    /// The target OSD.
    pub osd: Option<OsdId>,
    /// The epoch of the map that placed it.
    pub epoch: Epoch,
    /// Number of attempts to send it.
    pub attempts: u32,
    /// The reason it waits.
    pub waits_for: WaitsFor,
}

/// The reason an operation in flight waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitsFor {
    /// A free place in flight: the limit on operations or bytes is reached (`objecter_inflight_ops`,
    /// `objecter_inflight_op_bytes`), or earlier operations wait too. The operation is not placed yet:
    /// the placement shown is the one by the current map.
    Place,
    /// An OSD that serves its placement group.
    Osd,
    /// The end of a pause, or free space.
    Unpause,
    /// Earlier operations, which are being resent.
    Turn,
    /// The end of the OSD's backoff.
    Backoff,
    /// A connection to the OSD. Nothing was sent on it yet, although the operation may be in its queue.
    Connection,
    /// The OSD's reply.
    Answer,
}

impl WaitsFor {
    /// Returns the reason an operation in a session's table waits.
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
        let (locator, oid, _) = flight.address(&op.request);
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

/// Describes an operation in a few words, for people.
pub(super) fn in_words(op: &Op) -> String {
    let what: Vec<_> = op.request.ops.iter().map(described).collect();
    format!("{} on '{}'", what.join(", "), op.request.oid.escape_ascii())
}

/// Returns Ceph's name of an operation, with its range of bytes if it has one.
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

/// A handle for inspecting a client's operations in flight. It does not keep the client alive. For admin
/// sockets and other observers.
#[derive(Clone)]
pub struct InFlight(Weak<Objecter>);

impl InFlight {
    pub(crate) fn new(objecter: Weak<Objecter>) -> Self {
        Self(objecter)
    }

    /// As [`Rados::requests`](crate::Rados::requests); empty once the client has ended.
    pub fn requests(&self) -> Vec<Request> {
        self.0.upgrade().map(|objecter| objecter.requests()).unwrap_or_default()
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.requests()).finish()
    }
}

/// Operations waiting for a place in flight. Each waiting operation enters itself, so only operations that
/// wait anyway and observers take the lock. It is held for one change of the table, or to copy its pointers.
pub(super) struct Waiting(Mutex<FxHashMap<Tid, Arc<Op>>>);

static WAITING: Class = Class::new("rados.waiting");

impl Waiting {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&WAITING, FxHashMap::default()))
    }

    /// Lists an operation until the guard is dropped.
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
        // Dropped outside the lock: this may be the last reference.
        drop(op);
    }
}

impl Objecter {
    /// Returns the operations that are in flight or wait for a place, in the order of submission. The
    /// sessions are read one after the other: an operation that moves meanwhile may appear twice or not
    /// at all.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let view = self.view();
        let waiting = self.waiting.all();
        let waiting =
            waiting.iter().map(|op| Request::of(op, &Flight::expected(&op.request, &view), WaitsFor::Place));
        let sessions = self.sessions.all();
        let mut requests: Vec<_> =
            sessions.iter().flat_map(|session| session.requests()).chain(waiting).collect();
        requests.sort_by_key(|request| request.tid);
        requests
    }
}
