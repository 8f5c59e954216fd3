//! Joining a cluster: from configuration to a session with a monitor.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::client::AuthClient;
use loligo_cephx::conf::{Conf, ConfError, Environment, Options};
use loligo_msgr::{Compression, Config, Limits, Messenger, Network, Reroute};
use loligo_wire::message::Message as _;
use loligo_wire::message::mon::MMgrMap;
use loligo_wire::{EntityName, EntityType, features};
use tokio::sync::oneshot;

use crate::cluster::{Cluster, Parts};
use crate::dial::Dialer;
use crate::discover;
use crate::dispatch::{Dispatch, Switch};
use crate::error::Error;
use crate::mgrc::{Keeper, MgrClient};
use crate::monc::{Hunt, HuntSettings, MonClient};
use crate::peers::Registry;
use crate::waits::{Reason, Waiter, Waits};

/// Says which cluster to connect to, and as whom.
///
/// Without further ado this is what Ceph's programs use: `CEPH_CONF`, `CEPH_ARGS`, `CEPH_KEYRING`, the usual
/// places of ceph.conf and keyrings, the name `client.admin`.
#[derive(Clone)]
pub struct Builder {
    environment: Environment,
    options: Options,
    conf: Option<Conf>,
    reroute: Option<Reroute>,
    dns: Option<SocketAddr>,
    network: Network,
    kind: EntityType,
    waits: Waits,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// What this process's environment says.
    pub fn new() -> Self {
        Self {
            environment: Environment::current(),
            options: Options::default(),
            conf: None,
            reroute: None,
            dns: None,
            network: Network::default(),
            kind: EntityType::CLIENT,
            waits: Waits::default(),
        }
    }

    /// Takes the command-line options that all of Ceph's programs share out of `args`: `-c`, `-n`,
    /// `--keyring`, any option of the configuration.
    pub fn args(self, args: &mut Vec<String>) -> Result<Self, ConfError> {
        self.args_beside(args, |_| false)
    }

    /// The same for a program with options of its own, which `own` is true for: they are left.
    pub fn args_beside(
        mut self,
        args: &mut Vec<String>,
        own: impl Fn(&str) -> bool,
    ) -> Result<Self, ConfError> {
        self.options.take(args, own)?;
        Ok(self)
    }

    /// Takes the options that stock programs share out of the words of `CEPH_ARGS`, and gives the rest of the
    /// words: a program reads them with those of its command line, as stock programs do. Words that `own` is
    /// true for are its own options. Call it before [`args`](Self::args).
    pub fn environment_args(mut self, own: impl Fn(&str) -> bool) -> Result<(Self, Vec<String>), ConfError> {
        let mut words = self.environment.take_args();
        self.options.take(&mut words, own)?;
        Ok((self, words))
    }

    /// Reads this configuration file.
    pub fn conf_file(mut self, path: &str) -> Self {
        self.options.conf_file = Some(path.to_owned());
        self
    }

    /// Authenticates as `name`.
    pub fn name(mut self, name: EntityName) -> Self {
        self.options.name = Some(name);
        self
    }

    /// Sets an option of the configuration, above all files.
    pub fn set(mut self, option: &str, value: &str) -> Self {
        self.options.set(option, value);
        self
    }

    /// Uses this configuration, with what is [`set`](Self::set), and reads nothing else.
    pub fn conf(mut self, conf: Conf) -> Self {
        self.conf = Some(conf);
        self
    }

    /// Connects to another address than the cluster's maps say: tests put something in between.
    #[doc(hidden)]
    pub fn reroute(
        mut self,
        reroute: impl Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync + 'static,
    ) -> Self {
        self.reroute = Some(Arc::new(reroute));
        self
    }

    /// Asks this DNS server where the monitors are, if the configuration does not say, instead of the
    /// system's: tests have one of their own.
    #[doc(hidden)]
    pub fn dns_server(mut self, server: SocketAddr) -> Self {
        self.dns = Some(server);
        self
    }

    /// Takes sockets and random numbers from here: tests simulate them.
    #[doc(hidden)]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Says to peers that we are something else than a client: stock OSDs compress nothing for clients.
    #[doc(hidden)]
    pub fn masquerade(mut self, kind: EntityType) -> Self {
        self.kind = kind;
        self
    }

    /// Shows there what the client waits for, from the first attempt to connect on.
    pub fn waits(mut self, waits: &Waits) -> Self {
        self.waits = waits.clone();
        self
    }

    /// The configuration that would be used.
    pub fn load(&self) -> Result<Conf, ConfError> {
        match &self.conf {
            Some(conf) => Ok(conf.clone().with(&self.options)),
            None => Conf::load(&self.options, self.environment.clone()),
        }
    }

    /// Finds out where the monitors are, in DNS if the configuration does not say (`mon_dns_srv_name`), and makes
    /// all parts of a client, which is not connected yet: who wants to hear of the cluster from the first moment
    /// registers before it is.
    ///
    /// # Errors
    /// What is wrong with the configuration; [`Error::NotInDns`] if nothing says where the monitors are.
    pub async fn prepare(self) -> Result<Joining, Error> {
        let conf = self.load()?;
        let times = Times::of(&conf)?;
        let compression = Compression::of(&conf)?;
        let auth = AuthClient::new(conf.client_config()?);
        let monitors = {
            let _wait = self.waits.enter(Waiter::Client, Reason::Dns);
            discover::monitors(&conf, self.dns).await?
        };
        let hostname = self.environment.host.clone();
        let (monc, hunt) = MonClient::new(Arc::clone(&auth), hostname.clone(), monitors);
        let switch = Arc::new(Switch { monc: Arc::new(monc), registry: Registry::new() });
        let config = Config {
            reroute: self.reroute,
            limits: queue_limits(),
            nonce: self.network.random_u32(),
            network: self.network,
            compression,
            features: features::CLIENT,
            ..Config::new(self.kind)
        };
        let messenger = Messenger::new(config, Arc::new(Dispatch(Arc::downgrade(&switch))));
        let dialer = Arc::new(Dialer::new(Arc::downgrade(&messenger), Arc::clone(&auth)));
        let mgrc = Arc::new(MgrClient::new(Arc::clone(&switch.monc)));
        let parts = Parts {
            conf,
            hostname,
            auth,
            messenger,
            mgrc,
            dialer,
            switch,
            waits: self.waits,
            patience: times.mount,
        };
        let cluster = Cluster::new(Arc::new(parts));
        cluster.register(EntityType::MGR, &[MMgrMap::KIND], cluster.managers())?;
        Ok(Joining { cluster, hunt, times })
    }

    /// Connects: finds a monitor and authenticates, see [`prepare`](Self::prepare) and [`Joining::connect`].
    ///
    /// # Errors
    /// As these.
    pub async fn connect(self) -> Result<Cluster, Error> {
        self.prepare().await?.connect().await
    }
}

/// A client that has all it needs but a monitor.
pub struct Joining {
    cluster: Cluster,
    hunt: Hunt,
    times: Times,
}

impl Joining {
    /// The client, to register with.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Finds a monitor, authenticates, and waits for that. The client's tasks run on the runtime that this is
    /// called on.
    ///
    /// # Errors
    /// [`Error::Auth`] if the monitors refuse us; [`Error::NoMonitor`] if none could be reached within
    /// `client_mount_timeout`.
    pub async fn connect(self) -> Result<Cluster, Error> {
        let Self { cluster, hunt, times } = self;
        let parts = cluster.parts();
        let dialer = || Arc::clone(&parts.dialer);
        let (first, first_session) = oneshot::channel();
        let keeper = Keeper::new(Arc::clone(&parts.mgrc), dialer(), times.mgr_retry);
        let (monc, messenger) = (Arc::clone(cluster.monitors()), Arc::clone(&parts.messenger));
        let hunting = hunt.run(monc, messenger, dialer(), times.hunt, times.mount, first);
        cluster.keep_task(tokio::spawn(keeper.run()).abort_handle());
        cluster.keep_task(tokio::spawn(hunting).abort_handle());
        first_session.await.map_err(|_| Error::Shutdown)??;
        Ok(cluster)
    }
}

impl fmt::Debug for Joining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The times that are configured, with Ceph's defaults.
struct Times {
    mount: Duration,
    hunt: HuntSettings,
    /// Between two attempts to open a session with a manager.
    mgr_retry: Duration,
}

impl Times {
    fn of(conf: &Conf) -> Result<Self, ConfError> {
        Ok(Self {
            mount: conf.duration("client_mount_timeout", Duration::from_secs(300))?,
            hunt: HuntSettings {
                interval: conf.duration("mon_client_hunt_interval", Duration::from_secs(3))?,
            },
            mgr_retry: conf.duration("mgr_connect_retry_interval", Duration::from_secs(1))?,
        })
    }
}

/// A client's out-queues have no bounds of their own: what stands in them is bounded by what the clients of
/// daemons have in flight (`objecter_inflight_ops`, `objecter_inflight_op_bytes`), which each operation waits for
/// before it is sent. What a map has sent again shares its data with the attempt before it.
fn queue_limits() -> Limits {
    Limits { queue_messages_max: usize::MAX, queue_bytes_max: usize::MAX, ..Limits::default() }
}
