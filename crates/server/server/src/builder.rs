//! Settings of a server, and its start.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loligo_cephx::key::KeyType;
use loligo_mon::state::OsdCount;
use loligo_msgr::{AdmissionLimits, Compression, Log, bounded_log, process_log};
use loligo_wire::EntityType;

use crate::daemon::{Daemon, Surroundings};

/// Where to begin: [`Server::memory`] or [`Server::disk`].
#[derive(Debug)]
pub struct Server;

impl Server {
    /// A server that keeps objects on disk, in the directory where it keeps everything else.
    pub fn disk(data_dir: impl Into<PathBuf>) -> Builder {
        Builder { on_disk: true, ..Self::memory().data_dir(data_dir) }
    }

    /// A server that keeps objects in memory.
    pub fn memory() -> Builder {
        Builder {
            data_dir: None,
            mon_addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            pools: Vec::new(),
            pg_num: 0,
            auth: Auth::Cephx,
            auth_cipher: None,
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
            daemons: Vec::new(),
        }
    }
}

/// How clients prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// By keys.
    #[default]
    Cephx,
    /// Not at all: everybody may do everything.
    None,
}

/// Says which address clients are told instead of the one that is listened at.
pub(crate) type Announce = Arc<dyn Fn(EntityType, SocketAddr) -> SocketAddr + Send + Sync>;

/// Makes a daemon.
pub(crate) type MakeDaemon = Arc<dyn Fn(&Surroundings) -> Arc<dyn Daemon> + Send + Sync>;

/// What a server shall be like.
#[derive(Clone)]
pub struct Builder {
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) mon_addr: SocketAddr,
    pub(crate) pools: Vec<String>,
    pub(crate) pg_num: u32,
    pub(crate) auth: Auth,
    pub(crate) auth_cipher: Option<KeyType>,
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
    pub(crate) daemons: Vec<MakeDaemon>,
}

impl Builder {
    /// A directory that keeps what the cluster is over restarts; made if it does not exist. By default the
    /// server uses a temporary one and removes it when it stops.
    pub fn data_dir(self, path: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(path.into()), ..self }
    }

    /// Acknowledges each change this much later than it is made: stands for a slow disk, in measurements and
    /// tests. Changes do not wait for each other.
    pub fn commit_delay(self, delay: Duration) -> Self {
        Self { commit_delay: Some(delay), ..self }
    }

    /// Where the monitor listens; the OSD listens at another port of the same host. Port 0, the default, is
    /// the one of the data directory's last run if it is free, and else any free one. Ceph's own is 3300.
    pub fn mon_addr(self, addr: SocketAddr) -> Self {
        Self { mon_addr: addr, ..self }
    }

    /// A pool to be there. May be said several times.
    pub fn pool(mut self, name: impl Into<String>) -> Self {
        self.pools.push(name.into());
        self
    }

    /// Placement groups of the pools that are said here; by default 128, or what the cluster's configuration
    /// says.
    pub fn pg_num(self, pg_num: u32) -> Self {
        Self { pg_num, ..self }
    }

    /// How clients prove who they are; by default by keys.
    pub fn auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    /// The type of keys that are made from now on, `client.admin`'s in a new cluster included. By default
    /// what the cluster has had, and `aes` in a new one: programs of releases before 19.2.6 can read no
    /// other.
    pub fn auth_cipher(self, cipher: KeyType) -> Self {
        Self { auth_cipher: Some(cipher), ..self }
    }

    /// Compresses what clients and the OSD say to each other, for clients that want it: ours do with
    /// `ms_osd_compress_mode = force`, stock ones never. By default it is not offered, since clients of
    /// releases from 17 on would take one exchange more to connect.
    pub fn compression(self, compression: Compression) -> Self {
        Self { compression: Some(compression), ..self }
    }

    /// How many bytes of objects the server keeps before it is full. By default 8 GiB in memory, or most of
    /// what is free on disk; a store on disk keeps what it was made with. Nothing is taken in advance.
    pub fn capacity_bytes(self, bytes: u64) -> Self {
        Self { capacity_bytes: Some(bytes), ..self }
    }

    /// How many bytes of memory a store on disk keeps data in that was read or written of late; by default
    /// [`DiskConfig::CACHE_BYTES`](loligo_store_disk::DiskConfig::CACHE_BYTES). They are taken as there is
    /// something to keep.
    pub fn cache_bytes(self, bytes: u64) -> Self {
        Self { cache_bytes: Some(bytes), ..self }
    }

    /// How many OSDs clients see. By default as many as the data directory's last run showed, and one in a
    /// new cluster; fewer than the last run's are refused. All are doors to one store, which keeps everything
    /// once: more of them make pools of several copies and erasure-coded pools possible, not safer.
    pub fn osds(self, osds: OsdCount) -> Self {
        Self { osds: Some(osds), ..self }
    }

    /// How many threads serve connections; by default as many as there are cores.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads.max(1)), ..self }
    }

    /// How many handshakes and sessions, and how much memory for messages that have begun, the monitor and
    /// the OSDs have together. By default what fits the number of files that the process may open, which a
    /// start raises to the most that the system allows.
    pub fn admission(self, limits: AdmissionLimits) -> Self {
        Self { admission: Some(limits), ..self }
    }

    /// Where lines about what goes wrong go. Peers that break the protocol are
    /// [errors](loligo_msgr::Level::Error), lost connections are not; the default is the process's log
    /// (`loligo_logring`), or standard error for errors. At most 20 lines of a level come at once, and 10
    /// more in each second.
    pub fn log(self, log: Log) -> Self {
        Self { log: bounded_log(log), ..self }
    }

    /// One more daemon, which `make` makes when the server starts: its door is opened behind those of the
    /// OSDs and the manager, and before the monitor's. May be said several times.
    pub fn daemon(mut self, make: impl Fn(&Surroundings) -> Arc<dyn Daemon> + Send + Sync + 'static) -> Self {
        self.daemons.push(Arc::new(make));
        self
    }

    /// Tells clients other addresses than those that are listened at: tests put something in between.
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
