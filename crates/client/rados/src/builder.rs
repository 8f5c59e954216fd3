//! Connecting: from the configuration to a client with an OSD map.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loligo_cluster::Waits;
use loligo_conf::{Conf, ConfError};
use loligo_msgr::Network;
use loligo_wire::message::Message as _;
use loligo_wire::message::osd::MOSDMap;
use loligo_wire::{EntityName, EntityType, Epoch};

use crate::core::{Core, Lifeline};
use crate::objecter::{Objecter, Settings};
use crate::trace::{self, Trace};
use crate::{Error, Rados};

/// Selects the cluster and the name to authenticate as.
///
/// The defaults are those of Ceph's programs: `CEPH_CONF`, `CEPH_ARGS`, `CEPH_KEYRING`, the usual paths
/// of ceph.conf and keyrings, and the name `client.admin`.
#[derive(Clone, Default)]
pub struct Builder {
    cluster: loligo_cluster::Builder,
    trace: Option<Arc<trace::Sender>>,
}

impl Builder {
    /// Creates a builder from this process's environment.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes the command-line options that all Ceph programs share from `args` and applies them: `-c`,
    /// `-n`, `--keyring` and any configuration option.
    pub fn args(self, args: &mut Vec<String>) -> Result<Self, ConfError> {
        Ok(Self { cluster: self.cluster.args(args)?, ..self })
    }

    /// Like `args`, but leaves the options for which `own` returns `true`: the program's own options.
    pub fn args_beside(self, args: &mut Vec<String>, own: impl Fn(&str) -> bool) -> Result<Self, ConfError> {
        Ok(Self { cluster: self.cluster.args_beside(args, own)?, ..self })
    }

    /// Applies the shared options found in `CEPH_ARGS` and returns the remaining words. A program parses
    /// those together with its command line, as stock programs do. `own` returns `true` for the
    /// program's own options. Call it before [`args`](Self::args).
    pub fn environment_args(self, own: impl Fn(&str) -> bool) -> Result<(Self, Vec<String>), ConfError> {
        let (cluster, words) = self.cluster.environment_args(own)?;
        Ok((Self { cluster, ..self }, words))
    }

    /// Reads this configuration file.
    pub fn conf_file(self, path: &str) -> Self {
        Self { cluster: self.cluster.conf_file(path), ..self }
    }

    /// Authenticates as `name`.
    pub fn name(self, name: EntityName) -> Self {
        Self { cluster: self.cluster.name(name), ..self }
    }

    /// Sets a configuration option. It overrides every file.
    pub fn set(self, option: &str, value: &str) -> Self {
        Self { cluster: self.cluster.set(option, value), ..self }
    }

    /// Uses this configuration together with the options [`set`](Self::set) here, and reads nothing else.
    pub fn conf(self, conf: Conf) -> Self {
        Self { cluster: self.cluster.conf(conf), ..self }
    }

    /// Connects to other addresses than those in the cluster's maps. For tests that put a proxy in between.
    #[doc(hidden)]
    pub fn reroute(
        self,
        reroute: impl Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync + 'static,
    ) -> Self {
        Self { cluster: self.cluster.reroute(reroute), ..self }
    }

    /// Queries this DNS server instead of the system's if the configuration does not name the monitors.
    /// For tests.
    #[doc(hidden)]
    pub fn dns_server(self, server: SocketAddr) -> Self {
        Self { cluster: self.cluster.dns_server(server), ..self }
    }

    /// Uses this source of sockets and random numbers. For tests that simulate them.
    #[doc(hidden)]
    pub fn network(self, network: Network) -> Self {
        Self { cluster: self.cluster.network(network), ..self }
    }

    /// Presents this client to its peers as another entity type. Stock OSDs do not compress for clients.
    #[doc(hidden)]
    pub fn masquerade(self, kind: EntityType) -> Self {
        Self { cluster: self.cluster.masquerade(kind), ..self }
    }

    /// Registers the client's waits with `waits`, from the first attempt to connect on.
    pub fn waits(self, waits: &Waits) -> Self {
        Self { cluster: self.cluster.waits(waits), ..self }
    }

    /// Returns the configuration that `connect` would use.
    pub fn load(&self) -> Result<Conf, ConfError> {
        self.cluster.load()
    }

    /// Writes the timeline of each operation to `trace`.
    pub fn trace(self, trace: &Trace) -> Self {
        Self { trace: Some(trace.sender()), ..self }
    }

    /// Finds a monitor, through DNS if the configuration names none (`mon_dns_srv_name`), authenticates,
    /// and waits for the first OSD map. The client's tasks run on the calling runtime.
    ///
    /// # Errors
    /// A configuration error; [`Error::NotInDns`] if neither the configuration nor DNS names the
    /// monitors; [`Error::Auth`] if the monitors refuse the client; [`Error::NoMonitor`] if no monitor
    /// was reached within `client_mount_timeout`.
    pub async fn connect(self) -> Result<Rados, Error> {
        let joining = self.cluster.prepare().await?;
        let cluster = joining.cluster();
        let limits = Limits::of(&cluster.conf())?;
        let (objecter, steward) = Objecter::new(limits.objecter, cluster, self.trace);
        cluster.register(EntityType::OSD, &[MOSDMap::KIND], &objecter)?;
        cluster.monitors().follow("osdmap", 0);
        let steward = tokio::spawn(steward.run()).abort_handle();
        let core = Core { cluster: cluster.clone(), objecter };
        let lifeline = Lifeline { core, steward };
        joining.connect().await?;
        let core = &lifeline.core;
        let patience = core.cluster.patience();
        let map = core.objecter.wait_for_epoch(Epoch(1));
        tokio::time::timeout(patience, map).await.map_err(|_| Error::Timeout(patience))?;
        // The settings from the monitors are known only after the first session has opened.
        let told = Limits::of(&core.cluster.conf())?;
        core.objecter.set_op_timeout(told.objecter.op_timeout);
        Ok(Rados::new(lifeline, told.mon_op))
    }
}

impl Rados {
    /// Connects with the defaults of Ceph's programs, see [`Builder`].
    pub async fn connect() -> Result<Self, Error> {
        Builder::new().connect().await
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)
    }
}

/// The configured times and bounds, with Ceph's defaults.
struct Limits {
    objecter: Settings,
    /// Time limit for monitors and managers; `None` is no limit.
    mon_op: Option<Duration>,
}

impl Limits {
    fn of(conf: &Conf) -> Result<Self, ConfError> {
        let unless_zero =
            |option| conf.duration(option, Duration::ZERO).map(|limit| (!limit.is_zero()).then_some(limit));
        Ok(Self {
            objecter: Settings {
                ops_max: conf.u64("objecter_inflight_ops", 1024)?,
                bytes_max: conf.size("objecter_inflight_op_bytes", 100 << 20)?,
                op_timeout: unless_zero("rados_osd_op_timeout")?,
            },
            mon_op: unless_zero("rados_mon_op_timeout")?,
        })
    }
}
