//! Changing a node's attributes.

use loligo_wire::UTime;
use loligo_wire::message::mds::{RequestOp, SetAttr};

use super::Node;
use crate::acl;
use crate::attributes::{Changes, XattrMode};
use crate::error::Error;
use crate::inode::{mode, regular_file, writable};
use crate::session::Request;

impl Node {
    /// Changes attributes. A file that gets another owner, group or size does not run as its owner or
    /// group any more.
    ///
    /// # Errors
    /// EISDIR for a size of a directory, EFBIG beyond the largest size, EROFS in a snapshot; EPERM or
    /// EACCES if the user may not; EDQUOT if a quota has no room for the size.
    pub async fn set(&self, changes: &Changes) -> Result<(), Error> {
        if changes.size.is_some() {
            // Before anything else, as system calls do.
            regular_file(&self.inode)?;
        }
        writable(&self.inode)?;
        let changes = self.fs.may_change(&self.inode, *changes).await?;
        self.set_unchecked(changes).await?;
        let list = match changes.permissions {
            Some(bits) => self.fs.list_after_chmod(&self.inode, bits).await?,
            None => None,
        };
        match list {
            Some(list) => self.store_xattr(acl::ACCESS, Some(list), XattrMode::Any).await,
            None => Ok(()),
        }
    }

    /// Changes attributes without a check of permissions.
    pub(crate) async fn set_unchecked(&self, changes: Changes) -> Result<(), Error> {
        let inode = &self.inode;
        writable(inode)?;
        let mut args = SetAttr::default();
        let Changes { permissions, uid, gid, size, mtime, atime, .. } = changes.at(UTime::now());
        let chosen = [
            (permissions.is_some(), SetAttr::MODE),
            (uid.is_some(), SetAttr::UID),
            (gid.is_some(), SetAttr::GID),
            (size.is_some(), SetAttr::SIZE),
            (mtime.is_some(), SetAttr::MTIME),
            (atime.is_some(), SetAttr::ATIME),
        ];
        chosen.into_iter().filter(|(is, _)| *is).for_each(|(_, bit)| args.mask |= bit);
        if args.mask == 0 {
            return Ok(());
        }
        if let Some(size) = size {
            self.fs.core.check_size(size)?;
            let old_size = inode.data.size();
            self.fs.room_for_bytes(inode, size.saturating_sub(old_size), size).await?;
            (args.old_size, args.size) = (old_size, size);
            // As with a write: the file runs as its owner or group no more, unless root changes it.
            if !self.fs.user().is_root() {
                args.mask |= SetAttr::KILL_SGUID;
            }
        }
        args.mode = permissions.map_or(0, |bits| bits & mode::PERMISSIONS);
        (args.uid, args.gid) = (uid.unwrap_or(0), gid.unwrap_or(0));
        (args.mtime, args.atime) = (mtime.unwrap_or_default(), atime.unwrap_or_default());
        if size.is_some() && inode.cached.get().is_some() {
            // The server trims objects: what is cached, and what belongs into snapshots, must be there
            // before.
            self.fs.core.settle(inode).await?;
        } else {
            // What this client has not told yet must not come after it.
            self.fs.core.flush(inode);
        }
        self.fs.call(Request::about(inode, RequestOp::SetAttr(args))).await.map(drop)
    }

    /// Sets the file's size.
    ///
    /// # Errors
    /// EISDIR for a directory.
    pub async fn truncate(&self, size: u64) -> Result<(), Error> {
        self.set(&Changes { size: Some(size), ..Changes::default() }).await
    }

    /// Waits until the changes to this node that the servers know of are durable: of a directory, its
    /// names.
    ///
    /// # Errors
    /// Something was lost; told once.
    pub async fn sync(&self) -> Result<(), Error> {
        self.fs.core.save(&self.inode).await
    }
}
