//! The objects of a collection that are in memory: all that no checkpoint has written yet, and some
//! others.

use std::sync::Arc;

use hashbrown::HashTable;
use loligo_store::{ObjectName, ObjectRef};

use super::onode::Onode;
use super::rows::Stored;

/// An object, or the knowledge that it does not exist.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Arc<ObjectName>,
    pub(super) live: Option<Arc<Onode>>,
    /// Its state in the map.
    pub(super) stored: Option<Arc<Stored>>,
    /// Whether it differs from the map.
    pub(super) dirty: bool,
    /// Whether a checkpoint is writing it.
    pub(super) flushing: bool,
    /// Whether it was looked up since the last sweep.
    used: bool,
}

impl Entry {
    pub(super) fn new(name: Arc<ObjectName>, live: Option<Arc<Onode>>, stored: Option<Arc<Stored>>) -> Self {
        Self { name, live, stored, dirty: false, flushing: false, used: true }
    }

    /// The capacity that the omap's rows in the map take, if they belong to the current object of this name.
    pub(super) fn omap_bytes(&self) -> u64 {
        let number = self.live.as_ref().map(|live| live.number);
        let stored = self.stored.as_deref().filter(|stored| Some(stored.number) == number);
        stored.and_then(|stored| stored.omap_bytes).unwrap_or(0)
    }

    /// The most that a clone of it takes of the map, besides its name.
    pub(super) fn clone_bytes_max(&self) -> u64 {
        let Some(live) = &self.live else { return 0 };
        let xattrs: usize = live.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        live.omap.map_bytes_max(self.omap_bytes()) + (xattrs + live.omap_header.len()) as u64
    }
}

#[derive(Debug)]
pub(super) struct Cache {
    entries: HashTable<Entry>,
    /// The number of entries that are kept though the map has them as well.
    clean_max: usize,
    /// The number of entries that triggers the next sweep.
    sweep_at: usize,
}

impl Default for Cache {
    fn default() -> Self {
        Self { entries: HashTable::new(), clean_max: CLEAN_MAX, sweep_at: 0 }
    }
}

/// The limit for one collection before the first checkpoint sets it.
const CLEAN_MAX: usize = 512;

/// The names of a placement group share the low bits of their hashes. The multiplication spreads the other
/// bits, because the table uses all bits of a hash.
fn hash(oid: ObjectRef<'_>) -> u64 {
    u64::from(oid.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Cache {
    pub(super) fn get(&mut self, oid: ObjectRef<'_>) -> Option<&mut Entry> {
        let entry = self.entries.find_mut(hash(oid), |entry| entry.name.as_ref().as_ref() == oid)?;
        entry.used = true;
        Some(entry)
    }

    /// Adds an entry just read from disk, unless one exists; makes room if there are too many.
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

    /// Removes the entries that are also in the map and were not looked up since the last sweep.
    fn sweep(&mut self) {
        self.entries.retain(|entry| entry.dirty || entry.flushing || std::mem::take(&mut entry.used));
        // The remaining entries may all be dirty: another sweep soon would be pointless.
        self.sweep_at = self.entries.len() * 2;
    }

    /// Called after a checkpoint: the entries it wrote may be removed. Keeps up to `clean_max` of the entries
    /// that are also in the map, preferably those looked up since the last sweep. Returns the rest, to be
    /// freed without the lock.
    pub(super) fn shrink(&mut self, clean_max: usize) -> Vec<Entry> {
        self.clean_max = clean_max;
        let clean = self.entries.iter().filter(|entry| !entry.dirty && !entry.flushing).count();
        let mut too_many = clean.saturating_sub(clean_max);
        let mut gone = Vec::with_capacity(too_many);
        // The second pass also removes entries that were looked up.
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

    /// Returns the entries that the map does not have yet, in no order.
    pub(super) fn unstored(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.dirty || entry.flushing)
    }
}
