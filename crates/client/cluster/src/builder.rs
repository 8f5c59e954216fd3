//! Joining a cluster: from the configuration to a session with a monitor.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::client::AuthClient;
use loligo_conf::{Conf, ConfError, Environment, Options};
use loligo_msgr::{Config, Limits, Messenger, Network, Reroute};
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

/// Selects the cluster and the name to authenticate as.
///
/// The defaults are those of Ceph's programs: `CEPH_CONF`, `CEPH_ARGS`, `CEPH_KEYRING`, the usual paths
/// of ceph.conf and keyrings, and the name `client.admin`.
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
    /// Creates a builder from this process's environment.
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

    /// Removes the command-line options that all Ceph programs share from `args` and applies them: `-c`,
    /// `-n`, `--keyring` and any configuration option.
    pub fn args(self, args: &mut Vec<String>) -> Result<Self, ConfError> {
        self.args_beside(args, |_| false)
    }

    /// Like `args`, but leaves the options for which `own` returns `true`: the program's own options.
    pub fn args_beside(
        mut self,
        args: &mut Vec<String>,
        own: impl Fn(&str) -> bool,
    ) -> Result<Self, ConfError> {
        self.options.take(args, own)?;
        Ok(self)
    }

    /// Applies the shared options found in `CEPH_ARGS` and returns the remaining words. A program parses
    /// those together with its command line, as stock programs do. `own` returns `true` for the
    /// program's own options. Call it before [`args`](Self::args).
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

    /// Sets a configuration option. It overrides every file.
    pub fn set(mut self, option: &str, value: &str) -> Self {
        self.options.set(option, value);
        self
    }

    /// Uses this configuration together with the options [`set`](Self::set) here, and reads nothing else.
    pub fn conf(mut self, conf: Conf) -> Self {
        self.conf = Some(conf);
        self
    }

    /// Connects to other addresses than those in the cluster's maps. For tests that put a proxy in between.
    #[doc(hidden)]
    pub fn reroute(
        mut self,
        reroute: impl Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync + 'static,
    ) -> Self {
        self.reroute = Some(Arc::new(reroute));
        self
    }

    /// Queries this DNS server instead of the system's if the configuration does not name the monitors.
    /// For tests.
    #[doc(hidden)]
    pub fn dns_server(mut self, server: SocketAddr) -> Self {
        self.dns = Some(server);
        self
    }

    /// Uses this source of sockets and random numbers. For tests that simulate them.
    #[doc(hidden)]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Presents this client to its peers as another entity type. Stock OSDs do not compress for clients.
    #[doc(hidden)]
    pub fn masquerade(mut self, kind: EntityType) -> Self {
        self.kind = kind;
        self
    }

    /// Registers the client's waits with `waits`, from the first attempt to connect on.
    pub fn waits(mut self, waits: &Waits) -> Self {
        self.waits = waits.clone();
        self
    }

    /// Returns the configuration that `prepare` would use.
    pub fn load(&self) -> Result<Conf, ConfError> {
        match &self.conf {
            Some(conf) => Ok(conf.clone().with(&self.options)),
            None => Conf::load(&self.options, self.environment.clone()),
        }
    }

    /// Finds the monitors, through DNS if the configuration does not name them (`mon_dns_srv_name`), and
    /// creates all parts of a client that is not yet connected. A client of a daemon that must see every
    /// event registers before `Joining::connect`.
    ///
    /// # Errors
    /// A configuration error, or [`Error::NotInDns`] if neither the configuration nor DNS names the monitors.
    pub async fn prepare(self) -> Result<Joining, Error> {
        let conf = self.load()?;
        let times = Times::of(&conf)?;
        let compression = conf.compression()?;
        let auth = AuthClient::new(conf.client_config()?);
        let monitors = {
            let _wait = self.waits.enter(Waiter::Client, Reason::Dns);
            discover::monitors(&conf, self.dns).await?
        };
        let hostname = self.environment.host.clone();
        let (monc, hunt) = MonClient::new(Arc::clone(&auth), hostname, monitors);
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
        let parts =
            Parts { conf, auth, messenger, mgrc, dialer, switch, waits: self.waits, patience: times.mount };
        let cluster = Cluster::new(Arc::new(parts));
        cluster.register(EntityType::MGR, &[MMgrMap::KIND], cluster.managers())?;
        Ok(Joining { cluster, hunt, times })
    }

    /// Finds a monitor and authenticates: [`prepare`](Self::prepare), then [`Joining::connect`].
    ///
    /// # Errors
    /// Those of both calls.
    pub async fn connect(self) -> Result<Cluster, Error> {
        self.prepare().await?.connect().await
    }
}

/// A complete client without a session with a monitor.
pub struct Joining {
    cluster: Cluster,
    hunt: Hunt,
    times: Times,
}

impl Joining {
    /// Returns the client, for registration.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Finds a monitor, authenticates, and returns once the session is open. The client's tasks run on
    /// the calling runtime.
    ///
    /// # Errors
    /// [`Error::Auth`] if the monitors refuse the client; [`Error::NoMonitor`] if no monitor was reached
    /// within `client_mount_timeout`.
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

/// The configured times, with Ceph's defaults.
struct Times {
    mount: Duration,
    hunt: HuntSettings,
    /// Minimum time between two attempts to open a session with a manager.
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

/// Returns queue limits without a bound. What the daemons' clients have in flight bounds the out-queues
/// (`objecter_inflight_ops`, `objecter_inflight_op_bytes`): each operation acquires that budget before
/// it is sent. An operation resent because of a new map shares its data with the previous attempt.
fn queue_limits() -> Limits {
    Limits { queue_messages_max: usize::MAX, queue_bytes_max: usize::MAX, ..Limits::default() }
}
