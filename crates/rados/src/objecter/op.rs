//! An operation in flight, and the future that waits for its answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use loligo_lockstat::{Class, SpinLock, SpinLockGuard};
use loligo_wire::Tid;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{Attempt, HObject, MOSDOp, ObjectLocator, OsdFlags, OsdReply};
use rustix::time::{ClockId, clock_gettime};

use super::Objecter;
use super::replica::ANYWHERE;
use super::target::Placement;
use super::throttle::Throttle;
use crate::error::OpError;
use crate::trace::Marks;

/// An operation's flight: looked at by the task that sends again, by readers and by whoever packs it, for a few copies each.
static FLIGHT: Class = Class::new("rados.flight");

/// What an operation ends with.
pub(crate) type Outcome = Result<OsdReply, OpError>;

/// One operation from its first attempt to its end. In this order, so that what is asked of many operations one after the other, when they
/// are sent again, lies in three cache lines that follow each other.
#[repr(C)]
pub(crate) struct Op {
    /// The same in every attempt: by it the OSD knows a repetition.
    pub(crate) tid: Tid,
    /// Where it goes. With it here, and not in the tables that it goes through, an operation is moved by moving a pointer.
    flight: SpinLock<Flight>,
    /// Bytes of data that are sent with it.
    pub(crate) data_len: usize,
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
        let flight = SpinLock::new(&FLIGHT, Flight::default());
        let (answered_on, outcome, waker) = (AtomicU64::new(0), OnceLock::new(), AtomicWaker::new());
        let began = coarse_now();
        Arc::new(Self { tid, request, cost, data_len, flight, answered_on, outcome, waker, marks, began })
    }

    /// Its place and history.
    pub(super) fn flight(&self) -> SpinLockGuard<'_, Flight> {
        self.flight.lock()
    }

    /// The message of its first attempt, before anybody else sees it.
    pub(super) fn pack_first(&self, place: &Placement) -> Msg {
        let request = &self.request;
        pack(self, place, 0, &request.locator, &request.oid, request.flags)
    }

    /// The message of the attempt that `flight` counted last.
    pub(super) fn pack(&self, flight: &Flight) -> Msg {
        let (locator, oid, flags) = flight.address(self);
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

    /// Ends the operation; a second end is ignored. Not to be called with a lock held: it wakes whoever waits.
    pub(crate) fn finish(&self, outcome: Outcome) {
        if self.outcome.set(outcome).is_ok() {
            self.waker.wake();
        }
    }
}

/// The time since the system started, to a few milliseconds: it costs a fourth of an exact look, at every operation. Stock clients do so too.
pub(super) fn coarse_now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    // The clock starts at 0, so it is never negative.
    Duration::try_from(now).unwrap_or_default()
}

/// An operation and its number, by which it is sorted and found: operations lie all over the memory.
pub(super) type Numbered = (Tid, Arc<Op>);

/// An operation's place and history.
#[derive(Clone, Default)]
pub(super) struct Flight {
    pub(super) place: Placement,
    /// How often it was sent, or stood in a queue to be sent.
    pub(super) attempts: i32,
    /// Where it goes instead of where it was asked to go.
    pub(super) elsewhere: Option<Arc<Elsewhere>>,
    /// Another copy than the primary's could not answer.
    pub(super) primary_only: bool,
}

/// Another object, to which an OSD has redirected a request; or the same one in the pool that caches its pool.
pub(super) struct Elsewhere {
    pub(super) locator: ObjectLocator,
    pub(super) oid: Vec<u8>,
    pub(super) flags: OsdFlags,
}

impl Flight {
    /// Where the operation goes: the locator, the name, and the flags of that.
    pub(super) fn address<'a>(&'a self, op: &'a Op) -> (&'a ObjectLocator, &'a [u8], OsdFlags) {
        let request = &op.request;
        let flags = if self.primary_only { request.flags.without(ANYWHERE) } else { request.flags };
        match &self.elsewhere {
            Some(elsewhere) => (&elsewhere.locator, &elsewhere.oid, flags | elsewhere.flags),
            None => (&request.locator, &request.oid, flags),
        }
    }

    /// The object that it goes to.
    pub(super) fn object(&self, op: &Op) -> HObject {
        let (locator, oid, _) = self.address(op);
        HObject {
            key: locator.key.clone(),
            oid: oid.to_vec(),
            snap: op.request.snapid,
            hash: self.place.hash,
            max: false,
            nspace: locator.nspace.clone(),
            pool: self.place.spgid.pgid.pool.0,
        }
    }
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

/// Waits for an operation's end. Dropped before, it takes the operation out of all tables: nothing is sent again, but what
/// was sent may still be executed.
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
