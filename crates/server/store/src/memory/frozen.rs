//! The objects of a store at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_wire::{Eversion, PgId};

use super::MemoryStore;
use super::index::Index;
use super::object::{Object, Weight};
use crate::{CollectionStats, Info, ObjectRef, ObjectView};

/// The objects of a [`MemoryStore`] at one moment, shared with it until one of the two
/// changes. A clone costs a few references for each collection.
#[derive(Clone, Debug, Default)]
pub struct Frozen(pub(super) BTreeMap<PgId, FrozenCollection>);

/// The objects of one collection at one moment.
#[derive(Clone, Debug, Default)]
pub struct FrozenCollection {
    pub(super) index: Arc<Index>,
    pub(super) weight: Weight,
    pub(super) version: Eversion,
}

impl Frozen {
    /// The collections, in order.
    pub fn collections(&self) -> impl Iterator<Item = (PgId, &FrozenCollection)> {
        self.0.iter().map(|(pg, one)| (*pg, one))
    }

    /// How much there is in all.
    pub fn stats(&self) -> CollectionStats {
        let mut sum = CollectionStats::default();
        self.0.values().for_each(|one| sum += one.stats());
        sum
    }

    /// Raises the versions to those of a store, so that transactions continue from the newer of the two. A
    /// collection that only the store has becomes an empty one, if `is_kept` approves of it.
    pub fn continue_after(&mut self, store: &MemoryStore, is_kept: impl Fn(PgId) -> bool) {
        for (pg, later) in store.versions().into_iter().filter(|(pg, _)| is_kept(*pg)) {
            let version = &mut self.0.entry(pg).or_default().version;
            version.epoch = version.epoch.max(later.epoch);
            version.version = version.version.max(later.version);
        }
    }
}

impl FrozenCollection {
    /// The version of the newest transaction.
    pub fn version(&self) -> Eversion {
        self.version
    }

    /// How much the collection holds.
    pub fn stats(&self) -> CollectionStats {
        self.weight.stats()
    }

    /// The objects, in order: name, metadata and contents.
    pub fn objects(&self) -> impl Iterator<Item = (ObjectRef<'_>, Info, &dyn ObjectView)> {
        self.index.iter().map(|object: &Arc<Object>| (object.name.as_ref(), object.info, &**object as _))
    }
}
