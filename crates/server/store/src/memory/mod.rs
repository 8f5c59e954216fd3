//! The store in memory: its contents are lost when the process ends, and no operation waits.
//!
//! Each collection has its own lock, which only its placement group takes. Collections share nothing
//! except the capacity: each collection reserves portions of it. A view of an object is a reference to it;
//! reads do not copy data. An object of a few KiB costs about 200 bytes in addition to its name and its
//! data.

mod budget;
mod collection;
mod contents;
mod frozen;
mod gaps;
mod index;
mod near;
mod object;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_lockstat::{Class, RwLock};
use loligo_wire::{Eversion, PgId};

use crate::{Collection, CollectionStats, CommitListener, ObjectStore, StatFs, StoreError};
use budget::Budget;
use collection::MemoryCollection;

pub use frozen::{Frozen, FrozenCollection};

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

    /// Returns the objects of this moment: a transaction is in it, of whatever collection, if one that was
    /// submitted after its end is. Costs a few references for each collection; the first change of a
    /// collection afterwards copies the list of its objects, and the first change of an object that object.
    pub fn freeze(&self) -> Frozen {
        let collections = self.collections.read();
        Frozen(MemoryCollection::freeze(collections.iter().map(|(pg, one)| (*pg, &**one)).collect()))
    }

    /// Creates a store that begins with these objects, which it shares until they are changed. If they use
    /// more than `capacity_bytes`, the store is full.
    pub fn thawed(capacity_bytes: u64, frozen: &Frozen) -> Self {
        let budget = Arc::new(Budget::new(capacity_bytes));
        let thaw =
            |(pg, one): (&PgId, _)| (*pg, Arc::new(MemoryCollection::thawed(Arc::clone(&budget), one)));
        let collections = frozen.0.iter().map(thaw).collect();
        Self { budget, collections: RwLock::new(&COLLECTIONS, collections) }
    }

    /// The version of each collection.
    fn versions(&self) -> Vec<(PgId, Eversion)> {
        let collections: Vec<_> =
            self.collections.read().iter().map(|(pg, one)| (*pg, Arc::clone(one))).collect();
        collections.into_iter().map(|(pg, one)| (pg, one.version())).collect()
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
