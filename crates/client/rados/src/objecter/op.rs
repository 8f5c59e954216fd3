//! An operation in flight, and the future that waits for its reply.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use loligo_wire::Tid;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{Attempt, MOSDOp, ObjectLocator, OsdFlags, OsdOp, OsdReply};
use rustix::time::{ClockId, clock_gettime};

use super::Objecter;
use super::flight::{Flight, FlightCell};
use super::target::Placement;
use super::throttle::Throttle;
use crate::error::OpError;
use crate::trace::Marks;

/// The outcome of an operation.
pub(crate) type Outcome = Result<OsdReply, OpError>;

/// An operation from its first attempt to its end. The order of the fields places those that resending
/// accesses, for many operations in a row, in two adjacent cache lines.
#[repr(C)]
pub(crate) struct Op {
    /// Unchanged in every attempt: it identifies repetitions to the OSD.
    pub(crate) tid: Tid,
    /// Bytes of data sent with it.
    pub(crate) data_len: usize,
    /// Placement and history.
    pub(super) flight: FlightCell,
    /// Bytes charged in the throttle.
    pub(crate) cost: u64,
    /// The request of the first attempt.
    pub(crate) request: MOSDOp,
    /// The id of the connection that delivered the reply; 0 before that.
    answered_on: AtomicU64,
    outcome: OnceLock<Outcome>,
    waker: AtomicWaker,
    /// The recorded moments, if the operation is traced.
    pub(crate) marks: Option<Box<Marks>>,
    /// Time of creation, by [`coarse_now`], for observers.
    pub(super) began: Duration,
}

impl Op {
    pub(crate) fn new(tid: Tid, request: MOSDOp, marks: Option<Box<Marks>>) -> Arc<Self> {
        let data_len = request.ops.iter().map(OsdOp::data_len).sum();
        let cost = Throttle::cost(data_len);
        let flight = FlightCell::new();
        let (answered_on, outcome, waker) = (AtomicU64::new(0), OnceLock::new(), AtomicWaker::new());
        let began = coarse_now();
        Arc::new(Self { tid, request, cost, data_len, flight, answered_on, outcome, waker, marks, began })
    }

    /// Packs the message of the first attempt, before the operation is visible to other tasks.
    pub(super) fn pack_first(&self, place: &Placement) -> Msg {
        let request = &self.request;
        pack(self, place, 0, &request.locator, &request.oid, request.flags)
    }

    /// Packs the message of the last attempt that `flight` counts.
    pub(super) fn pack(&self, flight: &Flight) -> Msg {
        let (locator, oid, flags) = flight.address(&self.request);
        pack(self, &flight.place, flight.attempts - 1, locator, oid, flags)
    }

    /// Records the connection that delivered the reply. Call it before `finish`.
    pub(crate) fn set_answered_on(&self, conn_id: u64) {
        // Relaxed: a reader has seen the outcome, which is published after this store.
        self.answered_on.store(conn_id, Ordering::Relaxed);
    }

    /// Returns the id of the connection that delivered the reply.
    pub(crate) fn answered_on(&self) -> u64 {
        self.answered_on.load(Ordering::Relaxed)
    }

    /// Ends the operation; later calls have no effect. Must not be called with a lock held, because it
    /// wakes the waiting task.
    pub(crate) fn finish(&self, outcome: Outcome) {
        if self.outcome.set(outcome).is_ok() {
            self.waker.wake();
        }
    }
}

/// Returns the time since the system started, accurate to a few milliseconds. It costs a quarter of a
/// precise clock read, once per operation. Stock clients do the same.
pub(super) fn coarse_now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // The clock starts at 0, so it is never negative.
    Duration::try_from(now).unwrap_or_default()
}

/// An operation and its tid. The copy of the tid spares a load from the operation when it is sorted or
/// looked up.
pub(super) type Numbered = (Tid, Arc<Op>);

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
        marks.queued(place.spgid.pgid, place.osd);
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

/// Waits for an operation's end. Dropping it earlier removes the operation from all tables: the
/// operation is not resent, but an attempt that was sent may still be executed.
#[must_use = "an operation that nobody waits for is cancelled"]
pub(crate) struct Pending<'a> {
    objecter: &'a Objecter,
    op: Arc<Op>,
}

impl<'a> Pending<'a> {
    pub(crate) fn new(objecter: &'a Objecter, op: Arc<Op>) -> Self {
        Self { objecter, op }
    }
}

impl Future for Pending<'_> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(outcome) = self.op.outcome.get() {
            return Poll::Ready(outcome.clone());
        }
        self.op.waker.register(cx.waker());
        // The operation may have ended before the waker was registered.
        match self.op.outcome.get() {
            Some(outcome) => Poll::Ready(outcome.clone()),
            None => Poll::Pending,
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if self.op.outcome.get().is_none() {
            self.objecter.cancel(&self.op);
        }
    }
}
