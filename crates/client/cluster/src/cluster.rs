//! The client as its cluster sees it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_cephx::client::AuthClient;
use loligo_conf::Conf;
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

/// How long to wait for a manager to acknowledge that a service's daemon unregisters
/// (`mgr_client_service_daemon_unregister_timeout`).
const UNREGISTER_MAX: Duration = Duration::from_secs(1);

/// Held to record a new task, and at the client's end.
static TASKS: Class = Class::new("cluster.tasks");

/// A client of a cluster: its sessions with monitors and managers, and the services that clients of
/// other daemons need. Clones share one client. The client ends when the last clone is dropped.
#[derive(Clone)]
pub struct Cluster(Arc<Lifeline>);

/// State that ends with the last handle.
struct Lifeline {
    parts: Arc<Parts>,
    /// `None` once the client has ended.
    tasks: Mutex<Option<Vec<AbortHandle>>>,
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.parts.close(&self.tasks);
    }
}

/// The parts of a client.
pub(crate) struct Parts {
    pub(crate) conf: Conf,
    pub(crate) auth: Arc<AuthClient>,
    pub(crate) messenger: Arc<Messenger>,
    pub(crate) mgrc: Arc<MgrClient>,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) waits: Waits,
    pub(crate) patience: Duration,
}

impl Parts {
    fn close(&self, tasks: &Mutex<Option<Vec<AbortHandle>>>) {
        let tasks = tasks.lock().take();
        tasks.iter().flatten().for_each(AbortHandle::abort);
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
        Self(Arc::new(Lifeline { parts, tasks: Mutex::new(&TASKS, Some(Vec::new())) }))
    }

    /// Registers a task to be aborted when the client ends; aborts it if that was before.
    pub(crate) fn keep_task(&self, task: AbortHandle) {
        let mut tasks = self.0.tasks.lock();
        match &mut *tasks {
            Some(tasks) => tasks.push(task),
            None => {
                drop(tasks);
                task.abort();
            }
        }
    }

    pub(crate) fn parts(&self) -> &Arc<Parts> {
        &self.0.parts
    }

    /// Delivers to `peers` the events of connections to daemons of `kind`, and the monitors' messages of
    /// the kinds `maps`. From now on the client keeps tickets for such daemons. The registration does
    /// not keep `peers` alive, and ends when `peers` is dropped.
    ///
    /// # Errors
    /// EEXIST if another client is registered for that kind of daemon or for one of these maps; EINVAL
    /// for monitors, whose client is the cluster itself.
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

    /// Returns the session with the monitors.
    pub fn monitors(&self) -> &Arc<MonClient> {
        &self.parts().switch.monc
    }

    /// Returns the session with the active manager.
    pub fn managers(&self) -> &Arc<MgrClient> {
        &self.parts().mgrc
    }

    /// Returns the dialer, which opens connections.
    pub fn dialer(&self) -> &Arc<Dialer> {
        &self.parts().dialer
    }

    /// Returns the registry of the client's waits.
    pub fn waits(&self) -> &Waits {
        &self.parts().waits
    }

    /// Returns the client's configuration, including the settings from the monitors' configuration database.
    pub fn conf(&self) -> Conf {
        self.parts().conf.clone().with_monitors(self.monitors().config())
    }

    /// Returns the time limit for connecting (`client_mount_timeout`).
    pub fn patience(&self) -> Duration {
        self.parts().patience
    }

    /// Returns this machine's name.
    pub fn hostname(&self) -> &str {
        self.monitors().hostname()
    }

    /// Returns the cluster's id, or `None` before the first session with a monitor.
    pub fn fsid(&self) -> Option<Uuid> {
        self.monitors().fsid()
    }

    /// Returns the global id that the monitors have assigned to this client, or 0 before the first session.
    pub fn instance_id(&self) -> GlobalId {
        self.parts().auth.global_id()
    }

    /// Returns the nonce, which distinguishes this client from others at the same host's address.
    pub fn nonce(&self) -> u32 {
        self.parts().messenger.config().nonce
    }

    /// Registers this client as a daemon of a service. Does not block.
    ///
    /// # Errors
    /// EEXIST if this client is already a daemon; EINVAL if a name is empty or `service` is one of
    /// Ceph's own.
    pub fn register_service(
        &self,
        service: &str,
        daemon: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let service = Service::new(service, daemon, self.hostname(), metadata)?;
        self.managers().register(service)
    }

    /// Unregisters this client's service daemon from the manager, and waits up to a second for its
    /// acknowledgement.
    pub async fn unregister_service(&self) {
        self.managers().unregister(UNREGISTER_MAX).await;
    }

    /// Ends the sessions with monitors and managers immediately. Pending requests and commands fail with
    /// [`Error::Shutdown`].
    pub fn close(&self) {
        self.parts().close(&self.0.tasks);
    }

    /// Closes all connections, including those of registered clients, and waits until they are closed.
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
