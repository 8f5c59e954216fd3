//! The object store of a server.

use std::sync::Arc;

use loligo_mon::state::State;
use loligo_store::memory::MemoryStore;
use loligo_store::{Delayed, ObjectStore};
use loligo_store_disk::{DiskConfig, DiskStore};
use tokio::sync::oneshot;

use crate::dir::DataDir;
use crate::{Builder, StartError};

/// The default capacity of a store in memory.
pub(crate) const MEMORY_BYTES: u64 = 8 << 30;

/// A store on disk, and the notification that it has stopped.
pub(crate) struct Disk {
    pub(crate) store: Arc<DiskStore>,
    stopped: oneshot::Receiver<()>,
}

/// Opens the store, with the builder's commit delay.
pub(crate) fn open_store(
    builder: &Builder,
    dir: &DataDir,
    state: &State,
) -> Result<(Arc<dyn ObjectStore>, Option<Disk>), StartError> {
    let (store, disk): (Arc<dyn ObjectStore>, _) = match builder.on_disk {
        true => {
            let disk = open_disk(builder, dir, state)?;
            (Arc::clone(&disk.store) as _, Some(disk))
        }
        false => (Arc::new(MemoryStore::new(builder.capacity_bytes.unwrap_or(MEMORY_BYTES))), None),
    };
    Ok(match builder.commit_delay {
        Some(delay) => (Arc::new(Delayed::new(store, delay)?), disk),
        None => (store, disk),
    })
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
