//! The cluster log, as the monitors send it to subscribers.

use std::sync::{Arc, Weak};

use loligo_cluster::{Cluster, MonClient};
use loligo_msgr::Connection;
use loligo_wire::EntityType;
use loligo_wire::message::mon::MLog;
use loligo_wire::message::{Message as _, Msg};
use tokio::sync::mpsc;

pub use loligo_wire::message::mon::LogEntry;

use crate::{Error, Rados};

/// Entries that may wait for their reader; what comes when there are as many is dropped.
const WAITING_MAX: usize = 4096;

/// The subscription of a client: there is one.
pub(crate) struct Listener {
    what: &'static str,
    to: mpsc::Sender<LogEntry>,
    monitors: Weak<MonClient>,
}

impl loligo_cluster::Peers for Listener {
    fn dispatch(&self, _: &Arc<Connection>, _: &mut Vec<Msg>) {}

    fn take_map(&self, msg: &Msg) {
        let Ok(log) = msg.open::<MLog>() else { return };
        if let Some(monitors) = self.monitors.upgrade() {
            monitors.got(self.what, log.paxos.version);
        }
        for entry in log.entries {
            let _ = self.to.try_send(entry);
        }
    }
}

/// Reads the cluster log. Dropping it ends the subscription. What the monitors still send in the session is
/// dropped, unless there is a new subscription.
pub struct ClusterLog {
    entries: mpsc::Receiver<LogEntry>,
    listener: Arc<Listener>,
    cluster: Cluster,
}

impl ClusterLog {
    /// Waits for the next entry. Cancel safe.
    pub fn recv(&mut self) -> impl Future<Output = Option<LogEntry>> + Send + '_ {
        self.entries.recv()
    }

    /// Waits for the next entry on a thread that may block.
    pub fn blocking_recv(&mut self) -> Option<LogEntry> {
        self.entries.blocking_recv()
    }
}

impl Drop for ClusterLog {
    fn drop(&mut self) {
        self.cluster.monitors().unfollow(self.listener.what);
    }
}

impl std::fmt::Debug for ClusterLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterLog").field("waiting", &self.entries.len()).finish()
    }
}

impl Rados {
    /// Subscribes to the cluster log: `log-debug`, `log-info`, `log-sec`, `log-warn` or `log-error`, from
    /// the next entry on. A client has one subscription.
    ///
    /// # Errors
    /// EEXIST while there is another subscription.
    pub fn cluster_log(&self, what: &'static str) -> Result<ClusterLog, Error> {
        let (to, entries) = mpsc::channel(WAITING_MAX);
        let cluster = self.cluster().clone();
        let listener = Arc::new(Listener { what, to, monitors: Arc::downgrade(cluster.monitors()) });
        // Clients have no sessions with clients: the kind only tells this registration from others.
        cluster.register(EntityType::CLIENT, &[MLog::KIND], &listener)?;
        cluster.monitors().follow(what, 0);
        Ok(ClusterLog { entries, listener, cluster })
    }
}
