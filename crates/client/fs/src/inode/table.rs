//! The inodes that this client knows, by their ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use az::WrappingAs as _;
use loligo_lockstat::{Class, Mutex};
use loligo_wire::message::mds::FilePath;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::id::InodeId;
use super::known::Inode;
use super::names::Names;

/// Held to find, add or remove an inode. Each part of the table has its own lock.
static TABLE: Class = Class::new("fs.table");

/// A power of two.
pub(crate) const PARTS: usize = 64;

/// The table, in parts with a lock each.
pub(crate) struct Table {
    parts: Vec<Mutex<FxHashMap<InodeId, Arc<Inode>>>>,
    /// Whether inodes are to want what only a cache needs.
    has_cache: bool,
    count: AtomicUsize,
    /// The number of names in all directories.
    names: Arc<AtomicUsize>,
    /// Seconds, roughly: tells what was looked for lately.
    clock: AtomicU32,
    /// The number of inodes beyond which somebody is told.
    crowd: usize,
    /// There are more.
    pub(crate) crowded: Notify,
}

impl Table {
    pub(crate) fn new(has_cache: bool, crowd: usize) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::new(&TABLE, FxHashMap::default())).collect();
        let (count, clock, crowded) = (AtomicUsize::new(0), AtomicU32::new(1), Notify::new());
        Self { parts, has_cache, count, names: Arc::default(), clock, crowd, crowded }
    }

    /// Notes that time has passed.
    pub(crate) fn tick(&self) {
        self.clock.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that an inode is used.
    pub(crate) fn touch(&self, inode: &Inode) {
        let now = self.clock.load(Ordering::Relaxed);
        if inode.used() != now {
            inode.used.store(now, Ordering::Relaxed);
        }
    }

    fn part(&self, id: InodeId) -> &Mutex<FxHashMap<InodeId, Arc<Inode>>> {
        // Numbers of files are assigned one after another.
        let at = (id.ino.0 ^ id.snap.0).wrapping_as::<usize>() % PARTS;
        &self.parts[at]
    }

    /// Finds an inode.
    pub(crate) fn get(&self, id: InodeId) -> Option<Arc<Inode>> {
        let found = self.part(id).lock().get(&id).cloned();
        if let Some(inode) = &found {
            self.touch(inode);
        }
        found
    }

    /// Finds an inode, or adds it with the address that requests name it by. One of a snapshot that has
    /// another address since is replaced: the snapshot was renamed, and no request finds the former address.
    pub(crate) fn get_or_add(&self, id: InodeId, address: impl FnOnce() -> FilePath) -> Arc<Inode> {
        match self.get(id) {
            Some(known) if id.is_head() => known,
            Some(known) => self.at_address(known, address()),
            None => self.add(id, address()),
        }
    }

    fn at_address(&self, known: Arc<Inode>, address: FilePath) -> Arc<Inode> {
        if known.address == address { known } else { self.add(known.id, address) }
    }

    /// Adds an inode, unless somebody else has added it with this address meanwhile.
    fn add(&self, id: InodeId, address: FilePath) -> Arc<Inode> {
        let new = Inode::new(id, address, self.has_cache, Names::new(Arc::clone(&self.names)));
        self.touch(&new);
        let (inode, replaced) = {
            let mut part = self.part(id).lock();
            match part.get(&id) {
                Some(known) if id.is_head() || known.address == new.address => return Arc::clone(known),
                _ => {
                    let replaced = part.insert(id, Arc::clone(&new));
                    replaced.iter().for_each(|before| before.set_gone(true));
                    (new, replaced)
                }
            }
        };
        // Dropped without the lock.
        if replaced.is_none() && self.count.fetch_add(1, Ordering::Relaxed) >= self.crowd {
            self.crowded.notify_one();
        }
        inode
    }

    /// Finds an inode without using it: it grows no younger.
    pub(crate) fn peek(&self, id: InodeId) -> Option<Arc<Inode>> {
        self.part(id).lock().get(&id).cloned()
    }

    /// Returns the inodes of one of [`PARTS`] parts.
    pub(crate) fn of_part(&self, part: usize) -> Vec<Arc<Inode>> {
        self.parts[part % PARTS].lock().values().cloned().collect()
    }

    /// Returns the number of names that are known in all directories.
    pub(crate) fn names(&self) -> usize {
        self.names.load(Ordering::Relaxed)
    }

    /// Returns all inodes.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        self.parts.iter().flat_map(|part| part.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Returns the number of inodes.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Removes an inode if nobody but the table and the caller has it.
    pub(crate) fn remove_unused(&self, inode: &Arc<Inode>) -> bool {
        let mut part = self.part(inode.id).lock();
        // Names that were looked up lead to it without the table.
        inode.set_gone(true);
        let is_unused = Arc::strong_count(inode) <= 2;
        let is_here = part.get(&inode.id).is_some_and(|known| Arc::ptr_eq(known, inode));
        if is_unused && is_here && part.remove(&inode.id).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        } else {
            inode.set_gone(!is_here);
        }
        is_unused
    }

    /// Removes all inodes.
    pub(crate) fn clear(&self) {
        for part in &self.parts {
            let inodes = std::mem::take(&mut *part.lock());
            self.count.fetch_sub(inodes.len(), Ordering::Relaxed);
            inodes.values().for_each(|inode| inode.set_gone(true));
            drop(inodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::{Ino, SnapId};

    use super::super::hot::Kept as _;
    use super::*;

    #[test]
    fn an_inode_in_use_stays() {
        let table = Table::new(true, usize::MAX);
        let id = InodeId::head(Ino(7));
        let address = || FilePath { base: Ino(7), path: Vec::new() };
        let inode = table.get_or_add(id, address);
        assert!(Arc::ptr_eq(&inode, &table.get_or_add(id, address)));
        let another = table.get(id).expect("there");
        assert!(!table.remove_unused(&inode) && inode.is_kept());
        drop(another);
        assert!(
            table.remove_unused(&inode) && !inode.is_kept(),
            "a name that leads to it is looked up again"
        );
        assert!(table.get(id).is_none() && table.len() == 0);
    }

    #[test]
    fn a_renamed_snapshot_is_addressed_by_its_new_name() {
        let table = Table::new(true, usize::MAX);
        let id = InodeId { ino: Ino(7), snap: SnapId(3) };
        let address = |path: &str| FilePath { base: Ino(7), path: path.into() };
        let before = table.get_or_add(id, || address("/before"));
        assert!(Arc::ptr_eq(&before, &table.get_or_add(id, || address("/before"))));
        let after = table.get_or_add(id, || address("/after"));
        assert_eq!(after.address_of(b"f").path, b"/after/f");
        assert_eq!(table.len(), 1);
        assert!(table.remove_unused(&before), "who has it keeps it");
        assert!(Arc::ptr_eq(&after, &table.get(id).expect("the other one stays")));
    }
}
