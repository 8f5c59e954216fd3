//! The listening sockets.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loligo_msgr::{AdmissionLimits, Budget, Lobby};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection::{self, House};
use crate::device::Registry;
use crate::tls::Acceptor;

/// Maximum number of clients that use devices at a time; lower if the process may open fewer files.
/// Further clients are refused.
const CLIENTS_MAX: usize = 8192;
/// Memory for writes that have begun to arrive, summed over all clients.
const BEGUN_BYTES_MAX: usize = 256 << 20;
/// Pause after a failed accept, which fails for example when no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A gateway that listens. Dropping it stops listening but keeps the connected clients;
/// [`Server::close`] disconnects them.
pub struct Server {
    house: Arc<House>,
    lobby: Arc<Lobby>,
    listening: JoinSet<()>,
    /// Paths of Unix sockets, removed on drop.
    paths: Vec<PathBuf>,
}

impl Server {
    /// Creates a server that does not listen yet. Raises the process's limit of open files as far as the
    /// system allows. With `tls`, a client must start TLS before it learns anything about exports.
    pub fn new(registry: Arc<Registry>, tls: Option<Acceptor>) -> Self {
        loligo_msgr::raise_limit();
        let limits = AdmissionLimits::of_process();
        let house = House {
            registry,
            tls: tls.map(Arc::new),
            places: Arc::new(Semaphore::new(limits.sessions_max.min(CLIENTS_MAX))),
            begun: Budget::new(BEGUN_BYTES_MAX),
        };
        Self {
            house: Arc::new(house),
            lobby: Lobby::new(limits.handshakes_max, limits.handshakes_per_host_max),
            listening: JoinSet::new(),
            paths: Vec::new(),
        }
    }

    /// Listens on an additional address. Returns the bound address, since port 0 selects a free port.
    ///
    /// # Errors
    /// The system's error.
    pub async fn listen(&mut self, addr: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let accepter = self.accepter();
        self.listening.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, from)) => {
                        // An error means that the client has already disconnected.
                        if stream.set_nodelay(true).is_ok() {
                            accepter.admit(stream, from.ip());
                        }
                    }
                    Err(_) => accepter.make_room().await,
                }
            }
        });
        Ok(addr)
    }

    /// Listens on an additional Unix socket, to which only its owner may connect. A stale socket file,
    /// on which no process listens, is replaced.
    ///
    /// # Errors
    /// `AddrInUse` if the path exists and is no stale socket; else the system's error.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        let found = fs::symlink_metadata(path);
        let is_left_over = found.as_ref().is_ok_and(|found| found.file_type().is_socket())
            && std::os::unix::net::UnixStream::connect(path).is_err();
        if found.is_ok() && !is_left_over {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let listener = loligo_admin::listen_private(path)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        self.paths.push(path.to_owned());
        let accepter = self.accepter();
        self.listening.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => accepter.admit(stream, Ipv4Addr::UNSPECIFIED.into()),
                    Err(_) => accepter.make_room().await,
                }
            }
        });
        Ok(())
    }

    /// Disconnects all clients, removes all devices and stops listening.
    pub async fn close(mut self) {
        self.listening.abort_all();
        self.house.registry.close().await;
    }

    fn accepter(&self) -> Accepter {
        Accepter { house: Arc::clone(&self.house), lobby: Arc::clone(&self.lobby) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_file(path);
        }
    }
}

/// Admits clients.
struct Accepter {
    house: Arc<House>,
    lobby: Arc<Lobby>,
}

impl Accepter {
    /// Serves a client in its own task. If too many clients have not chosen a device yet, the lobby
    /// evicts one of them.
    fn admit<S>(&self, stream: S, from: IpAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (house, seat) = (Arc::clone(&self.house), self.lobby.enter(from));
        tokio::spawn(async move {
            // The result is dropped: the reason why a connection ended concerns only its client.
            let _ = connection::serve(stream, &house, seat).await;
        });
    }

    /// Called after a failed accept, most likely for want of file descriptors: evicts a client that has
    /// not chosen a device yet, then pauses.
    async fn make_room(&self) {
        self.lobby.evict();
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
