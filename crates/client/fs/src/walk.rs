//! From paths to inodes.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::RequestOp;

use crate::caller::Caller;
use crate::core::Core;
use crate::error::Error;
use crate::inode::{Inode, mode};
use crate::mds::missing;
use crate::mount::FileSystem;
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

    /// Asks for attributes, as the user that the mount was made for.
    pub(crate) async fn ask_attrs(&self, inode: &Arc<Inode>, mask: Caps) -> Result<(), Error> {
        self.ask_attrs_as(&self.caller, inode, mask).await
    }

    async fn refresh_as(&self, caller: &Arc<Caller>, inode: &Arc<Inode>, mask: Caps) -> Result<(), Error> {
        let is_held = inode.id.is_snap_dir() || inode.known().is_vouched_for(mask, self.now_ms());
        self.metrics.looked(is_held);
        if is_held {
            return Ok(());
        }
        self.ask_attrs_as(caller, inode, mask).await
    }

    async fn ask_attrs_as(&self, caller: &Arc<Caller>, inode: &Arc<Inode>, mask: Caps) -> Result<(), Error> {
        if inode.id.is_snap_dir() {
            return Ok(());
        }
        let caller = Some(Arc::clone(caller));
        self.call(Request { caller, ..Request::about(inode, RequestOp::GetAttr { mask }) }).await.map(drop)
    }
}

impl FileSystem {
    /// Finds what a path names.
    pub(crate) async fn walk(&self, path: &[u8], last: Last) -> Result<Arc<Inode>, Error> {
        let mut rest = Rest::of(path)?;
        // The directories above, for `..`.
        let mut above = vec![self.core.root()?];
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
            self.may_look_up(&here).await?;
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
        let Some((dir, name)) = path::parent_and_name(path) else {
            self.walk(path, Last::Follow).await?;
            return Err(Errno::EEXIST.into());
        };
        let name = path::checked(name)?.to_vec();
        let dir = self.walk(dir, Last::Follow).await?;
        if !dir.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok((dir, name))
    }

    /// Finds a name in a directory: without a request, if a server promised to tell of changes. The same goes
    /// for a name that is not there.
    pub(crate) async fn lookup(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<Arc<Inode>, Error> {
        path::checked(name)?;
        // A name that is known is found without waiting: a task that does nothing else must leave its
        // thread to those that answer the servers.
        tokio::task::coop::consume_budget().await;
        if name == SNAP_DIR && dir.id.is_head() {
            return Ok(self.core.snap_dir(dir));
        }
        let now = self.core.now_ms();
        if let Some(inode) = dir.find_hot(name, now) {
            self.core.metrics.looked_up(true);
            self.core.inodes.touch(&inode);
            return Ok(inode);
        }
        let (known, is_absent) = {
            let dir = dir.known();
            (dir.entry(name, now), dir.lacks(name, now))
        };
        let known = known.and_then(|id| self.core.inodes.get(id));
        self.core.metrics.looked_up(known.is_some() || is_absent);
        if let Some(inode) = known {
            dir.heat(name, &inode, now);
            return Ok(inode);
        }
        if is_absent {
            return Err(Errno::ENOENT.into());
        }
        let mask = Caps::STAT;
        let op =
            if dir.id.is_snap_dir() { RequestOp::LookupSnap { mask } } else { RequestOp::Lookup { mask } };
        let done = self.call(Request::in_dir(dir, name, op)).await?;
        done.target.ok_or_else(|| missing("lookup", 0))
    }

    /// Makes sure that attributes are known: without a request, if a server promised to tell of changes.
    pub(crate) async fn refresh(&self, inode: &Arc<Inode>, mask: Caps) -> Result<(), Error> {
        self.core.refresh_as(&self.caller, inode, mask).await
    }

    /// Asks for attributes.
    pub(crate) async fn ask_attrs(&self, inode: &Arc<Inode>, mask: Caps) -> Result<(), Error> {
        self.core.ask_attrs_as(&self.caller, inode, mask).await
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
