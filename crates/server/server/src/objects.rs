//! The object store of a server.

use std::sync::Arc;

use loligo_mon::state::State;
use loligo_store::ObjectStore;
use loligo_store_disk::{DiskConfig, DiskStore};
use tokio::sync::oneshot;

use crate::bound::memory_bytes;
use crate::dir::DataDir;
use crate::snapshot::{Memory, delayed};
use crate::{Builder, StartError};

/// A store on disk, and the notification that it has stopped.
pub(crate) struct Disk {
    pub(crate) store: Arc<DiskStore>,
    stopped: oneshot::Receiver<()>,
}

/// The opened store.
pub(crate) struct Opened {
    /// With the builder's commit delay.
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) kept: Kept,
}

/// Where the objects are.
pub(crate) enum Kept {
    OnDisk(Disk),
    InMemory(Arc<Memory>),
}

impl Kept {
    /// The store on disk, or the one in memory.
    pub(crate) fn split(self) -> (Option<Disk>, Option<Arc<Memory>>) {
        match self {
            Self::OnDisk(disk) => (Some(disk), None),
            Self::InMemory(memory) => (None, Some(memory)),
        }
    }
}

/// Opens the store.
pub(crate) fn open_store(builder: &Builder, dir: &DataDir, state: &State) -> Result<Opened, StartError> {
    if builder.on_disk {
        let disk = open_disk(builder, dir, state)?;
        let store = delayed(Arc::clone(&disk.store) as _, builder.commit_delay)?;
        return Ok(Opened { store, kept: Kept::OnDisk(disk) });
    }
    let capacity_bytes = builder.capacity_bytes.unwrap_or_else(memory_bytes);
    let (memory, store) = Memory::new(capacity_bytes, builder.commit_delay)?;
    Ok(Opened { store, kept: Kept::InMemory(Arc::new(memory)) })
}

fn open_disk(builder: &Builder, dir: &DataDir, state: &State) -> Result<Disk, StartError> {
    let path = dir.store();
    let cache_bytes =
        builder.cache_bytes.map_or(DiskConfig::CACHE_BYTES, |bytes| bytes.try_into().unwrap_or(usize::MAX));
    let (capacity, store) = (builder.capacity_bytes, state.store());
    let config = DiskConfig { capacity, cache_bytes, store, ..DiskConfig::new(state.fsid()) };
    let opened = DiskStore::open(&path, config);
    let store = Arc::new(opened.map_err(|source| StartError::Store { path, source })?);
    let (tell, stopped) = oneshot::channel();
    store.on_stop(move |_| {
        // The receiver may be gone.
        let _ = tell.send(());
    });
    Ok(Disk { store, stopped })
}

/// Returns the reason once the store has stopped. Never returns for a store in memory.
pub(crate) async fn store_stopped(disk: &mut Option<Disk>) -> String {
    match disk {
        Some(Disk { store, stopped }) => {
            let _ = stopped.await;
            store.why_stopped().unwrap_or_default()
        }
        None => std::future::pending().await,
    }
}
