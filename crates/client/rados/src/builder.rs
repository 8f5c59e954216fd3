//! Connecting: from configuration to a client with a map.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::conf::{Conf, ConfError};
use loligo_cluster::Waits;
use loligo_msgr::Network;
use loligo_wire::message::Message as _;
use loligo_wire::message::osd::MOSDMap;
use loligo_wire::{EntityName, EntityType, Epoch};

use crate::core::{Core, Lifeline};
use crate::objecter::{Objecter, Settings};
use crate::trace::{self, Trace};
use crate::{Error, Rados};

/// Says which cluster to connect to, and as whom.
///
/// Without further ado this is what Ceph's programs use: `CEPH_CONF`, `CEPH_ARGS`, `CEPH_KEYRING`, the usual
/// places of ceph.conf and keyrings, the name `client.admin`.
#[derive(Clone, Default)]
pub struct Builder {
    cluster: loligo_cluster::Builder,
    trace: Option<Arc<trace::Sender>>,
}

impl Builder {
    /// What this process's environment says.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the command-line options that all of Ceph's programs share out of `args`: `-c`, `-n`,
    /// `--keyring`, any option of the configuration.
    pub fn args(self, args: &mut Vec<String>) -> Result<Self, ConfError> {
        Ok(Self { cluster: self.cluster.args(args)?, ..self })
    }

    /// The same for a program with options of its own, which `own` is true for: they are left.
    pub fn args_beside(self, args: &mut Vec<String>, own: impl Fn(&str) -> bool) -> Result<Self, ConfError> {
        Ok(Self { cluster: self.cluster.args_beside(args, own)?, ..self })
    }

    /// Takes the options that stock programs share out of the words of `CEPH_ARGS`, and gives the rest of the
    /// words: a program reads them with those of its command line, as stock programs do. Words that `own` is
    /// true for are its own options. Call it before [`args`](Self::args).
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

    /// Sets an option of the configuration, above all files.
    pub fn set(self, option: &str, value: &str) -> Self {
        Self { cluster: self.cluster.set(option, value), ..self }
    }

    /// Uses this configuration, with what is [`set`](Self::set), and reads nothing else.
    pub fn conf(self, conf: Conf) -> Self {
        Self { cluster: self.cluster.conf(conf), ..self }
    }

    /// Connects to another address than the cluster's maps say: tests put something in between.
    #[doc(hidden)]
    pub fn reroute(
        self,
        reroute: impl Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync + 'static,
    ) -> Self {
        Self { cluster: self.cluster.reroute(reroute), ..self }
    }

    /// Asks this DNS server where the monitors are, if the configuration does not say, instead of the
    /// system's: tests have one of their own.
    #[doc(hidden)]
    pub fn dns_server(self, server: SocketAddr) -> Self {
        Self { cluster: self.cluster.dns_server(server), ..self }
    }

    /// Takes sockets and random numbers from here: tests simulate them.
    #[doc(hidden)]
    pub fn network(self, network: Network) -> Self {
        Self { cluster: self.cluster.network(network), ..self }
    }

    /// Says to peers that we are something else than a client: stock OSDs compress nothing for clients.
    #[doc(hidden)]
    pub fn masquerade(self, kind: EntityType) -> Self {
        Self { cluster: self.cluster.masquerade(kind), ..self }
    }

    /// Shows there what the client waits for, from the first attempt to connect on.
    pub fn waits(self, waits: &Waits) -> Self {
        Self { cluster: self.cluster.waits(waits), ..self }
    }

    /// The configuration that would be used.
    pub fn load(&self) -> Result<Conf, ConfError> {
        self.cluster.load()
    }

    /// Has the timeline of each operation written there.
    pub fn trace(self, trace: &Trace) -> Self {
        Self { trace: Some(trace.sender()), ..self }
    }

    /// Connects: finds a monitor, in DNS if the configuration names none (`mon_dns_srv_name`), authenticates,
    /// and waits for the first map. The client's tasks run on the runtime that this is called on.
    ///
    /// # Errors
    /// What is wrong with the configuration; [`Error::NotInDns`] if nothing says where the monitors are;
    /// [`Error::Auth`] if the monitors refuse us; [`Error::NoMonitor`] if none could be reached within
    /// `client_mount_timeout`.
    pub async fn connect(self) -> Result<Rados, Error> {
        let joining = self.cluster.prepare().await?;
        let cluster = joining.cluster();
        let limits = Limits::of(&cluster.conf())?;
        let (objecter, steward) = Objecter::new(limits.objecter, cluster, self.trace);
        cluster.register(EntityType::OSD, &[MOSDMap::KIND], &objecter)?;
        cluster.monitors().follow("osdmap", 0);
        let steward = tokio::spawn(steward.run()).abort_handle();
        let core = Core { cluster: cluster.clone(), objecter };
        let lifeline = Lifeline { core: Arc::new(core), steward };
        joining.connect().await?;
        let core = &lifeline.core;
        let patience = core.cluster.patience();
        let map = core.objecter.wait_for_epoch(Epoch(1));
        tokio::time::timeout(patience, map).await.map_err(|_| Error::Timeout(patience))?;
        // The monitors' settings count from here on: before the first session the client cannot know them.
        let told = Limits::of(&core.cluster.conf())?;
        core.objecter.set_op_timeout(told.objecter.op_timeout);
        Ok(Rados::new(lifeline, told.mon_op))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cluster.fmt(f)
    }
}

/// The times and bounds that are configured, with Ceph's defaults.
struct Limits {
    objecter: Settings,
    /// How long to wait for monitors and managers; `None`: for ever.
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
