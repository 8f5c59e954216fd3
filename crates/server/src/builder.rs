use std::net::SocketAddr;
use std::path::PathBuf;

use crate::StartError;
use crate::handle::Handle;

/// Where to begin: [`Server::memory`].
#[derive(Debug)]
pub struct Server;

impl Server {
    /// A server that keeps objects in memory.
    pub fn memory() -> Builder {
        Builder {
            data_dir: None,
            mon_addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            pools: Vec::new(),
            pg_num: 0,
            auth: Auth::Cephx,
            memory_bytes: 8 << 30,
            threads: None,
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

/// What a server shall be like.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) mon_addr: SocketAddr,
    pub(crate) pools: Vec<String>,
    pub(crate) pg_num: u32,
    pub(crate) auth: Auth,
    pub(crate) memory_bytes: u64,
    pub(crate) threads: Option<usize>,
}

impl Builder {
    /// A directory that keeps what the cluster is over restarts; made if it does not exist. By default the server uses a
    /// temporary one and removes it when it stops.
    pub fn data_dir(self, path: impl Into<PathBuf>) -> Self {
        Self { data_dir: Some(path.into()), ..self }
    }

    /// Where the monitor listens; the OSD listens at any free port of the same host. Port 0, the default, is any free
    /// one. Ceph's own is 3300.
    pub fn mon_addr(self, addr: SocketAddr) -> Self {
        Self { mon_addr: addr, ..self }
    }

    /// A pool to be there. May be said several times.
    pub fn pool(mut self, name: impl Into<String>) -> Self {
        self.pools.push(name.into());
        self
    }

    /// Placement groups of the pools that are said here; by default 128, or what the cluster's configuration says.
    pub fn pg_num(self, pg_num: u32) -> Self {
        Self { pg_num, ..self }
    }

    /// How clients prove who they are; by default by keys.
    pub fn auth(self, auth: Auth) -> Self {
        Self { auth, ..self }
    }

    /// How many bytes of objects the server keeps before it is full; by default 8 GiB. Nothing is taken in advance.
    pub fn memory_bytes(self, bytes: u64) -> Self {
        Self { memory_bytes: bytes, ..self }
    }

    /// How many threads serve connections; by default as many as there are cores.
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads.max(1)), ..self }
    }

    /// Starts the server, in threads of its own. When this returns, clients can connect. Also within a runtime: it takes
    /// some milliseconds.
    pub fn start(self) -> Result<Handle, StartError> {
        Handle::start(self)
    }
}
