//! The objects of a collection that are in memory: all that a checkpoint has not written down, and some
//! others.

use std::sync::Arc;

use hashbrown::HashTable;
use loligo_store::{ObjectName, ObjectRef};

use super::onode::Onode;
use super::rows::Stored;

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

    /// What the omap's rows in the map take of the capacity, as far as the object that there is now has them.
    pub(super) fn omap_bytes(&self) -> u64 {
        let number = self.live.as_ref().map(|live| live.number);
        let stored = self.stored.as_deref().filter(|stored| Some(stored.number) == number);
        stored.and_then(|stored| stored.omap_bytes).unwrap_or(0)
    }

    /// What a clone of it takes of the map, at most, beside its name.
    pub(super) fn clone_bytes_max(&self) -> u64 {
        let Some(live) = &self.live else { return 0 };
        let xattrs: usize = live.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        live.omap.map_bytes_max(self.omap_bytes()) + (xattrs + live.omap_header.len()) as u64
    }
}

#[derive(Debug)]
pub(super) struct Cache {
    entries: HashTable<Entry>,
    /// Entries that are kept though the map has them as well.
    clean_max: usize,
    /// With so many entries the next sweep comes.
    sweep_at: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self { entries: HashTable::new(), clean_max: CLEAN_MAX, sweep_at: 0 }
    }
}

/// Of one collection, before a checkpoint has said how many it may be.
const CLEAN_MAX: usize = 512;

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

    /// Adds what has just been found on disk, unless it is there; makes room if there are too many.
    pub(super) fn insert(&mut self, entry: Entry) {
        if self.get(entry.name.as_ref().as_ref()).is_some() {
            return;
        }
        if self.entries.len() >= self.sweep_at.max(self.clean_max) {
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

    /// After a checkpoint: what it has written down may be forgotten. Keeps up to `clean_max` of what the map
    /// has, rather what was looked for since the last sweep; gives the rest, to be freed without the lock.
    pub(super) fn shrink(&mut self, clean_max: usize) -> Vec<Entry> {
        self.clean_max = clean_max;
        let clean = self.entries.iter().filter(|entry| !entry.dirty && !entry.flushing).count();
        let mut too_many = clean.saturating_sub(clean_max);
        let mut gone = Vec::with_capacity(too_many);
        // The second time what is in use as well.
        for _ in 0..2 {
            if too_many == 0 {
                break;
            }
            let mut goes = |entry: &mut Entry| {
                let goes =
                    too_many > 0 && !entry.dirty && !entry.flushing && !std::mem::take(&mut entry.used);
                too_many -= usize::from(goes);
                goes
            };
            gone.extend(self.entries.extract_if(&mut goes));
        }
        self.sweep_at = self.entries.len() * 2;
        if self.entries.capacity() > 4 * self.sweep_at.max(clean_max) {
            self.entries.shrink_to(self.sweep_at, |entry| hash(entry.name.as_ref().as_ref()));
        }
        gone
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut()
    }

    /// What the map does not have yet, in no order.
    pub(super) fn unstored(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.dirty || entry.flushing)
    }
}
