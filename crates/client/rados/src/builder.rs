//! Connecting: from configuration to a client with a map.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::client::AuthClient;
use loligo_cephx::conf::{Conf, ConfError, Environment, Options};
use loligo_msgr::{Compression, Config, Limits, Messenger, Network, Reroute};
use loligo_wire::{EntityName, EntityType, Epoch, features};
use tokio::sync::oneshot;

use crate::core::{Core, Dispatch, Lifeline};
use crate::dial::Dialer;
use crate::mgrc::{Keeper, MgrClient};
use crate::monc::{HuntSettings, MonClient};
use crate::objecter::{Location, Objecter, Settings};
use crate::trace::{self, Trace};
use crate::waits::{Reason, Waiter, Waits};
use crate::{Error, Rados, discover};

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
    trace: Option<Arc<trace::Sender>>,
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
            trace: None,
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

    /// Has the timeline of each operation written there.
    pub fn trace(mut self, trace: &Trace) -> Self {
        self.trace = Some(trace.sender());
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

    /// Connects: finds a monitor, in DNS if the configuration names none (`mon_dns_srv_name`), authenticates,
    /// and waits for the first map. The client's tasks run on the runtime that this is called on.
    ///
    /// # Errors
    /// What is wrong with the configuration; [`Error::NotInDns`] if nothing says where the monitors are;
    /// [`Error::Auth`] if the monitors refuse us; [`Error::NoMonitor`] if none could be reached within
    /// `client_mount_timeout`.
    pub async fn connect(self) -> Result<Rados, Error> {
        let conf = self.load()?;
        let times = Times::of(&conf)?;
        let compression = Compression::of(&conf)?;
        let client = AuthClient::new(conf.client_config()?);
        let monitors = {
            let _wait = self.waits.enter(Waiter::Client, Reason::Dns);
            discover::monitors(&conf, self.dns).await?
        };
        let hostname = self.environment.host.clone();
        let location = Location::parse(conf.text("crush_location").as_deref(), &hostname);

        let (monc, hunt) = MonClient::new(Arc::clone(&client), hostname, monitors);
        let monc = Arc::new(monc);
        let mgrc = Arc::new(MgrClient::new(Arc::clone(&monc)));
        let nonce = self.network.random_u32();
        let mut parts = None;
        let core = Arc::new_cyclic(|core| {
            let dispatch = Arc::new(Dispatch(core.clone()));
            let limits = queue_limits();
            let config = Config {
                reroute: self.reroute.clone(),
                limits,
                nonce,
                network: self.network.clone(),
                compression: compression.clone(),
                features: features::CLIENT,
                ..Config::new(self.kind)
            };
            let messenger = Messenger::new(config, dispatch);
            let weak = Arc::downgrade(&messenger);
            let dialer = Arc::new(Dialer::new(weak, Arc::clone(&client)));
            let (objecter, steward) = Objecter::new(
                times.objecter,
                nonce,
                location,
                Arc::clone(&monc),
                Arc::clone(&dialer),
                self.trace.clone(),
                self.waits.clone(),
            );
            parts = Some((dialer, steward));
            Core {
                auth: Arc::clone(&client),
                messenger,
                monc: Arc::clone(&monc),
                mgrc: Arc::clone(&mgrc),
                objecter,
                waits: self.waits.clone(),
            }
        });
        self.waits.look_at(Arc::downgrade(&core));
        let (dialer, steward) = parts.expect("made with the core");

        monc.follow("osdmap", 0);
        let (first, first_session) = oneshot::channel();
        let keeper = Keeper::new(mgrc, Arc::clone(&dialer), times.mgr_retry);
        let hunting =
            hunt.run(Arc::clone(&monc), Arc::clone(&core.messenger), dialer, times.hunt, times.mount, first);
        let tasks = vec![
            tokio::spawn(steward.run()).abort_handle(),
            tokio::spawn(keeper.run()).abort_handle(),
            tokio::spawn(hunting).abort_handle(),
        ];
        let lifeline = Lifeline { core: Arc::clone(&core), tasks };
        first_session.await.map_err(|_| Error::Shutdown)??;
        let map = core.objecter.wait_for_epoch(Epoch(1));
        tokio::time::timeout(times.mount, map).await.map_err(|_| Error::Timeout(times.mount))?;
        // The monitors' settings count from here on: before the first session the client cannot know them.
        let told = Times::of(&conf.with_monitors(core.monc.config()))?;
        core.objecter.set_op_timeout(told.objecter.op_timeout);
        Ok(Rados::new(lifeline, told.mon_op))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The times and bounds that are configured, with Ceph's defaults.
struct Times {
    mount: Duration,
    /// `None`: for ever.
    mon_op: Option<Duration>,
    hunt: HuntSettings,
    /// Between two attempts to open a session with a manager.
    mgr_retry: Duration,
    objecter: Settings,
}

impl Times {
    fn of(conf: &Conf) -> Result<Self, ConfError> {
        let unless_zero =
            |option| conf.duration(option, Duration::ZERO).map(|limit| (!limit.is_zero()).then_some(limit));
        Ok(Self {
            mount: conf.duration("client_mount_timeout", Duration::from_secs(300))?,
            mon_op: unless_zero("rados_mon_op_timeout")?,
            hunt: HuntSettings {
                interval: conf.duration("mon_client_hunt_interval", Duration::from_secs(3))?,
            },
            mgr_retry: conf.duration("mgr_connect_retry_interval", Duration::from_secs(1))?,
            objecter: Settings {
                ops_max: conf.u64("objecter_inflight_ops", 1024)?,
                bytes_max: conf.size("objecter_inflight_op_bytes", 100 << 20)?,
                op_timeout: unless_zero("rados_osd_op_timeout")?,
            },
        })
    }
}

/// A client's out-queues have no bounds of their own: what stands in them is bounded by what may be in flight
/// (`objecter_inflight_ops`, `objecter_inflight_op_bytes`), which each operation waits for before it is sent.
/// What a map has sent again shares its data with the attempt before it.
pub(crate) fn queue_limits() -> Limits {
    Limits { queue_messages_max: usize::MAX, queue_bytes_max: usize::MAX, ..Limits::default() }
}
