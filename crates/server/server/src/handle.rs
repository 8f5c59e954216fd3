//! The handle of a running server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use loligo_admin::Admin;
use loligo_wire::{EntityType, Uuid};
use tokio::runtime::{self, Runtime};
use tokio::sync::{oneshot, watch};

use crate::cluster::{Cluster, Facts};
use crate::daemon::Listening;
use crate::dir::write_conf;
use crate::snapshot::{SnapshotError, Snapshots, file};
use crate::{Builder, StartError};

/// A running server. It stops when the handle is dropped.
#[derive(Debug)]
pub struct Handle {
    facts: Facts,
    snapshots: Weak<Snapshots>,
    startup: Duration,
    stop: Option<oneshot::Sender<()>>,
    ended: watch::Receiver<Option<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Builder {
    /// Starts the server, on threads of its own. When this returns, clients can connect. It takes a few
    /// milliseconds, so it can also be called within a runtime.
    pub fn start(self) -> Result<Handle, StartError> {
        Handle::start(self)
    }
}

impl Handle {
    fn start(builder: Builder) -> Result<Self, StartError> {
        let begun = Instant::now();
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = watch::channel(None);
        let (ready, is_ready) = mpsc::channel();
        // A separate thread, so that a server can be started and stopped within the caller's runtime.
        let thread = thread::Builder::new().name("loligo-server".to_owned()).spawn(move || {
            let started = runtime(builder.threads).map_err(StartError::from).and_then(|runtime| {
                let cluster = runtime.block_on(Cluster::start(builder))?;
                Ok((runtime, cluster))
            });
            match started {
                Err(e) => drop(ready.send(Err(e))),
                Ok((runtime, cluster)) => {
                    let known = (cluster.facts().clone(), Arc::downgrade(cluster.snapshots()));
                    let _ = ready.send(Ok(known));
                    let why = runtime.block_on(cluster.run_until(stopped));
                    let _ = end.send(Some(why));
                }
            }
        })?;
        let gone = || StartError::Runtime(io::Error::other("the server's thread has ended"));
        let (facts, snapshots) = is_ready.recv().map_err(|_| gone())??;
        Ok(Self { facts, snapshots, startup: begun.elapsed(), stop: Some(stop), ended, thread: Some(thread) })
    }

    /// The path of the configuration file for clients: `rados -c CONF …`.
    pub fn conf(&self) -> &Path {
        &self.facts.conf
    }

    /// The text of the configuration file for clients.
    pub fn conf_text(&self) -> &str {
        &self.facts.conf_text
    }

    /// Writes the configuration file for clients, which [`Builder::conf_later`] left out.
    ///
    /// # Errors
    /// Those of the system, with the file's path.
    pub fn write_conf(&self) -> Result<(), StartError> {
        write_conf(self.conf(), self.conf_text())
    }

    /// The path of the keyring with the key of `client.admin`.
    pub fn keyring(&self) -> &Path {
        &self.facts.keyring
    }

    /// The address at which the monitor listens.
    pub fn mon_addr(&self) -> SocketAddr {
        self.facts.mon_addr()
    }

    /// The address at which the first OSD listens.
    pub fn osd_addr(&self) -> SocketAddr {
        self.osd_addrs()[0]
    }

    /// The addresses at which the OSDs listen, in the order of their numbers.
    pub fn osd_addrs(&self) -> Vec<SocketAddr> {
        self.facts.addrs(EntityType::OSD).collect()
    }

    /// All daemons, in the order in which they started to listen: the monitor is the last.
    pub fn daemons(&self) -> &[Listening] {
        &self.facts.daemons
    }

    /// The cluster's id.
    pub fn fsid(&self) -> Uuid {
        self.facts.fsid
    }

    /// The path of the admin socket: `ceph --admin-daemon SOCKET help`.
    pub fn admin_socket(&self) -> &Path {
        &self.facts.admin_socket
    }

    /// The commands and settings of the admin socket; the caller can add its own.
    pub fn admin(&self) -> &Admin {
        &self.facts.admin
    }

    /// How long the start took.
    pub fn startup(&self) -> Duration {
        self.startup
    }

    /// Makes the present state the one that [`reset`](Self::reset) returns to, for a program that fills a new
    /// server. Without this call it is the state after the start. Has no effect on a server on disk.
    pub async fn mark(&self) -> Result<(), SnapshotError> {
        self.snapshots()?.mark().await
    }

    /// Returns to the state that the server had when it was ready, in milliseconds: to its objects, pools,
    /// users and settings. The server keeps its addresses, and the secrets that seal tickets. Epochs, and the
    /// numbers of pools, snapshots and clients, continue.
    ///
    /// All clients are disconnected; they connect again by themselves. An operation that was not answered is
    /// sent again by its client, and executed in the state after the reset. Watches are gone.
    ///
    /// # Errors
    /// The server keeps its objects on disk, or has stopped.
    pub async fn reset(&self) -> Result<(), SnapshotError> {
        self.snapshots()?.reset().await
    }

    /// Writes the whole state of a server in memory to a file, which only its owner may read: it has the
    /// cluster's keys. The state is that of one moment.
    ///
    /// # Errors
    /// The server keeps its objects on disk, or has stopped; the file cannot be written.
    pub async fn dump(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let snapshot = self.snapshots()?.take().await?;
        let path = path.as_ref().to_owned();
        let write = move || file::write(&path, &snapshot, &AtomicU64::new(0));
        blocking(write).await?
    }

    /// Returns to the state of a file that [`dump`](Self::dump) has written, as [`reset`](Self::reset) does.
    /// `client.admin` keeps its key, and the cluster its id.
    ///
    /// # Errors
    /// As for `dump`; the file is damaged, or from a server with another number of OSDs.
    pub async fn restore(&self, path: impl AsRef<Path>) -> Result<(), SnapshotError> {
        let (snapshots, path) = (self.snapshots()?, path.as_ref().to_owned());
        let runtime = runtime::Handle::current();
        let restore = move || runtime.block_on(snapshots.restore(&path, &AtomicU64::new(0)));
        blocking(restore).await?
    }

    fn snapshots(&self) -> Result<Arc<Snapshots>, SnapshotError> {
        self.snapshots.upgrade().ok_or(SnapshotError::Stopped)
    }

    /// Waits until the server has ended by itself, because the store, the OSDs or the monitor have
    /// failed. Returns the reason, as text for people.
    pub async fn failed(&self) -> String {
        let mut ended = self.ended.clone();
        let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
        why.unwrap_or_else(|| "the server's thread has ended".to_owned())
    }

    /// Stops the server, and waits for its end without blocking the runtime.
    pub async fn shutdown(mut self) {
        self.tell();
        // The thread sends the reason just before it ends, so the join in `drop` is short.
        let _ = self.ended.wait_for(Option::is_some).await;
    }

    fn tell(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.tell();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs work that reads or writes files on a thread for it.
async fn blocking<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, SnapshotError> {
    tokio::task::spawn_blocking(work).await.map_err(|e| SnapshotError::System(io::Error::other(e)))
}

fn runtime(threads: Option<usize>) -> io::Result<Runtime> {
    let mut builder = runtime::Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.thread_name("loligo").enable_all().build()
}
