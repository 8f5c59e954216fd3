//! The numbers by which the kernel knows nodes: an inode's own, with the snapshot folded in.
//!
//! CephFS numbers inodes below 2⁴⁸, and a file has the same number in all snapshots. The kernel needs
//! different ones, so that snapshots get small numbers as they are met, and those are the bits above.

use loligo_fs::{Ino, NodeId, SnapId};
use loligo_lockstat::{Class, Mutex};
use rustc_hash::FxHashMap;

/// Held to find or assign a snapshot's number; nodes that are not of a snapshot do without.
static SNAPSHOTS: Class = Class::new("fuse.snapshots");

/// The kernel's number of the root.
pub(crate) const ROOT: u64 = 1;

/// The bits of inodes' own numbers.
const INO_BITS: u32 = 48;
/// Snapshots that can be told apart at a time.
const TAGS_MAX: usize = 0xffff;

/// The numbers of the snapshots that the kernel knows nodes of.
pub(crate) struct Snapshots(Mutex<Tags>);

#[derive(Default)]
struct Tags {
    by_snap: FxHashMap<SnapId, u16>,
    /// Which snapshot has a number, and how many nodes of it the kernel knows.
    all: Vec<(SnapId, u64)>,
}

impl Snapshots {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&SNAPSHOTS, Tags::default()))
    }

    /// Returns a node's number and counts the node with its snapshot. `None` if the kernel knows nodes of
    /// more snapshots than can be told apart.
    pub(crate) fn hold(&self, id: NodeId) -> Option<u64> {
        self.number(id, 1)
    }

    /// Returns a node's number, for a listing: it holds as long as there are numbers enough.
    pub(crate) fn show(&self, id: NodeId) -> Option<u64> {
        self.number(id, 0)
    }

    fn number(&self, id: NodeId, nodes: u64) -> Option<u64> {
        if id.is_head() {
            return Some(id.ino.0);
        }
        let tag = self.0.lock().tag(id.snap, nodes)?;
        Some(folded(id.ino, tag))
    }

    /// Uncounts a node.
    pub(crate) fn release(&self, id: NodeId) {
        if id.is_head() {
            return;
        }
        let mut tags = self.0.lock();
        if let Some(tag) = tags.by_snap.get(&id.snap).copied() {
            let (_, nodes) = &mut tags.all[usize::from(tag) - 1];
            *nodes = nodes.saturating_sub(1);
        }
    }

    /// Returns the number of a node that the kernel may know.
    pub(crate) fn known(&self, id: NodeId) -> Option<u64> {
        if id.is_head() {
            return Some(id.ino.0);
        }
        let tag = self.0.lock().by_snap.get(&id.snap).copied()?;
        Some(folded(id.ino, tag))
    }

    /// Returns the node that has a number.
    pub(crate) fn node(&self, number: u64) -> NodeId {
        let (ino, tag) = (Ino(number & ((1 << INO_BITS) - 1)), (number >> INO_BITS) as usize);
        let snap = match tag {
            0 => SnapId::HEAD,
            tag => self.0.lock().all.get(tag - 1).map_or(SnapId::HEAD, |(snap, _)| *snap),
        };
        NodeId { ino, snap }
    }
}

impl Tags {
    /// Returns a snapshot's number, from 1, and counts nodes of it.
    fn tag(&mut self, snap: SnapId, nodes: u64) -> Option<u16> {
        if let Some(tag) = self.by_snap.get(&snap).copied() {
            self.all[usize::from(tag) - 1].1 += nodes;
            return Some(tag);
        }
        let at = match self.all.len() {
            len if len < TAGS_MAX => {
                self.all.push((snap, nodes));
                len
            }
            // A number that no node has can be given again.
            _ => {
                let free = self.all.iter().position(|(_, nodes)| *nodes == 0)?;
                let (old, _) = std::mem::replace(&mut self.all[free], (snap, nodes));
                self.by_snap.remove(&old);
                free
            }
        };
        let tag = u16::try_from(at + 1).ok()?;
        self.by_snap.insert(snap, tag);
        Some(tag)
    }
}

fn folded(ino: Ino, tag: u16) -> u64 {
    ino.0 & ((1 << INO_BITS) - 1) | u64::from(tag) << INO_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(ino: u64, snap: u64) -> NodeId {
        NodeId { ino: Ino(ino), snap: SnapId(snap) }
    }

    #[test]
    fn each_snapshot_s_node_has_a_number_of_its_own_and_leads_back() {
        let snapshots = Snapshots::new();
        let head = NodeId { ino: Ino(0x100_0000_0005), snap: SnapId::HEAD };
        let all = [head, id(0x100_0000_0005, 7), id(0x100_0000_0005, 9), id(0x100_0000_0006, 7)];
        let numbers: Vec<u64> = all.iter().map(|id| snapshots.hold(*id).expect("room")).collect();
        assert_eq!(numbers[0], head.ino.0, "what is not of a snapshot keeps its number");
        for (at, (id, number)) in all.iter().zip(&numbers).enumerate() {
            assert_eq!(snapshots.node(*number), *id);
            assert!(!numbers[..at].contains(number));
            assert_eq!(snapshots.known(*id), Some(*number));
        }
        assert_eq!(snapshots.known(id(5, 1234)), None);
    }

    #[test]
    fn numbers_of_snapshots_without_nodes_are_given_again() {
        let snapshots = Snapshots::new();
        for snap in 1..=TAGS_MAX as u64 {
            assert!(snapshots.hold(id(5, snap)).is_some());
        }
        assert_eq!(snapshots.hold(id(5, 1 << 20)), None, "all are in use");
        snapshots.release(id(5, 17));
        let again = snapshots.hold(id(5, 1 << 20)).expect("one is free");
        assert_eq!(snapshots.node(again), id(5, 1 << 20));
        assert_eq!(snapshots.known(id(5, 17)), None);
    }
}
