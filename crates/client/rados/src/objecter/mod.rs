//! Operations in flight. [`Objecter`] places operations by the map, sends them to the OSDs, matches the
//! replies, and has lost operations resent.
//!
//! ```text
//!            perform                     replies of one read
//!               │                               │
//!     throttle ─┼─ MapView::place               │  one lock for all
//!               ▼                               ▼
//!          Session::admit ──── table ──── Session::answered ──▶ Op::finish ──▶ Pending wakes
//!               │                ▲
//!               ▼                │ place
//!       Connection::send      Steward ◀── maps, lost connections, ends of backoffs, EAGAIN, redirects
//! ```
//!
//! The submitting thread sends an operation; the thread that reads the reply completes it. Locks on this
//! path: the session's when the operation is sent, the out-queue's, and the session's once for all
//! replies of one read.

mod backoff;
mod commands;
mod flight;
mod linger;
mod op;
mod replica;
mod requests;
mod session;
mod sessions;
mod steward;
mod target;
mod throttle;
mod traced;
mod waits;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use loligo_cluster::{Cluster, Gathered, MonClient, Observed, Peers, Reason, Waiter, Waits};
use loligo_msgr::Connection;
use loligo_wire::message::mon::MCommandReply;
use loligo_wire::message::osd::{
    BackoffOp, MOSDBackoff, MOSDMap, MOSDOp, MOSDOpReply, MWatchNotify, OsdReply,
};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Epoch, Tid};
use tokio::sync::{mpsc, watch};

use self::commands::Commands;
use self::linger::Lingers;
use self::op::Pending;
use self::session::{Admission, Answered};
use self::sessions::{NoSession, Sessions};
use self::steward::{Event, MAPS_WAITING_MAX};
use self::target::Unplaceable;
use self::throttle::{Throttle, Turn};
use self::traced::{Following, watcher};
use crate::error::{Errno, Error, OpError};
use crate::trace::{self, Marks};

pub(crate) use self::commands::Addressee;
pub(crate) use self::linger::{Heard, Linger, Trouble};
pub(crate) use self::op::Op;
use self::replica::Location;
use self::requests::Waiting;
pub use self::requests::{InFlight, Request, WaitsFor};
use self::session::Session;
use self::sessions::Link;
pub(crate) use self::steward::Steward;
pub(crate) use self::target::MapView;

/// Limits of an objecter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Operations in flight (`objecter_inflight_ops`).
    pub(crate) ops_max: u64,
    /// Bytes in flight (`objecter_inflight_op_bytes`).
    pub(crate) bytes_max: u64,
    /// Time limit of an operation (`rados_osd_op_timeout`); `None` is no limit.
    pub(crate) op_timeout: Option<Duration>,
}

/// See the [module's](self) documentation.
pub(crate) struct Objecter {
    /// Time limit of an operation in microseconds; 0 is no limit. The monitors' settings may change it.
    op_timeout_us: AtomicU64,
    monc: Arc<MonClient>,
    view: ArcSwap<MapView>,
    /// The epoch of `view`, for tasks that wait for an epoch.
    epochs: watch::Sender<Epoch>,
    sessions: Sessions,
    lingers: Lingers,
    commands: Commands,
    throttle: Throttle,
    /// Operations waiting for a place in the throttle, for observers.
    waiting: Waiting,
    tids: AtomicU64,
    events: mpsc::UnboundedSender<Event>,
    maps_waiting: AtomicUsize,
    resent: ArcSwap<Resent>,
    /// Distinguishes this client from others at its host's address, also in a blocklist.
    nonce: u32,
    /// Set permanently once the cluster is known to have blocklisted this client.
    is_blocklisted: AtomicBool,
    /// The same, for waiting tasks.
    blocklisted: watch::Sender<bool>,
    trace: Option<Arc<trace::Sender>>,
    waits: Waits,
}

/// The operations resent by one change of the map, or by several changes that arrived together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resent {
    /// Number of operations that were placed again.
    pub ops: u64,
    /// Time from the arrival of the map until the last operation was in its connection's queue.
    pub took: Duration,
}

/// Converts a limit to microseconds, at least 1; no limit is 0.
fn as_us(limit: Option<Duration>) -> u64 {
    limit.map_or(0, |limit| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX).max(1))
}

impl Objecter {
    /// Creates an objecter without a map, and its task.
    pub(crate) fn new(
        settings: Settings,
        cluster: &Cluster,
        trace: Option<Arc<trace::Sender>>,
    ) -> (Arc<Self>, Steward) {
        let (events, heard) = mpsc::unbounded_channel();
        let objecter = Arc::new(Self {
            op_timeout_us: AtomicU64::new(as_us(settings.op_timeout)),
            nonce: cluster.nonce(),
            monc: Arc::clone(cluster.monitors()),
            view: ArcSwap::from_pointee(MapView::default()),
            epochs: watch::Sender::new(Epoch(0)),
            sessions: Sessions::new(Arc::clone(cluster.dialer())),
            lingers: Lingers::new(),
            commands: Commands::new(),
            throttle: Throttle::new(settings.ops_max, settings.bytes_max),
            waiting: Waiting::new(),
            tids: AtomicU64::new(1),
            events,
            maps_waiting: AtomicUsize::new(0),
            resent: ArcSwap::default(),
            is_blocklisted: AtomicBool::new(false),
            blocklisted: watch::Sender::new(false),
            trace,
            waits: cluster.waits().clone(),
        });
        let observed: Weak<Self> = Arc::downgrade(&objecter);
        cluster.waits().look_at(observed);
        let location = Location::of(cluster);
        let steward = Steward::new(Arc::clone(&objecter), heard, location);
        (objecter, steward)
    }

    /// Returns the time limit of an operation; `None` is no limit.
    pub(crate) fn op_timeout(&self) -> Option<Duration> {
        let us = self.op_timeout_us.load(Ordering::Relaxed);
        (us != 0).then(|| Duration::from_micros(us))
    }

    /// Sets the time limit of operations that begin from now on.
    pub(crate) fn set_op_timeout(&self, limit: Option<Duration>) {
        self.op_timeout_us.store(as_us(limit), Ordering::Relaxed);
    }

    /// Returns the current map.
    pub(crate) fn view(&self) -> Arc<MapView> {
        self.view.load_full()
    }

    /// Waits until the map is of this epoch or newer.
    pub(crate) async fn wait_for_epoch(&self, epoch: Epoch) {
        let known = *self.epochs.borrow();
        if known >= epoch {
            return;
        }
        let _wait = self.waits.enter(Waiter::Operation, Reason::Map { wanted: epoch, known });
        let mut epochs = self.epochs.subscribe();
        // Cannot fail: `self` owns the sender.
        let _ = epochs.wait_for(|current| *current >= epoch).await;
    }

    /// Waits until the map is as new as the monitors' newest map at the time of the call.
    pub(crate) async fn wait_for_newest(&self) -> Result<(), Error> {
        let newest = self.monc.newest_version("osdmap").await?;
        self.wait_for_epoch(Epoch(newest as u32)).await;
        Ok(())
    }

    /// Assigns a tid to a request and moves the request to the heap.
    pub(crate) fn prepare(&self, request: MOSDOp) -> Arc<Op> {
        let tid = Tid(self.tids.fetch_add(1, Ordering::Relaxed));
        Op::new(tid, request, self.trace.as_ref().map(|_| Marks::new()))
    }

    /// Performs an operation: waits for a place in flight, sends the operation, and waits for its end.
    ///
    /// If the future is dropped before the end, the operation is not resent; whether it was executed is
    /// unknown.
    pub(crate) async fn perform(&self, op: Arc<Op>) -> Result<OsdReply, Error> {
        match &self.trace {
            None => self.perform_in_time(op).await,
            // Boxed, so that futures stay small without tracing.
            Some(trace) => {
                let following = Following::new(trace, &op);
                let outcome = Box::pin(self.perform_in_time(op)).await;
                following.end(&outcome);
                outcome
            }
        }
    }

    async fn perform_in_time(&self, op: Arc<Op>) -> Result<OsdReply, Error> {
        match self.op_timeout() {
            None => self.perform_at_leisure(op).await,
            // Boxed, so that futures stay small without a time limit.
            Some(limit) => Box::pin(tokio::time::timeout(limit, self.perform_at_leisure(op)))
                .await
                .unwrap_or(Err(Error::Timeout(limit))),
        }
    }

    async fn perform_at_leisure(&self, op: Arc<Op>) -> Result<OsdReply, Error> {
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
    fn fail(&self, op: &Op, why: OpError) {
        self.throttle.release(1, op.cost);
        op.finish(Err(why));
    }

    /// Removes an operation whose caller stopped waiting from all tables.
    fn cancel(&self, op: &Op) {
        for session in self.sessions.all() {
            if let Some(op) = session.remove(op.tid) {
                self.throttle.release(1, op.cost);
                return;
            }
        }
    }

    fn tell(&self, event: Event) {
        // The receiver is gone only while the client is being shut down.
        let _ = self.events.send(event);
    }

    /// Ends all sessions; operations fail with [`Error::Shutdown`].
    pub(crate) fn close(&self) {
        self.lingers.close();
        let sessions = self.sessions.close();
        // Commands submitted from now on find the sessions closed.
        self.commands.close();
        for session in sessions {
            let (conn, ops) = session.end();
            if let Some(conn) = conn {
                conn.mark_down();
            }
            for (_, op) in ops {
                self.fail(&op, OpError::Shutdown);
            }
        }
    }

    /// Returns the operations resent by the last map change that moved any.
    pub(crate) fn resent(&self) -> Resent {
        **self.resent.load()
    }

    /// Returns `true` if the cluster is known to have blocklisted this client.
    pub(crate) fn is_blocklisted(&self) -> bool {
        // Relaxed: the flag publishes no other data. A task that learned of a failed operation was
        // synchronised by that operation's channel.
        self.is_blocklisted.load(Ordering::Relaxed)
    }

    /// Returns a receiver of the blocklisted state, which never changes back.
    pub(crate) fn blocklisting(&self) -> watch::Receiver<bool> {
        self.blocklisted.subscribe()
    }

    #[cold]
    fn found_blocklisted(&self) {
        // Relaxed: as above. The swap selects the one task that notifies the others.
        if !self.is_blocklisted.swap(true, Ordering::Relaxed) {
            self.blocklisted.send_replace(true);
        }
    }

    /// Returns the number of operations in flight and their bytes.
    pub(crate) fn in_flight(&self) -> (u64, u64) {
        self.throttle.held()
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
fn send(conn: &Connection, msg: Msg) {
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

impl Peers for Objecter {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        if let Some(session) = session_of(conn) {
            self.handle(&session, conn, msgs);
        }
    }

    fn take_map(&self, msg: &Msg) {
        self.take_maps(msg);
    }

    fn authenticated(&self) {
        self.tell(Event::Authenticated);
    }

    fn lost(&self, conn: &Arc<Connection>) {
        if let Some(session) = session_of(conn) {
            self.tell(Event::Lost { session, conn_id: conn.id() });
        }
    }

    /// The OSD requires features that this client does not have. Its operations fail, because every
    /// later attempt would fail too.
    fn refused(&self, conn: &Arc<Connection>, why: &loligo_msgr::Error) {
        let loligo_msgr::Error::MissingFeatures { bits } = why else { return };
        if let Some(session) = session_of(conn).filter(|session| session.uses(conn.id())) {
            session.take_all().iter().for_each(|(_, op)| self.fail(op, OpError::MissingFeatures(*bits)));
        }
    }
}

impl Observed for Objecter {
    fn waits(&self, age_min: Duration, into: &mut Gathered) {
        self.gather_waits(age_min, into);
    }
}

/// Returns the session that a connection belongs to.
fn session_of(conn: &Connection) -> Option<Arc<Session>> {
    conn.user_data().get()?.downcast_ref::<Link>()?.0.upgrade()
}

/// Messages from OSDs.
impl Objecter {
    /// Handles all messages that one read of an OSD's connection returned.
    fn handle(&self, session: &Arc<Session>, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let mut replies = Vec::with_capacity(msgs.len());
        for msg in msgs.drain(..) {
            match msg.header.kind {
                MOSDOpReply::KIND => match OsdReply::open(&msg) {
                    Ok(reply) => replies.push((msg.header.tid, reply)),
                    Err(e) => self.end_unreadable(session, msg.header.tid, e),
                },
                MOSDBackoff::KIND => self.take_backoff(session, conn, &msg),
                MOSDMap::KIND => self.take_maps(&msg),
                MCommandReply::KIND => {
                    if let Ok(reply) = msg.open() {
                        self.commands.answer(msg.header.tid, reply);
                    }
                }
                MWatchNotify::KIND => {
                    if let Ok(msg) = msg.open() {
                        self.lingers.hear(msg);
                    }
                }
                _ => {}
            }
        }
        if !replies.is_empty() {
            self.complete(session, conn.id(), replies);
        }
    }

    /// Queues maps, sent by a monitor or by an OSD that saw an old epoch.
    fn take_maps(&self, msg: &Msg) {
        let came_at = std::time::Instant::now();
        let Ok(maps) = msg.open::<MOSDMap>() else { return };
        if self.maps_waiting.fetch_add(1, Ordering::Relaxed) >= MAPS_WAITING_MAX {
            self.maps_waiting.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.tell(Event::Maps { maps, came_at });
    }

    fn complete(&self, session: &Session, conn_id: u64, replies: Vec<(Tid, OsdReply)>) {
        let answered = session.answered(replies);
        let (mut ops, mut bytes) = (0, 0);
        for answer in &answered {
            if let Answered::Done(op, _) = answer {
                ops += 1;
                bytes += op.cost;
            }
        }
        // Before any task is woken: a woken task may want the place.
        self.throttle.release(ops, bytes);
        for answer in answered {
            match answer {
                Answered::Done(op, reply) => {
                    op.set_answered_on(conn_id);
                    if reply.result == Errno::EBLOCKLISTED.to_result() {
                        self.found_blocklisted();
                    }
                    if let Some(marks) = &op.marks {
                        marks.acked();
                    }
                    op.finish(Ok(reply));
                }
                Answered::Again(op, reply) => self.tell(Event::Again { op, reply }),
            }
        }
    }

    #[cold]
    fn end_unreadable(&self, session: &Session, tid: Tid, why: loligo_wire::DecodeError) {
        if let Some(op) = session.remove(tid) {
            self.fail(&op, OpError::Decode(why));
        }
    }

    #[cold]
    fn take_backoff(&self, session: &Arc<Session>, conn: &Arc<Connection>, msg: &Msg) {
        let Ok(backoff) = msg.open::<MOSDBackoff>() else { return };
        match backoff.op {
            BackoffOp::Block if session.back_off(&backoff, conn) => {
                let map_epoch = self.view.load().epoch();
                let ack = MOSDBackoff { op: BackoffOp::AckBlock, map_epoch, ..backoff };
                let _ = conn.send(Msg::new(&ack));
            }
            BackoffOp::Unblock => self.tell(Event::Unblocked { session: Arc::clone(session), backoff }),
            _ => {}
        }
    }
}
