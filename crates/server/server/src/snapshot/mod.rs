//! Snapshots of a whole server: the monitor's state and all objects, at one moment.
//!
//! - [`Snapshot`]: such a state, in memory. It shares the objects with the store until they are changed.
//! - [`mod@file`]: the file that `loligo server dump` writes.
//! - [`Snapshots`]: takes snapshots of a running server, and returns it to one.
//! - `admin`: the commands of the admin socket, and `job` the work that they begin.

mod admin;
mod codec;
mod error;
pub(crate) mod file;
mod job;
mod load;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use loligo_mon::state::{NewOsdMap, State};
use loligo_mon::{MonService, Stopped};
use loligo_msgr::Messenger;
use loligo_osd::{Osd, Replaced};
use loligo_store::memory::{Frozen, MemoryStore};
use loligo_store::{Delayed, ObjectStore};
use loligo_wire::UTime;
use tokio::runtime;

pub(crate) use admin::register;
pub use error::SnapshotError;
use job::Jobs;

/// Held to look up or replace the store, or the state that a reset returns to.
static SNAPSHOTS: Class = Class::new("server.snapshots");

/// The state of a server at one moment.
pub(crate) struct Snapshot {
    pub(crate) state: State,
    pub(crate) objects: Frozen,
}

/// The store in memory of a running server, which a reset replaces.
pub(crate) struct Memory {
    current: Mutex<Arc<MemoryStore>>,
    capacity_bytes: u64,
    commit_delay: Option<Duration>,
}

impl Memory {
    /// An empty store, and the same store as the OSD sees it.
    pub(crate) fn new(
        capacity_bytes: u64,
        commit_delay: Option<Duration>,
    ) -> io::Result<(Self, Arc<dyn ObjectStore>)> {
        let store = Arc::new(MemoryStore::new(capacity_bytes));
        let seen = delayed(Arc::clone(&store) as _, commit_delay)?;
        Ok((Self { current: Mutex::new(&SNAPSHOTS, store), capacity_bytes, commit_delay }, seen))
    }

    pub(crate) fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn current(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.current.lock())
    }
}

/// The store as the OSD sees it: with the delay of its commits, if there is one.
pub(crate) fn delayed(
    store: Arc<dyn ObjectStore>,
    commit_delay: Option<Duration>,
) -> io::Result<Arc<dyn ObjectStore>> {
    Ok(match commit_delay {
        Some(delay) => Arc::new(Delayed::new(store, delay)?),
        None => store,
    })
}

/// Takes snapshots of a running server, and returns it to one.
pub(crate) struct Snapshots {
    mon: Arc<MonService>,
    osd: Arc<Osd>,
    /// Those of the OSDs: their clients are disconnected by a reset.
    messengers: Vec<Arc<Messenger>>,
    /// `None` for a server on disk.
    memory: Option<Arc<Memory>>,
    /// The state that a reset returns to.
    first: Mutex<Option<Arc<Snapshot>>>,
    jobs: Jobs,
    runtime: runtime::Handle,
}

impl Snapshots {
    /// Must be called within the server's runtime.
    pub(crate) fn new(
        mon: Arc<MonService>,
        osd: Arc<Osd>,
        messengers: Vec<Arc<Messenger>>,
        memory: Option<Arc<Memory>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            mon,
            osd,
            messengers,
            memory,
            first: Mutex::new(&SNAPSHOTS, None),
            jobs: Jobs::default(),
            runtime: runtime::Handle::current(),
        })
    }

    /// Makes the present state the one that [`reset`](Self::reset) returns to. A server on disk has none.
    pub(crate) async fn mark(&self) -> Result<(), SnapshotError> {
        if self.memory.is_some() {
            let now = Arc::new(self.take().await?);
            *self.first.lock() = Some(now);
        }
        Ok(())
    }

    /// Returns to the state of the last [`mark`](Self::mark).
    pub(crate) async fn reset(&self) -> Result<(), SnapshotError> {
        self.memory()?;
        let first = self.first.lock().clone();
        self.return_to(first.ok_or(SnapshotError::NotReady)?).await
    }

    /// Returns to the state of a file. The administrator keeps the key that clients of this server have.
    pub(crate) async fn restore(&self, path: &Path, done: &AtomicU64) -> Result<(), SnapshotError> {
        let capacity_bytes = self.memory()?.capacity_bytes();
        let mut snapshot = file::read(path, capacity_bytes, done)?;
        let key = self.mon.call(|state, _| state.admin_key().cloned()).await?;
        if let Some(key) = key {
            snapshot.state.set_admin_key(key);
        }
        self.return_to(Arc::new(snapshot)).await
    }

    /// Takes a snapshot. The monitor stands still meanwhile, so that the pools are those of the objects.
    pub(crate) async fn take(&self) -> Result<Snapshot, SnapshotError> {
        let memory = Arc::clone(self.memory()?);
        let take = move |state: &mut State, _: UTime| {
            let store = memory.current();
            Snapshot { state: state.clone(), objects: store.freeze() }
        };
        Ok(self.mon.call(take).await?)
    }

    fn memory(&self) -> Result<&Arc<Memory>, SnapshotError> {
        self.memory.as_ref().ok_or(SnapshotError::OnDisk)
    }

    /// The monitor's task does the replacing, so that no other change of the state comes in between.
    async fn return_to(&self, to: Arc<Snapshot>) -> Result<(), SnapshotError> {
        let (memory, osd) = (Arc::clone(self.memory()?), Arc::clone(&self.osd));
        let replaced = self.mon.call(move |state, now| replace(&memory, &osd, state, now, &to)).await??;
        // Requests that still run use the old objects. Freeing the others takes a moment.
        drop(self.runtime.spawn_blocking(move || drop(replaced)));
        for conn in self.messengers.iter().flat_map(|messenger| messenger.connections()) {
            self.osd.disconnect(&conn);
        }
        Ok(self.mon.disconnect_all().await?)
    }
}

/// Replaces the monitor's state and the OSD's store. After an error nothing has changed.
fn replace(
    memory: &Memory,
    osd: &Osd,
    state: &mut State,
    now: UTime,
    to: &Snapshot,
) -> Result<(Replaced, Arc<MemoryStore>), SnapshotError> {
    let old = memory.current();
    let mut objects = to.objects.clone();
    objects.continue_after(&old, |pg| to.state.osdmap().pools.contains_key(&pg.pool));
    let store = Arc::new(MemoryStore::thawed(memory.capacity_bytes, &objects));
    let seen = delayed(Arc::clone(&store) as _, memory.commit_delay).map_err(SnapshotError::System)?;
    let mut next = state.clone();
    next.replace(now, &to.state).map_err(|failure| SnapshotError::Cluster(failure.status))?;
    let NewOsdMap { map, encoded, filed_by } = NewOsdMap::of(&next);
    let replaced = osd.replace(seen, map, encoded, &filed_by)?;
    *state = next;
    *memory.current.lock() = store;
    Ok((replaced, old))
}

impl From<Stopped> for SnapshotError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}
