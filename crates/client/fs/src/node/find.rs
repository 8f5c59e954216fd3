//! Finding nodes: by a name in a directory, by number, and a directory's entries.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::{FilePath, LookupIno, RequestOp};

use super::Node;
use crate::dir::ReadDir;
use crate::error::Error;
use crate::inode::{Inode, InodeId, mode};
use crate::mds::missing;
use crate::mount::FileSystem;
use crate::node_id::NodeId;
use crate::session::Request;

impl FileSystem {
    /// Finds a node by its number, which an earlier mount may have seen: a file handle of an export.
    /// Nodes of snapshots are found while they are known.
    ///
    /// # Errors
    /// ESTALE if there is none.
    pub async fn node_by_id(&self, id: NodeId) -> Result<Node, Error> {
        if let Some(inode) = self.core.inodes.get(id.into()) {
            return Ok(self.node(inode));
        }
        if !id.is_head() {
            return Err(Errno::ESTALE.into());
        }
        let args = LookupIno { mask: Caps::STAT, ..LookupIno::default() };
        let place = FilePath::new(id.ino, Vec::new());
        let request =
            Request { path: place, ..Request::about(&self.core.root()?, RequestOp::LookupIno(args)) };
        match self.call(request).await {
            Ok(done) => done.target.map(|inode| self.node(inode)).ok_or_else(|| missing("lookupino", 0)),
            Err(e) if e.is_not_found() => Err(Errno::ESTALE.into()),
            Err(e) => Err(e),
        }
    }
}

impl Node {
    /// Finds a name in this directory; `.` and `..` too, and in a directory the `.snap` of its snapshots.
    ///
    /// # Errors
    /// ENOENT if there is no such name, ENOTDIR if this is no directory.
    pub async fn lookup(&self, name: impl AsRef<[u8]>) -> Result<Self, Error> {
        if !self.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        self.fs.may_look_up(&self.inode).await?;
        match name.as_ref() {
            b"." | b"" => Ok(self.clone()),
            b".." => self.parent().await,
            name => Ok(self.fs.node(self.fs.lookup(&self.inode, name).await?)),
        }
    }

    /// Returns a symbolic link's target.
    ///
    /// # Errors
    /// EINVAL if it is no link.
    pub async fn read_link(&self) -> Result<Vec<u8>, Error> {
        if self.inode.kind() != mode::SYMLINK {
            return Err(Errno::EINVAL.into());
        }
        self.fs.link_target(&self.inode).await
    }

    /// Lists the directory. In `.snap` are the directory's snapshots.
    ///
    /// # Errors
    /// ENOTDIR if it is no directory.
    pub fn read_dir(&self) -> Result<ReadDir, Error> {
        self.read_dir_from(0)
    }

    /// Lists the directory from a position on that an earlier listing told ([`crate::DirEntry::next`]); 0
    /// is the beginning. Positions hold as long as the directory exists, for all listings of it.
    ///
    /// # Errors
    /// ENOTDIR if it is no directory.
    pub fn read_dir_from(&self, position: u64) -> Result<ReadDir, Error> {
        if !self.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(ReadDir::new(self.clone(), position))
    }

    /// Finds the directory that has this one.
    async fn parent(&self) -> Result<Self, Error> {
        let core = &self.fs.core;
        let id = self.inode.id;
        // The root's parent is the root, also if the mount begins below the file system's root.
        if core.root()?.id == id {
            return Ok(self.clone());
        }
        if id.is_snap_dir() {
            return self.fs.node_by_id(InodeId::head(id.ino).into()).await;
        }
        if !id.is_head() {
            return self.parent_in_snapshot().await;
        }
        if let Some(dir) = self.parent_for_sure() {
            return Ok(self.fs.node(dir));
        }
        let op = RequestOp::LookupParent { mask: Caps::STAT };
        let done = self.fs.call(Request::about(&self.inode, op)).await?;
        done.target.map(|inode| self.fs.node(inode)).ok_or_else(|| missing("lookupparent", 0))
    }

    /// Returns the directory in which this one was found, if a server has promised to tell of a move.
    fn parent_for_sure(&self) -> Option<Arc<Inode>> {
        let core = &self.fs.core;
        let (dir, name) = self.inode.known().found_in.clone()?;
        let dir = core.inodes.get(dir)?;
        let entry = dir.known().entry(&name, core.now_ms());
        (entry == Some(self.inode.id)).then_some(dir)
    }

    /// In a snapshot the address says the way: the directory that has the snapshot, the snapshot's name,
    /// and the names below it.
    async fn parent_in_snapshot(&self) -> Result<Self, Error> {
        let FilePath { base, path } = &self.inode.address;
        let head = self.fs.node_by_id(InodeId::head(*base).into()).await?;
        let mut at: Arc<Inode> = self.fs.core.snap_dir(&head.inode);
        let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        for name in names.split_last().map_or(&[][..], |(_, above)| above) {
            at = self.fs.lookup(&at, name).await?;
        }
        Ok(self.fs.node(at))
    }
}
