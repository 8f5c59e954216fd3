//! Where the objects are kept.

use std::sync::Arc;

use loligo_mon::state::State;
use loligo_store::memory::MemoryStore;
use loligo_store::{Delayed, ObjectStore};
use loligo_store_disk::{DiskConfig, DiskStore};
use tokio::sync::oneshot;

use crate::dir::DataDir;
use crate::{Builder, StartError};

/// What a store in memory takes, unless it is told.
pub(crate) const MEMORY_BYTES: u64 = 8 << 30;

/// A store on disk, as the cluster looks after it.
pub(crate) struct Disk {
    pub(crate) store: Arc<DiskStore>,
    stopped: oneshot::Receiver<()>,
}

/// Opens the store, with the delay that the builder says.
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
        // Who waits for it may have ended.
        let _ = tell.send(());
    });
    Ok(Disk { store, stopped })
}

/// Ends when the store has stopped, and says why; never, if it is in memory.
pub(crate) async fn store_stopped(disk: &mut Option<Disk>) -> String {
    match disk {
        Some(Disk { store, stopped }) => {
            let _ = stopped.await;
            store.why_stopped().unwrap_or_default()
        }
        None => std::future::pending().await,
    }
}
