//! Forgetting names, if there are many more than inodes.

use crate::core::Core;
use crate::inode::{Inode, InodeId, Named, PARTS};

/// Names for each inode that are kept at most.
const NAMES_EACH: usize = 2;
/// Names and inodes that are looked at in one go: there are other things to do, too.
const STEP: usize = 8192;

/// How far the search for names that can be forgotten has come.
#[derive(Default)]
pub(super) struct SurplusNames {
    /// The part of the table of inodes that comes next.
    part: usize,
    /// Directories of the part before it, whose names come next.
    dirs: Vec<InodeId>,
    /// The last name of the last directory that was looked at, with its hash.
    last: Option<(u32, Vec<u8>)>,
}

impl Core {
    /// Forgets names, if there are many more than inodes: those of what is forgotten, and of anything else
    /// all but the one by which it was found last. A file may have any number of names. Looks at so many at
    /// most as one call may; the next one follows after a pause.
    pub(super) fn trim_names(&self, search: &mut SurplusNames) {
        let mut left = STEP;
        while self.has_surplus_names() {
            if left == 0 {
                self.inodes.crowded.notify_one();
                return;
            }
            left = left.saturating_sub(self.forget_surplus(search, left));
        }
    }

    fn has_surplus_names(&self) -> bool {
        let kept = self.options.inodes_max.max(self.inodes.len());
        self.inodes.names() > NAMES_EACH.saturating_mul(kept)
    }

    /// Looks at so many names at most, or finds directories. Returns what it has cost, at least 1.
    fn forget_surplus(&self, search: &mut SurplusNames, most: usize) -> usize {
        let Some(dir) = search.dirs.last() else {
            let inodes = self.inodes.of_part(search.part);
            search.part = (search.part + 1) % PARTS;
            let has_names = |inode: &&std::sync::Arc<Inode>| !inode.known().names.is_empty();
            search.dirs = inodes.iter().filter(has_names).map(|inode| inode.id).collect();
            return 1 + inodes.len();
        };
        let dir = self.inodes.peek(*dir);
        let last = search.last.take();
        let place = last.as_ref().map_or((0, None), |(hash, name)| (*hash, Some(&name[..])));
        let mut names: Vec<Named> = dir.as_ref().map_or_else(Vec::new, |dir| {
            let known = dir.known();
            let rest = known.names.after(place).take(most);
            rest.map(|(hash, name, entry)| (hash, name.to_vec(), entry.id)).collect()
        });
        let cost = 1 + names.len();
        match names.last() {
            Some((hash, name, _)) if names.len() == most => search.last = Some((*hash, name.clone())),
            _ => drop(search.dirs.pop()),
        }
        if let Some(dir) = dir {
            names.retain(|(_, name, id)| !self.is_place(&dir, name, *id));
            dir.known().forget_these(&names);
        }
        cost
    }

    /// Returns `true` if this is the name by which an inode was found last.
    fn is_place(&self, dir: &Inode, name: &[u8], id: InodeId) -> bool {
        self.inodes.peek(id).is_some_and(|inode| {
            let known = inode.known();
            known.found_in.as_ref().is_some_and(|(found_in, as_name)| *found_in == dir.id && as_name == name)
        })
    }
}
