//! What is in flight, to be looked at.

use std::fmt;

use loligo_msgr::State;
use loligo_wire::{Epoch, OsdId, PgId, Tid};

use super::Objecter;
use super::flight::Flight;
use super::op::Op;

/// An operation in flight: what stock clients show as `objecter_requests`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// Its number.
    pub tid: Tid,
    /// The object's name.
    pub object: Vec<u8>,
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
        let (_, oid, _) = flight.address(op);
        Self {
            tid: op.tid,
            object: oid.to_vec(),
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
        let Self { tid, object, pg, osd, epoch, attempts, waits_for } = self;
        let object = object.escape_ascii();
        write!(f, "{} on '{object}' in {pg}, map {}, sent {attempts} times", tid.0, epoch.0)?;
        if let Some(osd) = osd {
            write!(f, " to osd.{}", osd.0)?;
        }
        write!(f, ", waits for {waits_for:?}")
    }
}

impl Objecter {
    /// What is in flight now, in the order of submission. Looks at one session after the other: what moves meanwhile may be seen twice
    /// or not at all.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let mut requests: Vec<_> =
            self.sessions.all().iter().flat_map(|session| session.requests()).collect();
        requests.sort_by_key(|request| request.tid);
        requests
    }
}
