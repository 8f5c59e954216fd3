//! Listening.

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

/// Clients that use devices at a time, at most; fewer, if the process may not open so many files. More are
/// refused.
const CLIENTS_MAX: usize = 8192;
/// Memory for writes that have begun to arrive, of all clients.
const BEGUN_BYTES_MAX: usize = 256 << 20;
/// A pause after an accept that failed, as it does when there is no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// A gateway that listens. Dropped, it listens no more; clients that it has stay. [`Server::close`] tells
/// them to go.
pub struct Server {
    house: Arc<House>,
    lobby: Arc<Lobby>,
    listening: JoinSet<()>,
    /// Files of sockets, which go with it.
    paths: Vec<PathBuf>,
}

impl Server {
    /// Listens nowhere yet. Lets the process open as many files as the system allows it to. With `tls`,
    /// clients are told nothing without it.
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

    /// Listens at an address too; returns where, since port 0 takes a free one.
    ///
    /// # Errors
    /// What the system says.
    pub async fn listen(&mut self, addr: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let accepter = self.accepter();
        self.listening.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, from)) => {
                        // An error says that the client has gone already.
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

    /// Listens at a Unix socket too, to which only its owner may connect. A socket that nobody listens at any
    /// more is replaced.
    ///
    /// # Errors
    /// What the system says.
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

    /// Tells all clients to go, removes all devices, and ends.
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

/// What takes clients in.
struct Accepter {
    house: Arc<House>,
    lobby: Arc<Lobby>,
}

impl Accepter {
    /// Serves a client in a task of its own. Where too many have not chosen a device yet, one of them goes.
    fn admit<S>(&self, stream: S, from: IpAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (house, seat) = (Arc::clone(&self.house), self.lobby.enter(from));
        tokio::spawn(async move {
            // Why a client's connection has ended is the client's business.
            let _ = connection::serve(stream, &house, seat).await;
        });
    }

    /// An accept has failed, for want of descriptors most likely: a client that has not chosen a device yet
    /// goes.
    async fn make_room(&self) {
        self.lobby.evict();
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}
