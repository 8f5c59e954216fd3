//! What identifies a node to programs above this client.

use loligo_wire::{Ino, SnapId};

use crate::inode::InodeId;

/// What identifies a node: its inode's number, and the snapshot that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId {
    /// The inode's number.
    pub ino: Ino,
    /// The snapshot; [`SnapId::HEAD`] for what can be changed, [`SnapId::DIR`] for the directory of a
    /// directory's snapshots.
    pub snap: SnapId,
}

impl NodeId {
    /// Returns `true` for what can be changed: it is not of a snapshot.
    pub fn is_head(self) -> bool {
        self.snap == SnapId::HEAD
    }
}

impl From<InodeId> for NodeId {
    fn from(InodeId { ino, snap }: InodeId) -> Self {
        Self { ino, snap }
    }
}

impl From<NodeId> for InodeId {
    fn from(NodeId { ino, snap }: NodeId) -> Self {
        Self { ino, snap }
    }
}
