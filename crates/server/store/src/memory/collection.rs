//! One placement group's objects in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};
use loligo_wire::{Eversion, PgId};

use super::budget::{Budget, Share};
use super::frozen::FrozenCollection;
use super::index::Index;
use super::object::{Object, Trash, Weight};
use crate::{
    Change, Collection, CollectionStats, Commit, Fetch, Info, NameTooLong, OBJECT_BYTES_MAX, ObjectChanges,
    ObjectName, ObjectRef, ObjectView, OpRecord, StoreError, Transaction,
};

/// Normally uncontended: one thread at a time serves a placement group, and only statistics are read
/// concurrently. `MemoryStore::freeze` holds those of all collections for a moment.
static COLLECTION: Class = Class::new("store.collection").nested_by_address();

pub(super) struct MemoryCollection {
    budget: Arc<Budget>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Shared with [`FrozenCollection`]s, hence copied by the first change after one was made.
    index: Arc<Index>,
    /// The sum over all objects.
    weight: Weight,
    share: Share,
    version: Eversion,
}

impl MemoryCollection {
    pub(super) fn new(budget: Arc<Budget>) -> Self {
        Self { budget, inner: Mutex::new(&COLLECTION, Inner::default()) }
    }

    /// A collection with these objects.
    pub(super) fn thawed(budget: Arc<Budget>, frozen: &FrozenCollection) -> Self {
        let FrozenCollection { index, weight, version } = frozen.clone();
        let mut share = Share::default();
        budget.settle(&mut share, weight.footprint);
        Self { budget, inner: Mutex::new(&COLLECTION, Inner { index, weight, share, version }) }
    }

    /// Locks collections together, so that what is frozen of them belongs to one moment.
    pub(super) fn freeze(mut all: Vec<(PgId, &Self)>) -> BTreeMap<PgId, FrozenCollection> {
        all.sort_unstable_by_key(|(_, collection)| std::ptr::from_ref(&collection.inner).addr());
        let locked: Vec<_> = all.into_iter().map(|(pg, collection)| (pg, collection.inner.lock())).collect();
        locked.iter().map(|(pg, inner)| (*pg, inner.freeze())).collect()
    }

    /// Removes all objects.
    pub(super) fn clear(&self) {
        let mut old = std::mem::take(&mut *self.inner.lock());
        self.budget.close(&mut old.share);
    }

    /// The memory used, in bytes.
    pub(super) fn footprint(&self) -> u64 {
        self.inner.lock().weight.footprint
    }
}

impl Collection for MemoryCollection {
    fn object(&self, oid: ObjectRef<'_>) -> Fetch<Option<Arc<dyn ObjectView>>> {
        let found = self.inner.lock().index.get(oid).cloned();
        Fetch::Now(found.map(|object| object as Arc<dyn ObjectView>))
    }

    fn submit(&self, txn: Transaction<'_>) -> Result<Commit, StoreError> {
        let mut trash = Vec::new();
        let mut inner = self.inner.lock();
        let needed = inner.cost_max(&txn)?;
        self.budget.reserve(&mut inner.share, needed)?;
        inner.version = txn.version;
        for object in txn.objects {
            inner.change(object, &mut trash)?;
        }
        let used = inner.weight.footprint;
        self.budget.settle(&mut inner.share, used);
        drop(inner);
        Ok(Commit::Done)
    }

    fn list(&self, from: ObjectRef<'_>, max: usize) -> Fetch<Vec<ObjectName>> {
        let inner = self.inner.lock();
        Fetch::Now(inner.index.range(from).take(max).map(|object| object.name.clone()).collect())
    }

    fn stats(&self) -> CollectionStats {
        self.inner.lock().weight.stats()
    }

    fn version(&self) -> Eversion {
        self.inner.lock().version
    }

    fn records(&self) -> Vec<OpRecord> {
        Vec::new()
    }
}

impl Inner {
    fn freeze(&self) -> FrozenCollection {
        FrozenCollection { index: Arc::clone(&self.index), weight: self.weight, version: self.version }
    }

    /// Returns the most that a transaction adds to the footprint. Rejects a transaction that cannot be
    /// applied: no later step fails.
    fn cost_max(&self, txn: &Transaction<'_>) -> Result<u64, StoreError> {
        let mut cost = 0;
        for ObjectChanges { oid, changes, .. } in &txn.objects {
            let removes_only = matches!(changes.as_slice(), [Change::Remove]);
            if removes_only {
                continue;
            }
            ObjectName::fits(oid)?;
            cost += Object::cost_max(oid);
            let mut size = self.index.get(*oid).map_or(0, |o| o.size());
            for change in changes {
                let reach = self.reach_of(change)?;
                cost += Object::change_cost_max(size, change);
                size = size.max(reach);
                if let Change::CloneFrom { source } = change {
                    cost += self.index.get(*source).map_or(0, |o| o.weight().footprint);
                }
            }
        }
        Ok(cost)
    }

    /// Returns the offset of the end of a change, which the object's size may reach.
    fn reach_of(&self, change: &Change<'_>) -> Result<u64, StoreError> {
        let size = match change {
            Change::Write { offset, data } => offset.saturating_add(data.len() as u64),
            Change::WriteFull { data } => data.len() as u64,
            Change::Truncate { size } => *size,
            Change::CloneFrom { source } => self.index.get(*source).map_or(0, |o| o.size()),
            _ => 0,
        };
        if size > OBJECT_BYTES_MAX { Err(StoreError::TooLarge { size }) } else { Ok(size) }
    }

    fn change(&mut self, object: ObjectChanges<'_>, trash: &mut Vec<Trash>) -> Result<(), NameTooLong> {
        let ObjectChanges { oid, info, changes } = object;
        let mut changes = changes.into_iter().peekable();
        while let Some(next) = changes.next() {
            match next {
                Change::Remove => self.remove(oid, trash),
                Change::CloneFrom { source } => {
                    if let Some(source) = self.index.get(source).cloned() {
                        self.with_object(oid, info, |object| object.clone_from(&source))?;
                    }
                }
                first => self.with_object(oid, info, |object| {
                    object.apply(first, trash);
                    while let Some(change) = changes.next_if(Change::concerns_object) {
                        object.apply(change, trash);
                    }
                })?,
            }
        }
        Ok(())
    }

    /// Changes an object, or creates it.
    fn with_object(
        &mut self,
        oid: ObjectRef<'_>,
        info: Info,
        change: impl FnOnce(&mut Object),
    ) -> Result<(), NameTooLong> {
        match Arc::make_mut(&mut self.index).get_mut(oid) {
            Some(shared) => {
                let object = Arc::make_mut(shared);
                let before = object.weight();
                change(object);
                object.info = info;
                self.weight.replace(before, object.weight());
            }
            None => {
                let mut object = Object::new(ObjectName::new(oid)?);
                change(&mut object);
                object.info = info;
                self.weight.replace(Weight::default(), object.weight());
                Arc::make_mut(&mut self.index).insert(Arc::new(object));
            }
        }
        Ok(())
    }

    fn remove(&mut self, oid: ObjectRef<'_>, trash: &mut Vec<Trash>) {
        if let Some(object) = Arc::make_mut(&mut self.index).remove(oid) {
            self.weight.replace(object.weight(), Weight::default());
            trash.push(Trash::Object(object));
        }
    }
}
