//! Listening.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::connection;
use crate::device::Registry;
use crate::tls::Acceptor;

/// Clients at a time; more wait to be accepted.
const CLIENTS_MAX: usize = 8192;
/// A pause after an accept that failed, as it does when there is no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A gateway that listens. Dropped, it listens no more; clients that it has stay. [`Server::close`] tells them to go.
pub struct Server {
    registry: Arc<Registry>,
    tls: Option<Arc<Acceptor>>,
    places: Arc<Semaphore>,
    listening: JoinSet<()>,
    /// Files of sockets, which go with it.
    paths: Vec<PathBuf>,
}

impl Server {
    /// Listens nowhere yet. With `tls`, clients are told nothing without it.
    pub fn new(registry: Arc<Registry>, tls: Option<Acceptor>) -> Self {
        Self {
            registry,
            tls: tls.map(Arc::new),
            places: Arc::new(Semaphore::new(CLIENTS_MAX)),
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
            while let Ok(place) = accepter.place().await {
                let accepted = listener.accept().await;
                let ready = accepted.and_then(|(stream, _)| stream.set_nodelay(true).map(|()| stream));
                accepter.admit(ready, place).await;
            }
        });
        Ok(addr)
    }

    /// Listens at a Unix socket too. A socket that nobody listens at any more is replaced.
    ///
    /// # Errors
    /// What the system says.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        let is_left_over = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
            && std::os::unix::net::UnixStream::connect(path).is_err();
        if is_left_over {
            fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        self.paths.push(path.to_owned());
        let accepter = self.accepter();
        self.listening.spawn(async move {
            while let Ok(place) = accepter.place().await {
                let accepted = listener.accept().await;
                accepter.admit(accepted.map(|(stream, _)| stream), place).await;
            }
        });
        Ok(())
    }

    /// Tells all clients to go, removes all devices, and ends.
    pub async fn close(mut self) {
        self.listening.abort_all();
        self.registry.close().await;
    }

    fn accepter(&self) -> Accepter {
        Accepter {
            registry: Arc::clone(&self.registry),
            tls: self.tls.clone(),
            places: Arc::clone(&self.places),
        }
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
    registry: Arc<Registry>,
    tls: Option<Arc<Acceptor>>,
    places: Arc<Semaphore>,
}

impl Accepter {
    async fn place(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.places).acquire_owned().await
    }

    /// Serves a client in a task of its own.
    async fn admit<S>(&self, accepted: io::Result<S>, place: OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Ok(stream) = accepted else { return tokio::time::sleep(ACCEPT_PAUSE).await };
        let (registry, tls) = (Arc::clone(&self.registry), self.tls.clone());
        tokio::spawn(async move {
            // Why a client's connection has ended is the client's business.
            let _ = connection::serve(stream, &registry, tls).await;
            drop(place);
        });
    }
}
