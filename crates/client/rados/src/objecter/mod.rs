//! Operations in flight. [`Objecter`] places operations by the map, sends them to the OSDs, matches the
//! replies, and has lost operations resent.
//!
//! ```text
//!      submit: perform                incoming: replies of one read
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
mod incoming;
mod linger;
mod op;
mod replica;
mod requests;
mod session;
mod sessions;
mod steward;
mod submit;
mod target;
mod throttle;
mod traced;
mod waits;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use loligo_cluster::{Cluster, Gathered, MonClient, Observed, Reason, Waiter, Waits};
use loligo_wire::Epoch;
use tokio::sync::{mpsc, watch};

use self::commands::Commands;
use self::linger::Lingers;
use self::replica::Location;
use self::requests::Waiting;
use self::sessions::Sessions;
use self::steward::Event;
use self::throttle::Throttle;
use crate::error::{Error, OpError};
use crate::trace;

pub(crate) use self::commands::Addressee;
pub(crate) use self::linger::{Heard, Linger, Trouble};
pub use self::requests::{InFlight, Request, WaitsFor};
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

impl Observed for Objecter {
    fn waits(&self, age_min: Duration, into: &mut Gathered) {
        self.gather_waits(age_min, into);
    }
}
