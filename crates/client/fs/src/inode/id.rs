//! What identifies an inode.

use loligo_wire::{Ino, SnapId};

/// What identifies an inode: its number, and the snapshot if it is one of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InodeId {
    pub(crate) ino: Ino,
    pub(crate) snap: SnapId,
}

impl InodeId {
    /// The inode as it is now.
    pub(crate) fn head(ino: Ino) -> Self {
        Self { ino, snap: SnapId::HEAD }
    }

    /// Returns `true` for what can be changed: it is not of a snapshot.
    pub(crate) fn is_head(self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// Returns `true` for the directory of snapshots of a directory.
    pub(crate) fn is_snap_dir(self) -> bool {
        self.snap == SnapId::DIR
    }
}
