//! The file system by inodes: what a mount in the kernel, an export or a program of its own with handles
//! works on. The functions by paths find a node and call its own.

mod caller;
mod change;
mod find;
mod names;
mod open;
mod trust;
mod watch;
mod xattrs;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use loligo_wire::Caps;

pub use self::names::RenameFlags;
pub use self::trust::Trust;
use crate::caller::Caller;
use crate::error::Error;
use crate::inode::Inode;
use crate::metadata::{FileType, Metadata};
use crate::mount::FileSystem;
use crate::node_id::NodeId;

/// A file, directory, link or device, found by a name once and used without it from then on.
///
/// A clone costs a few reference counts. As long as a node exists, its inode stays known: the inode may be
/// forgotten when no node, no open file and no change that the servers lack is left. What a node does, it
/// does as the user of the [`FileSystem`] that it was found through ([`Node::as_user`]).
#[derive(Clone)]
pub struct Node {
    pub(crate) fs: FileSystem,
    pub(crate) inode: Arc<Inode>,
}

impl FileSystem {
    /// Returns the mount's root.
    ///
    /// # Errors
    /// The mount has ended.
    pub fn root(&self) -> Result<Node, Error> {
        Ok(self.node(self.core.root()?))
    }

    /// Returns a node of this user's.
    pub(crate) fn node(&self, inode: Arc<Inode>) -> Node {
        Node { fs: self.clone(), inode }
    }
}

impl Node {
    /// Returns what identifies the node.
    pub fn id(&self) -> NodeId {
        self.inode.id.into()
    }

    /// Returns the file system, as the user that the node works for.
    pub fn file_system(&self) -> &FileSystem {
        &self.fs
    }

    /// Returns the same node for another user.
    pub fn as_user(&self, caller: Caller) -> Self {
        Self { fs: self.fs.as_user(caller), inode: Arc::clone(&self.inode) }
    }

    /// Returns what it is. That never changes.
    pub fn file_type(&self) -> FileType {
        FileType::of_mode(self.inode.kind())
    }

    /// Returns `true` for a directory.
    pub fn is_dir(&self) -> bool {
        self.inode.is_dir()
    }

    /// Returns a directory and a name in it by which the node was found last, if it was found by one.
    pub fn found_in(&self) -> Option<(NodeId, Vec<u8>)> {
        let known = self.inode.known();
        known.found_in.as_ref().map(|(dir, name)| ((*dir).into(), name.clone()))
    }

    /// Describes the node. Of the parts that `mask` names, the description is what a server vouches for;
    /// of the others it is what is known. [`Caps::STAT`] names all.
    pub async fn stat(&self, mask: Caps) -> Result<Metadata, Error> {
        let now = self.fs.core.now_ms();
        let vouched_for = {
            let known = self.inode.known();
            known.is_vouched_for(mask, now).then(|| Metadata::of(self.inode.id, &known.attrs))
        };
        if let Some(metadata) = vouched_for {
            self.fs.core.metrics.looked(true);
            return Ok(metadata);
        }
        self.fs.refresh(&self.inode, mask).await?;
        Ok(self.known())
    }

    /// Describes the node as it is known here, which a server may know better. Right after a call that
    /// changed or found the node this is what the server's answer said.
    pub fn known(&self) -> Metadata {
        let known = self.inode.known();
        Metadata::of(self.inode.id, &known.attrs)
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.inode.id == other.inode.id
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inode.id.hash(state);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.inode)
    }
}
