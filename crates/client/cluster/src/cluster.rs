//! A client as its cluster sees it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_cephx::client::AuthClient;
use loligo_cephx::conf::Conf;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Messenger;
use loligo_wire::{EntityType, GlobalId, Uuid};
use tokio::task::AbortHandle;

use crate::dial::Dialer;
use crate::dispatch::Switch;
use crate::error::Error;
use crate::mgrc::{MgrClient, Service};
use crate::monc::MonClient;
use crate::peers::Peers;
use crate::waits::{Gathered, Observed, Waits};

/// How long to wait for a manager to let a service's daemon go
/// (`mgr_client_service_daemon_unregister_timeout`).
const UNREGISTER_MAX: Duration = Duration::from_secs(1);

/// Held to note a task that begins, and when the client ends.
static TASKS: Class = Class::new("cluster.tasks");

/// A client of a cluster: its sessions with monitors and managers, and what clients of other daemons need of
/// them. Clones are the same client. With the last one it ends.
#[derive(Clone)]
pub struct Cluster(Arc<Lifeline>);

/// What ends with the last handle.
struct Lifeline {
    parts: Arc<Parts>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.parts.close(&self.tasks);
    }
}

/// The parts of a client.
pub(crate) struct Parts {
    pub(crate) conf: Conf,
    pub(crate) hostname: String,
    pub(crate) auth: Arc<AuthClient>,
    pub(crate) messenger: Arc<Messenger>,
    pub(crate) mgrc: Arc<MgrClient>,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) waits: Waits,
    pub(crate) patience: Duration,
}

impl Parts {
    fn close(&self, tasks: &Mutex<Vec<AbortHandle>>) {
        let tasks = std::mem::take(&mut *tasks.lock());
        tasks.iter().for_each(AbortHandle::abort);
        self.switch.monc.close();
        self.mgrc.close();
    }
}

impl Observed for Parts {
    fn waits(&self, age_min: Duration, into: &mut Gathered) {
        self.switch.monc.waits(age_min, into);
        self.mgrc.waits(age_min, into);
    }
}

impl Cluster {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        let observed: Weak<Parts> = Arc::downgrade(&parts);
        parts.waits.look_at(observed);
        Self(Arc::new(Lifeline { parts, tasks: Mutex::new(&TASKS, Vec::new()) }))
    }

    /// Ends a task with the client.
    pub(crate) fn keep_task(&self, task: AbortHandle) {
        self.0.tasks.lock().push(task);
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.0.parts
    }

    /// Has `peers` told what happens on connections to daemons of `kind`, and gives it the monitors' messages of
    /// the kinds `maps`. From now on tickets for such daemons are kept. `peers` is not kept alive: dropped, it
    /// gives its place up.
    ///
    /// # Errors
    /// EEXIST if there is a client of that kind of daemons already, or one that these maps are for; EINVAL for
    /// monitors, whose client is this.
    pub fn register(
        &self,
        kind: EntityType,
        maps: &'static [u16],
        peers: &Arc<impl Peers>,
    ) -> Result<(), Error> {
        if kind == EntityType::MON {
            return Err(crate::Errno::EINVAL.into());
        }
        let weak: Weak<dyn Peers> = Arc::downgrade(&(Arc::clone(peers) as Arc<dyn Peers>));
        self.parts().switch.registry.add(kind, maps, weak)?;
        if self.parts().auth.want_tickets_for(kind) {
            self.monitors().renew_tickets();
        }
        Ok(())
    }

    /// The session with the monitors.
    pub fn monitors(&self) -> &Arc<MonClient> {
        &self.parts().switch.monc
    }

    /// The session with the active manager.
    pub fn managers(&self) -> &Arc<MgrClient> {
        &self.parts().mgrc
    }

    /// Opens connections.
    pub fn dialer(&self) -> &Arc<Dialer> {
        &self.parts().dialer
    }

    /// What is waited for.
    pub fn waits(&self) -> &Waits {
        &self.parts().waits
    }

    /// The client's configuration, with what the monitors have said of it.
    pub fn conf(&self) -> Conf {
        self.parts().conf.clone().with_monitors(self.monitors().config())
    }

    /// How long the client may take to be connected (`client_mount_timeout`).
    pub fn patience(&self) -> Duration {
        self.parts().patience
    }

    /// This machine's name.
    pub fn hostname(&self) -> &str {
        &self.parts().hostname
    }

    /// The cluster's id; `None` before the first session with a monitor.
    pub fn fsid(&self) -> Option<Uuid> {
        self.monitors().fsid()
    }

    /// The number that the monitors have given this client; 0 before the first session.
    pub fn instance_id(&self) -> GlobalId {
        self.parts().auth.global_id()
    }

    /// What tells this client from others at its host's address.
    pub fn nonce(&self) -> u32 {
        self.parts().messenger.config().nonce
    }

    /// Makes this client a daemon of a service. Returns at once.
    ///
    /// # Errors
    /// EEXIST if this client is a daemon already; EINVAL if a name is empty or `service` is one of Ceph's own.
    pub fn register_service(
        &self,
        service: &str,
        daemon: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let service = Service::new(service, daemon, self.hostname(), metadata)?;
        self.managers().register(service)
    }

    /// As a daemon of a service, says good-bye to the manager, and waits up to a second for it to hear that.
    pub async fn unregister_service(&self) {
        self.managers().unregister(UNREGISTER_MAX).await;
    }

    /// Ends the sessions with monitors and managers, at once: questions and commands end with
    /// [`Error::Shutdown`].
    pub fn close(&self) {
        self.parts().close(&self.0.tasks);
    }

    /// Closes all connections, of all clients of daemons, and waits until they are.
    pub async fn shutdown(&self) {
        self.close();
        self.parts().messenger.shutdown().await;
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client.{} of {}", self.instance_id(), self.fsid().unwrap_or_default())
    }
}
