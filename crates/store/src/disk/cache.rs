//! The objects of a collection that are in memory: all that a checkpoint has not written down, and some others.

use std::sync::Arc;

use hashbrown::HashTable;

use super::onode::Onode;
use super::rows::Stored;
use crate::{ObjectName, ObjectRef};

/// An object, or the knowledge that there is none.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<ObjectName>,
    pub(super) live: Option<Arc<Onode>>,
    /// What the map has of it.
    pub(super) stored: Option<Arc<Stored>>,
    /// The map says something else.
    pub(super) dirty: bool,
    /// A checkpoint is writing it down.
    pub(super) flushing: bool,
    /// Looked for since the last sweep.
    used: bool,
}

impl Entry {
    pub(super) fn new(name: Arc<ObjectName>, live: Option<Arc<Onode>>, stored: Option<Arc<Stored>>) -> Self {
        Self { name, live, stored, dirty: false, flushing: false, used: true }
    }
}

#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: HashTable<Entry>,
    /// With so many entries the next sweep comes.
    sweep_at: usize,
}

/// All names of a placement group have low bits of their hashes in common, and tables look at all bits.
fn hash(oid: ObjectRef<'_>) -> u64 {
    u64::from(oid.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Cache {
    pub(super) fn get(&mut self, oid: ObjectRef<'_>) -> Option<&mut Entry> {
        let entry = self.entries.find_mut(hash(oid), |entry| entry.name.as_ref().as_ref() == oid)?;
        entry.used = true;
        Some(entry)
    }

    /// Adds what has just been found on disk, unless it is there; makes room if there are more than `limit`.
    pub(super) fn insert(&mut self, entry: Entry, limit: usize) {
        if self.get(entry.name.as_ref().as_ref()).is_some() {
            return;
        }
        if self.entries.len() >= self.sweep_at.max(limit) {
            self.sweep();
        }
        let by_name = |entry: &Entry| hash(entry.name.as_ref().as_ref());
        self.entries.insert_unique(by_name(&entry), entry, by_name);
    }

    /// Forgets what the map has as well and nobody has looked for since the last sweep.
    fn sweep(&mut self) {
        self.entries.retain(|entry| entry.dirty || entry.flushing || std::mem::take(&mut entry.used));
        // What is left may all be dirty: then it makes no sense to look again soon.
        self.sweep_at = self.entries.len() * 2;
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// What the map does not have yet, in no order.
    pub(super) fn unstored(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.dirty || entry.flushing)
    }
}
