//! The store in memory: its contents are lost when the process ends, and no operation waits.
//!
//! Each collection has its own lock, which only its placement group takes. Collections share nothing
//! except the capacity: each collection reserves portions of it. A view of an object is a reference to it;
//! reads do not copy data. An object of a few KiB costs about 200 bytes in addition to its name and its
//! data.

mod budget;
mod collection;
mod contents;
mod gaps;
mod index;
mod near;
mod object;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_lockstat::{Class, RwLock};
use loligo_wire::PgId;

use crate::{Collection, CollectionStats, CommitListener, ObjectStore, StatFs, StoreError};
use budget::Budget;
use collection::MemoryCollection;

static COLLECTIONS: Class = Class::new("store.collections");

/// An [`ObjectStore`] in memory.
pub struct MemoryStore {
    budget: Arc<Budget>,
    /// Locked only to add, find or list collections; users of a collection hold a reference to it.
    collections: RwLock<BTreeMap<PgId, Arc<MemoryCollection>>>,
}

impl MemoryStore {
    /// Creates an empty store that uses up to `capacity_bytes` of memory for objects, bookkeeping included.
    pub fn new(capacity_bytes: u64) -> Self {
        let collections = RwLock::new(&COLLECTIONS, BTreeMap::new());
        Self { budget: Arc::new(Budget::new(capacity_bytes)), collections }
    }

    fn all(&self) -> Vec<Arc<MemoryCollection>> {
        self.collections.read().values().cloned().collect()
    }
}

impl ObjectStore for MemoryStore {
    fn open(&self, pg: PgId, _: Arc<dyn CommitListener>) -> Result<Arc<dyn Collection>, StoreError> {
        let mut collections = self.collections.write();
        let new = || Arc::new(MemoryCollection::new(self.budget.clone()));
        Ok(collections.entry(pg).or_insert_with(new).clone())
    }

    fn remove(&self, pg: PgId) -> Result<(), StoreError> {
        let removed = self.collections.write().remove(&pg);
        if let Some(collection) = removed {
            collection.clear();
        }
        Ok(())
    }

    fn collections(&self) -> Vec<PgId> {
        self.collections.read().keys().copied().collect()
    }

    fn statfs(&self) -> StatFs {
        let mut stored = CollectionStats::default();
        let mut used = 0;
        for collection in self.all() {
            stored += collection.stats();
            used += collection.footprint();
        }
        let total = self.budget.capacity();
        StatFs { total, available: total.saturating_sub(used), stored }
    }
}
