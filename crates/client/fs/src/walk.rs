//! From paths to inodes.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::RequestOp;

use crate::core::Core;
use crate::error::Error;
use crate::inode::{Inode, mode};
use crate::mds::missing;
use crate::path::{self, Rest};
use crate::session::Request;

/// The name under which a directory's snapshots are found (`client_snapdir`).
pub(crate) const SNAP_DIR: &[u8] = b".snap";

/// Whether a symbolic link at a path's end is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

impl Core {
    /// Returns the mount's root.
    pub(crate) fn root(&self) -> Result<Arc<Inode>, Error> {
        self.root.get().cloned().ok_or(Error::Unmounted)
    }

    /// Finds what a path names.
    pub(crate) async fn walk(&self, path: &[u8], last: Last) -> Result<Arc<Inode>, Error> {
        let mut rest = Rest::of(path)?;
        // The directories above, for `..`.
        let mut above = vec![self.root()?];
        while let Some(name) = rest.next() {
            let here = above.last().cloned().ok_or(Errno::ENOENT)?;
            if !here.is_dir() {
                return Err(Errno::ENOTDIR.into());
            }
            if name == b".." {
                // The root's parent is the root.
                above.truncate((above.len() - 1).max(1));
                continue;
            }
            let found = self.lookup(&here, &name).await?;
            let is_link = found.kind() == mode::SYMLINK;
            if is_link && (!rest.is_empty() || rest.is_dir() || last == Last::Follow) {
                let target = self.link_target(&found).await?;
                if rest.follow(&target)? {
                    above.truncate(1);
                }
            } else {
                above.push(found);
            }
        }
        let found = above.pop().ok_or(Errno::ENOENT)?;
        if rest.is_dir() && !found.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(found)
    }

    /// Finds the directory that a path's last name is in. The name need not exist.
    pub(crate) async fn walk_to_parent(&self, path: &[u8]) -> Result<(Arc<Inode>, Vec<u8>), Error> {
        let (dir, name) = path::parent_and_name(path).ok_or(Errno::EEXIST)?;
        let name = path::checked(name)?.to_vec();
        let dir = self.walk(dir, Last::Follow).await?;
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok((dir, name))
    }

    /// Finds a name in a directory: without a request, if a server promised to tell of changes.
    pub(crate) async fn lookup(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Arc<Inode>, Error> {
        path::checked(name)?;
        if name == SNAP_DIR && dir.id.is_head() {
            return Ok(self.snap_dir(dir));
        }
        let known = dir.known().entry(name, self.now_ms());
        if let Some(inode) = known.and_then(|id| self.inodes.get(id)) {
            return Ok(inode);
        }
        let mask = Caps::STAT;
        let op =
            if dir.id.is_snap_dir() { RequestOp::LookupSnap { mask } } else { RequestOp::Lookup { mask } };
        let done = self.call(Request::in_dir(dir, name, op)).await?;
        done.target.ok_or_else(|| missing("lookup", 0))
    }

    /// Makes sure that attributes are known: without a request, if a server promised to tell of changes.
    pub(crate) async fn refresh(&self, inode: &Arc<Inode>, mask: Caps) -> Result<(), Error> {
        if inode.id.is_snap_dir() || self.issued(inode).contains(mask) {
            return Ok(());
        }
        self.ask_attrs(inode, mask).await
    }

    /// Asks for attributes.
    pub(crate) async fn ask_attrs(&self, inode: &Arc<Inode>, mask: Caps) -> Result<(), Error> {
        if inode.id.is_snap_dir() {
            return Ok(());
        }
        self.call(Request::about(inode, RequestOp::GetAttr { mask })).await?;
        Ok(())
    }

    /// Returns a symbolic link's target, which never changes.
    pub(crate) async fn link_target(&self, link: &Arc<Inode>) -> Result<Vec<u8>, Error> {
        let known = link.known().attrs.symlink.clone();
        if !known.is_empty() {
            return Ok(known);
        }
        self.ask_attrs(link, Caps::STAT).await?;
        let target = link.known().attrs.symlink.clone();
        if target.is_empty() { Err(Errno::EINVAL.into()) } else { Ok(target) }
    }
}
