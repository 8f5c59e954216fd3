//! The way of an operation from its caller to the OSD's connection.
//!
//! [`Objecter::perform`] is the whole of an operation for its caller: it waits for a place in flight, submits
//! the operation, and waits for the reply. [`Objecter::try_submit`] is the way itself, in the order in
//! which it is taken: the map, the session, the message, the connection. Nothing on it waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_msgr::Connection;
use loligo_wire::Tid;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, OsdReply};

use super::Objecter;
use super::op::{Op, Pending};
use super::session::Admission;
use super::sessions::NoSession;
use super::target::Unplaceable;
use super::throttle::{Throttle, Turn};
use super::traced::{Following, watcher};
use crate::error::{Errno, Error, OpError};
use crate::trace::Marks;

impl Objecter {
    /// Assigns a tid to a request and moves the request to the heap.
    pub(crate) fn prepare(&self, request: MOSDOp) -> Arc<Op> {
        let tid = Tid(self.tids.fetch_add(1, Ordering::Relaxed));
        Op::new(tid, request, self.trace.as_ref().map(|_| Marks::new()))
    }

    /// Performs an operation: waits for a place in flight, submits the operation, and waits for its end.
    ///
    /// If the future is dropped before the end, the operation is not resent; whether it was executed is
    /// unknown.
    pub(crate) async fn perform(&self, op: Arc<Op>) -> Result<OsdReply, Error> {
        let limit = self.op_timeout();
        if limit.is_some() || self.trace.is_some() {
            // Boxed, so that futures stay small without a time limit and without tracing.
            return Box::pin(self.perform_observed(op, limit)).await;
        }
        self.reply_to(op).await
    }

    /// Like [`Objecter::perform`], with a time limit or for a trace.
    async fn perform_observed(&self, op: Arc<Op>, limit: Option<Duration>) -> Result<OsdReply, Error> {
        let following = self.trace.as_ref().map(|trace| Following::new(trace, &op));
        let outcome = match limit {
            None => self.reply_to(op).await,
            Some(limit) => {
                tokio::time::timeout(limit, self.reply_to(op)).await.unwrap_or(Err(Error::Timeout(limit)))
            }
        };
        if let Some(following) = following {
            following.end(&outcome);
        }
        outcome
    }

    /// Returns the reply to an operation, which waits for its place here.
    async fn reply_to(&self, op: Arc<Op>) -> Result<OsdReply, Error> {
        let turn = self.throttle.acquire(op.cost, || self.waiting.enter(&op)).await;
        if let Some(marks) = &op.marks {
            marks.placed();
        }
        let place = Place { throttle: &self.throttle, cost: op.cost };
        let pending = self.submit(op, place, turn).await?;
        Ok(pending.await?)
    }

    /// Sends an operation, or queues it where the steward will send it.
    ///
    /// An operation that waited for its place keeps its turn until it is queued, so that no later
    /// operation overtakes it.
    async fn submit<'a>(
        &'a self,
        op: Arc<Op>,
        place: Place<'_>,
        mut turn: Option<Turn<'_>>,
    ) -> Result<Pending<'a>, Error> {
        let mut newest_asked = false;
        loop {
            match self.try_submit(&op) {
                Submitted::Sent => {}
                // The next map is available. Retry at once, however often: otherwise operations
                // submitted later would be sent earlier. Each retry consumes one map that arrived while
                // `try_submit` ran.
                Submitted::Stale => continue,
                Submitted::NoPool if newest_asked => return Err(Errno::ENOENT.into()),
                Submitted::NoPool => {
                    // Other operations need not wait for the monitors.
                    drop(turn.take());
                    Box::pin(self.wait_for_newest()).await?;
                    newest_asked = true;
                    continue;
                }
                Submitted::Failed(errno) => return Err(errno.into()),
                Submitted::Closed => return Err(Error::Shutdown),
            }
            place.keep();
            return Ok(Pending::new(self, op));
        }
    }

    fn try_submit(&self, op: &Arc<Op>) -> Submitted {
        let request = &op.request;
        let view = self.view.load();
        let place = match view.place(&request.locator, &request.oid, request.flags) {
            Ok(place) => place,
            Err(Unplaceable::NoPool) => return Submitted::NoPool,
            Err(e) => return Submitted::Failed(e.errno()),
        };
        match self.sessions.with(place.osd, &view, |session| session.admit(op, &place)) {
            Ok(Admission::Send(conn)) => {
                let msg = op.pack_first(&place);
                match watcher(op) {
                    None => send(&conn, msg),
                    // As with `send`: the message is lost if the connection is closed.
                    Some(watcher) => drop(conn.send_watched(msg, watcher)),
                }
                Submitted::Sent
            }
            Ok(Admission::Taken) => Submitted::Sent,
            Err(NoSession::Closed) => Submitted::Closed,
            Ok(Admission::Stale) | Err(NoSession::Stale) if self.sessions.is_closed() => Submitted::Closed,
            Ok(Admission::Stale) | Err(NoSession::Stale) if self.sessions.detain(op, &place) => {
                Submitted::Sent
            }
            Ok(Admission::Stale) | Err(NoSession::Stale) => Submitted::Stale,
        }
    }

    /// Fails an operation that is in no table.
    pub(super) fn fail(&self, op: &Op, why: OpError) {
        self.throttle.release(1, op.cost);
        op.finish(Err(why));
    }

    /// Removes an operation whose caller stopped waiting from all tables.
    pub(super) fn cancel(&self, op: &Op) {
        for session in self.sessions.all() {
            if let Some(op) = session.remove(op.tid) {
                self.throttle.release(1, op.cost);
                return;
            }
        }
    }
}

/// The outcome of an attempt to submit.
enum Submitted {
    Sent,
    /// A newer map has arrived meanwhile: try again.
    Stale,
    NoPool,
    Failed(Errno),
    Closed,
}

/// Sends a message to an OSD without waiting.
///
/// On a closed connection the message is lost with everything else on it, and resent with it. A client's
/// queues are never full: an operation that waited for room would be overtaken by the next operation on
/// its object, and a steward that waited for one OSD would delay the other OSDs' operations and the news
/// of that OSD's death.
pub(super) fn send(conn: &Connection, msg: Msg) {
    let _ = conn.send(msg);
}

/// A place in the throttle, held until the operation is in a table. Removing the operation from the
/// table then releases the place.
struct Place<'a> {
    throttle: &'a Throttle,
    cost: u64,
}

impl Place<'_> {
    fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.throttle.release(1, self.cost);
    }
}
