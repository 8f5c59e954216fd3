//! The nodes that the kernel knows, and how often it was told of each.

use std::sync::Arc;

use az::WrappingAs as _;
use loligo_fs::{FileSystem, Node, NodeId};
use loligo_lockstat::{Class, Mutex};
use rustc_hash::FxHashMap;

use crate::ids::{ROOT, Snapshots};
use crate::pages::Pages;

/// Held to find, add or remove a node. Each part of the table has its own lock; open files do without.
static NODES: Class = Class::new("fuse.nodes");

/// A power of two.
const PARTS: usize = 64;

/// A node and the number of times that the kernel was told of it and has not forgotten it.
struct Seen {
    node: Node,
    lookups: u64,
    /// What the kernel has of the file's data, once it was opened.
    pages: Option<Arc<Pages>>,
}

/// The table, in parts with a lock each.
pub(crate) struct Nodes {
    parts: Vec<Mutex<FxHashMap<u64, Seen>>>,
    pub(crate) snapshots: Snapshots,
    root: Node,
}

impl Nodes {
    /// The kernel knows the root from the beginning, and never forgets it.
    pub(crate) fn new(root: Node) -> Self {
        let parts = (0..PARTS).map(|_| Mutex::new(&NODES, FxHashMap::default())).collect();
        Self { parts, snapshots: Snapshots::new(), root }
    }

    fn part(&self, number: u64) -> &Mutex<FxHashMap<u64, Seen>> {
        // Numbers of files are assigned one after another.
        &self.parts[number.wrapping_as::<usize>() % PARTS]
    }

    /// Returns the root.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Counts that the kernel is told of a node. Returns the node's number; `None` if there are too many
    /// snapshots.
    pub(crate) fn tell(&self, node: &Node) -> Option<u64> {
        let id = node.id();
        if id == self.root.id() {
            return Some(ROOT);
        }
        let number = self.snapshots.hold(id)?;
        let is_known = {
            let mut part = self.part(number).lock();
            match part.get_mut(&number) {
                Some(seen) => {
                    seen.lookups += 1;
                    true
                }
                None => {
                    part.insert(number, Seen { node: node.clone(), lookups: 1, pages: None });
                    false
                }
            }
        };
        if is_known {
            // The node counts once with its snapshot.
            self.snapshots.release(id);
        }
        Some(number)
    }

    /// The kernel has forgotten a node so many times.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let gone = {
            let mut part = self.part(number).lock();
            let Some(seen) = part.get_mut(&number) else { return };
            seen.lookups = seen.lookups.saturating_sub(times);
            if seen.lookups > 0 {
                return;
            }
            part.remove(&number)
        };
        if let Some(Seen { node, .. }) = gone {
            self.snapshots.release(node.id());
        }
    }

    /// Returns a node that the kernel was told of.
    pub(crate) fn get(&self, number: u64) -> Option<Node> {
        if number == ROOT {
            return Some(self.root.clone());
        }
        self.part(number).lock().get(&number).map(|seen| seen.node.clone())
    }

    /// Returns what the kernel may have of a file's data; `None` if it has nothing.
    pub(crate) fn pages(&self, number: u64) -> Option<Arc<Pages>> {
        self.part(number).lock().get(&number)?.pages.clone()
    }

    /// Returns the same of a file that is being opened; `None` if the kernel was not told of it.
    pub(crate) fn pages_of_opened(&self, number: u64) -> Option<Arc<Pages>> {
        let mut part = self.part(number).lock();
        Some(Arc::clone(part.get_mut(&number)?.pages.get_or_insert_default()))
    }

    /// Returns a node by its number, also one that the kernel was told of before: an export's file handle
    /// outlives what the kernel remembers.
    pub(crate) async fn find(&self, number: u64, fs: &FileSystem) -> Result<Node, loligo_fs::Error> {
        match self.get(number) {
            Some(node) => Ok(node),
            None => fs.node_by_id(self.snapshots.node(number)).await,
        }
    }

    /// Returns the number by which the kernel may know a node.
    pub(crate) fn number(&self, id: NodeId) -> Option<u64> {
        if id == self.root.id() { Some(ROOT) } else { self.snapshots.known(id) }
    }

    /// Returns the number that a listing shows for a node.
    pub(crate) fn shown(&self, id: NodeId) -> u64 {
        if id == self.root.id() { ROOT } else { self.snapshots.show(id).unwrap_or(id.ino.0) }
    }

    /// Returns the numbers of all nodes that the kernel knows.
    pub(crate) fn all(&self) -> Vec<u64> {
        let of = |part: &Mutex<FxHashMap<u64, Seen>>| part.lock().keys().copied().collect::<Vec<_>>();
        self.parts.iter().flat_map(of).chain([ROOT]).collect()
    }
}
