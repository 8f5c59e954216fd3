//! The inodes that this client knows, by their ids.

use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};
use loligo_wire::message::mds::FilePath;
use rustc_hash::FxHashMap;

use super::known::{Inode, InodeId};

/// Held to find, add or remove an inode. Each part of the table has its own lock.
static TABLE: Class = Class::new("fs.table");

/// A power of two.
const PARTS: usize = 64;

/// The table, in parts with a lock each.
pub(crate) struct Table {
    parts: Vec<Mutex<FxHashMap<InodeId, Arc<Inode>>>>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| Mutex::new(&TABLE, FxHashMap::default())).collect() }
    }

    fn part(&self, id: InodeId) -> &Mutex<FxHashMap<InodeId, Arc<Inode>>> {
        // Numbers of files are assigned one after another.
        let at = (id.ino.0 ^ id.snap.0) as usize % PARTS;
        &self.parts[at]
    }

    /// Finds an inode.
    pub(crate) fn get(&self, id: InodeId) -> Option<Arc<Inode>> {
        self.part(id).lock().get(&id).cloned()
    }

    /// Finds an inode, or adds it with the address that requests name it by.
    pub(crate) fn get_or_add(&self, id: InodeId, address: impl FnOnce() -> FilePath) -> Arc<Inode> {
        if let Some(known) = self.get(id) {
            return known;
        }
        let new = Inode::new(id, address());
        Arc::clone(self.part(id).lock().entry(id).or_insert(new))
    }

    /// Returns all inodes.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        self.parts.iter().flat_map(|part| part.lock().values().cloned().collect::<Vec<_>>()).collect()
    }

    /// Returns the number of inodes.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().len()).sum()
    }

    /// Removes an inode if nobody but the table and the caller has it.
    pub(crate) fn remove_unused(&self, inode: &Arc<Inode>) -> bool {
        let mut part = self.part(inode.id).lock();
        let is_unused = Arc::strong_count(inode) <= 2;
        if is_unused {
            part.remove(&inode.id);
        }
        is_unused
    }

    /// Removes all inodes.
    pub(crate) fn clear(&self) {
        for part in &self.parts {
            let inodes = std::mem::take(&mut *part.lock());
            drop(inodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::Ino;

    use super::*;

    #[test]
    fn an_inode_in_use_stays() {
        let table = Table::new();
        let id = InodeId::head(Ino(7));
        let address = || FilePath { base: Ino(7), path: Vec::new() };
        let inode = table.get_or_add(id, address);
        assert!(Arc::ptr_eq(&inode, &table.get_or_add(id, address)));
        let another = table.get(id).expect("there");
        assert!(!table.remove_unused(&inode));
        drop(another);
        assert!(table.remove_unused(&inode));
        assert!(table.get(id).is_none() && table.len() == 0);
    }
}
