//! An operation in flight, and the future that waits for its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use loligo_wire::Tid;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{Attempt, MOSDOp, ObjectLocator, OsdFlags, OsdReply};
use rustix::time::{ClockId, clock_gettime};

use super::Objecter;
use super::flight::{Flight, FlightCell};
use super::target::Placement;
use super::throttle::Throttle;
use crate::error::OpError;
use crate::trace::Marks;

/// What an operation ends with.
pub(crate) type Outcome = Result<OsdReply, OpError>;

/// One operation from its first attempt to its end. In this order, so that what is asked of many operations
/// one after the other, when they are sent again, lies in two cache lines that follow each other.
#[repr(C)]
pub(crate) struct Op {
    /// The same in every attempt: by it the OSD knows a repetition.
    pub(crate) tid: Tid,
    /// Bytes of data that are sent with it.
    pub(crate) data_len: usize,
    /// Where it goes.
    pub(super) flight: FlightCell,
    /// Bytes it counts for in the throttle.
    pub(crate) cost: u64,
    /// What is asked, as the first attempt said it.
    pub(crate) request: MOSDOp,
    /// The id of the connection on which the answer came; 0 before.
    answered_on: AtomicU64,
    outcome: OnceLock<Outcome>,
    waker: AtomicWaker,
    /// Its moments, if it is traced.
    pub(crate) marks: Option<Box<Marks>>,
    /// When it was new, by [`coarse_now`]: for who looks at what is in flight.
    pub(super) began: Duration,
}

impl Op {
    pub(crate) fn new(tid: Tid, request: MOSDOp, marks: Option<Box<Marks>>) -> Arc<Self> {
        let data_len = request.ops.iter().map(|op| op.data.len()).sum();
        let cost = Throttle::cost(data_len);
        let flight = FlightCell::new();
        let (answered_on, outcome, waker) = (AtomicU64::new(0), OnceLock::new(), AtomicWaker::new());
        let began = coarse_now();
        Arc::new(Self { tid, request, cost, data_len, flight, answered_on, outcome, waker, marks, began })
    }

    /// The message of its first attempt, before anybody else sees it.
    pub(super) fn pack_first(&self, place: &Placement) -> Msg {
        let request = &self.request;
        pack(self, place, 0, &request.locator, &request.oid, request.flags)
    }

    /// The message of the attempt that `flight` counted last.
    pub(super) fn pack(&self, flight: &Flight) -> Msg {
        let (locator, oid, flags) = flight.address(&self.request);
        pack(self, &flight.place, flight.attempts - 1, locator, oid, flags)
    }

    /// Notes, before the end, on which connection the answer came.
    pub(crate) fn set_answered_on(&self, conn_id: u64) {
        // Relaxed: whoever reads it has seen the outcome, which is published after it.
        self.answered_on.store(conn_id, Ordering::Relaxed);
    }

    /// The id of the connection on which the answer came.
    pub(crate) fn answered_on(&self) -> u64 {
        self.answered_on.load(Ordering::Relaxed)
    }

    /// Ends the operation; a second end is ignored. Not to be called with a lock held: it wakes whoever
    /// waits.
    pub(crate) fn finish(&self, outcome: Outcome) {
        if self.outcome.set(outcome).is_ok() {
            self.waker.wake();
        }
    }
}

/// The time since the system started, to a few milliseconds: it costs a fourth of an exact look, at every
/// operation. Stock clients do so too.
pub(super) fn coarse_now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // The clock starts at 0, so it is never negative.
    Duration::try_from(now).unwrap_or_default()
}

/// An operation and its number, by which it is sorted and found: operations lie all over the memory.
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

/// Waits for an operation's end. Dropped before, it takes the operation out of all tables: nothing is sent
/// again, but what was sent may still be executed.
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
        // The end may have come before the waker stood there.
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
