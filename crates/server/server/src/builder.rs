//! Configuration of a server.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_mon::state::OsdCount;
use loligo_mon::state::users::Caps;
use loligo_msgr::{AdmissionLimits, Compression, Log, bounded_log, process_log};
use loligo_wire::{EntityName, EntityType};

use crate::daemon::{Daemon, Surroundings};

/// The entry point: [`Server::memory`] or [`Server::disk`].
#[derive(Debug)]
pub struct Server;

impl Server {
    /// A server that keeps objects on disk, in its data directory.
    pub fn disk(data_dir: impl Into<PathBuf>) -> Builder {
        Builder { on_disk: true, ..Self::memory().data_dir(data_dir) }
    }

    /// A server that keeps objects in memory.
    pub fn memory() -> Builder {
        Builder {
            data_dir: None,
            mon_addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            mon_addr_v1: None,
            msgr2: true,
            pools: Vec::new(),
            pg_num: 0,
            auth: Auth::Cephx,
            auth_cipher: None,
            admin_key: None,
            users: Vec::new(),
            writes_conf: true,
            snapshot: None,
            compression: None,
            on_disk: false,
            capacity_bytes: None,
            cache_bytes: None,
            commit_delay: None,
            osds: None,
            threads: None,
            admission: None,
            log: process_log(),
            announce: None,
            public_ip: None,
            ports: None,
            daemons: Vec::new(),
        }
    }
}

/// How clients authenticate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// With cephx keys.
    #[default]
    Cephx,
    /// Without authentication: every client may do everything.
    None,
}

/// Maps the address at which a daemon listens to the address that clients are told.
pub(crate) type Announce = Arc<dyn Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync>;

/// Constructs a daemon.
pub(crate) type MakeDaemon = Arc<dyn Fn(&Surroundings) -> Arc<dyn Daemon> + Send + Sync>;

/// The configuration of a server.
#[derive(Clone)]
pub struct Builder {
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) mon_addr: SocketAddr,
    pub(crate) mon_addr_v1: Option<SocketAddr>,
    pub(crate) msgr2: bool,
    pub(crate) pools: Vec<String>,
    pub(crate) pg_num: u32,
    pub(crate) auth: Auth,
    pub(crate) auth_cipher: Option<KeyType>,
    pub(crate) admin_key: Option<CryptoKey>,
    pub(crate) users: Vec<(EntityName, Caps)>,
    pub(crate) writes_conf: bool,
    pub(crate) snapshot: Option<PathBuf>,
    pub(crate) compression: Option<Compression>,
    pub(crate) on_disk: bool,
    pub(crate) capacity_bytes: Option<u64>,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) commit_delay: Option<Duration>,
    pub(crate) osds: Option<OsdCount>,
    pub(crate) threads: Option<usize>,
    pub(crate) admission: Option<AdmissionLimits>,
    pub(crate) log: Log,
    pub(crate) announce: Option<Announce>,
    pub(crate) public_ip: Option<IpAddr>,
    pub(crate) ports: Option<RangeInclusive<u16>>,
    pub(crate) daemons: Vec<MakeDaemon>,
}

impl Builder {
    /// The data directory, which keeps the cluster's state over restarts. It is created if it does not
    /// exist. By default the server uses a temporary directory and removes it when it stops.
    pub fn data_dir(self, path: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(path.into()), ..self }
    }

    /// Delays the acknowledgement of each change by `delay` after the change is made: simulates a slow
    /// disk in measurements and tests. The delays of concurrent changes overlap.
    pub fn commit_delay(self, delay: Duration) -> Self {
        Self { commit_delay: Some(delay), ..self }
    }

    /// The address of the monitor; the OSDs listen at other ports of the same host. Port 0, the default,
    /// means the port of the data directory's last run if it is free, otherwise any free port. Ceph's
    /// own port is 3300.
    pub fn mon_addr(self, addr: SocketAddr) -> Self {
        Self { mon_addr: addr, ..self }
    }

    /// Serves clients that speak version 1 of the messenger's protocol too, such as kernels by default: the
    /// monitor at this address (Ceph's own port is 6789), the other daemons at any free port of the
    /// monitor's host. Port 0 means the port of the data directory's last run if it is free, otherwise any
    /// free port. By default only msgr2 is served.
    pub fn mon_addr_v1(self, addr: SocketAddr) -> Self {
        Self { mon_addr_v1: Some(addr), ..self }
    }

    /// Whether clients that speak msgr2 are served, as they are by default. If not, only version 1 is served:
    /// the monitor listens at the address for version 1, or at `mon_addr` if there is no such address.
    pub fn msgr2(self, is_served: bool) -> Self {
        Self { msgr2: is_served, ..self }
    }

    /// A pool to create if it does not exist. Can be called several times.
    pub fn pool(mut self, name: impl Into<String>) -> Self {
        self.pools.push(name.into());
        self
    }

    /// The number of placement groups of the pools added by `pool`. By default 128, or the value in the
    /// cluster's configuration.
    pub fn pg_num(self, pg_num: u32) -> Self {
        Self { pg_num, ..self }
    }

    /// How clients authenticate; by default with cephx.
    pub fn auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    /// The type of keys generated from now on, including the key of `client.admin` in a new cluster. By
    /// default the type that the cluster has used, and `aes` in a new cluster: programs of releases
    /// before 19.2.6 can read no other type.
    pub fn auth_cipher(self, cipher: KeyType) -> Self {
        Self { auth_cipher: Some(cipher), ..self }
    }

    /// The key of `client.admin`. By default the one that the cluster has had, and a random one in a new
    /// cluster.
    pub fn admin_key(self, key: CryptoKey) -> Self {
        Self { admin_key: Some(key), ..self }
    }

    /// A user to create if it does not exist, with its capabilities by service, as `ceph auth get-or-create`.
    /// The keyring for clients has its key, beside the administrator's. Can be called several times.
    pub fn user(mut self, name: EntityName, caps: Caps) -> Self {
        self.users.push((name, caps));
        self
    }

    /// Leaves the configuration file for clients to [`Handle::write_conf`](crate::Handle::write_conf); that
    /// of the last run is removed. A program that fills a new server calls it when the server is filled:
    /// until then no other client finds the server.
    pub fn conf_later(self) -> Self {
        Self { writes_conf: false, ..self }
    }

    /// Begins with the state of a file that [`Handle::dump`](crate::Handle::dump) or `loligo server dump` has
    /// written: pools, objects, users and settings. A server on disk needs a new directory for it. One in
    /// memory that was started in its directory before keeps its id and the key of `client.admin`.
    pub fn snapshot(self, path: impl Into<PathBuf>) -> Self {
        Self { snapshot: Some(path.into()), ..self }
    }

    /// Compresses the traffic between clients and the OSDs for clients that ask for it: Loligo clients
    /// do with `ms_osd_compress_mode = force`, stock clients never do. By default compression is not
    /// offered, since clients of releases from 17 on would need one more exchange to connect.
    pub fn compression(self, compression: Compression) -> Self {
        Self { compression: Some(compression), ..self }
    }

    /// The capacity in bytes of objects, beyond which the server is full. By default 8 GiB in memory, but at
    /// most half of what the process may use, or most of the free space on disk; an existing store on disk
    /// keeps the capacity it was created with. Nothing is allocated in advance.
    pub fn capacity_bytes(self, bytes: u64) -> Self {
        Self { capacity_bytes: Some(bytes), ..self }
    }

    /// The size in bytes of the data cache of a store on disk, which holds recently read and written
    /// data. By default [`DiskConfig::CACHE_BYTES`](loligo_store_disk::DiskConfig::CACHE_BYTES). The
    /// memory is allocated as the cache fills.
    pub fn cache_bytes(self, bytes: u64) -> Self {
        Self { cache_bytes: Some(bytes), ..self }
    }

    /// The number of OSDs that clients see. By default as many as in the data directory's last run, and
    /// one in a new cluster; a number lower than the last run's is refused. All OSDs serve the same
    /// store, which keeps every object once: more OSDs make replicated and erasure-coded pools possible,
    /// but no data safer.
    pub fn osds(self, osds: OsdCount) -> Self {
        Self { osds: Some(osds), ..self }
    }

    /// The number of threads that serve connections; by default the number of cores.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads.max(1)), ..self }
    }

    /// Limits for the monitor and the OSDs together: handshakes, sessions, and memory for partly
    /// received messages. The default is derived from the number of files that the process may open; a
    /// start raises that number to the most that the system allows.
    pub fn admission(self, limits: AdmissionLimits) -> Self {
        Self { admission: Some(limits), ..self }
    }

    /// The destination of log lines about failures. A peer that breaks the protocol is an
    /// [error](loligo_msgr::Level::Error), a lost connection is not. The default is the process's log
    /// (`loligo_logring`), or standard error for errors. The rate is limited to bursts of 20 lines of a
    /// level, and 10 more in each second.
    pub fn log(self, log: Log) -> Self {
        Self { log: bounded_log(log), ..self }
    }

    /// Adds a daemon, constructed by `make` when the server starts. It starts to listen after the OSDs
    /// and the manager and before the monitor. Can be called several times.
    pub fn daemon(mut self, make: impl Fn(&Surroundings) -> Arc<dyn Daemon> + Send + Sync + 'static) -> Self {
        self.daemons.push(Arc::new(make));
        self
    }

    /// The IP address that clients are told, if it is not the one that the daemons listen at, as where a
    /// container's ports are forwarded. If they listen at all addresses of the machine (0.0.0.0 or ::), it is
    /// by default the one from which the machine reaches others, or else the loopback address.
    pub fn public_ip(self, ip: IpAddr) -> Self {
        Self { public_ip: Some(ip), ..self }
    }

    /// The ports at which all daemons but the monitor listen. Each takes the port of the data directory's
    /// last run if it is free, otherwise the first free one. By default any free port is taken.
    pub fn ports(self, ports: RangeInclusive<u16>) -> Self {
        Self { ports: Some(ports), ..self }
    }

    /// Announces other addresses to clients than those that the daemons listen at: tests put a proxy in
    /// between.
    #[doc(hidden)]
    pub fn announce(
        self,
        announce: impl Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync + 'static,
    ) -> Self {
        Self { announce: Some(Arc::new(announce)), ..self }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("data_dir", &self.data_dir)
            .field("mon_addr", &self.mon_addr)
            .field("pools", &self.pools)
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}
