//! Changing attributes.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::UTime;
use loligo_wire::message::mds::{RequestOp, SetAttr};

use crate::error::Error;
use crate::inode::{Inode, mode};
use crate::mount::FileSystem;
use crate::names::{regular_file, writable};
use crate::session::Request;
use crate::walk::Last;

/// Attributes to change; the others stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The permissions.
    pub permissions: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The size.
    pub size: Option<u64>,
    /// The time of the data's last change.
    pub mtime: Option<UTime>,
    /// The time of the last read.
    pub atime: Option<UTime>,
}

impl FileSystem {
    /// Changes attributes of a file or directory. Symbolic links are followed.
    pub async fn change(&self, path: impl AsRef<[u8]>, changes: Changes) -> Result<(), Error> {
        let inode = self.core.walk(path.as_ref(), Last::Follow).await?;
        self.change_inode(&inode, changes).await
    }

    /// Like [`change`](Self::change), but changes a symbolic link itself.
    pub async fn change_link(&self, path: impl AsRef<[u8]>, changes: Changes) -> Result<(), Error> {
        let inode = self.core.walk(path.as_ref(), Last::Keep).await?;
        self.change_inode(&inode, changes).await
    }

    /// Sets a file's size.
    ///
    /// # Errors
    /// EISDIR for a directory.
    pub async fn truncate(&self, path: impl AsRef<[u8]>, size: u64) -> Result<(), Error> {
        let inode = self.core.walk(path.as_ref(), Last::Follow).await?;
        self.truncate_inode(&inode, size).await
    }

    pub(crate) async fn truncate_inode(&self, inode: &Arc<Inode>, size: u64) -> Result<(), Error> {
        self.change_inode(inode, Changes { size: Some(size), ..Changes::default() }).await
    }

    async fn change_inode(&self, inode: &Arc<Inode>, changes: Changes) -> Result<(), Error> {
        writable(inode)?;
        let mut args = SetAttr::default();
        let mut set = |bit: u32| args.mask |= bit;
        let Changes { permissions, uid, gid, size, mtime, atime } = changes;
        let chosen = [
            (permissions.is_some(), SetAttr::MODE),
            (uid.is_some(), SetAttr::UID),
            (gid.is_some(), SetAttr::GID),
            (size.is_some(), SetAttr::SIZE),
            (mtime.is_some(), SetAttr::MTIME),
            (atime.is_some(), SetAttr::ATIME),
        ];
        chosen.into_iter().filter(|(is, _)| *is).for_each(|(_, bit)| set(bit));
        if args.mask == 0 {
            return Ok(());
        }
        if let Some(size) = size {
            regular_file(inode)?;
            let max = self.core.mds_map().map_or(u64::MAX, |map| map.max_file_size);
            if size > max {
                return Err(Errno::EFBIG.into());
            }
            args.old_size = inode.known().attrs.size;
            args.size = size;
        }
        args.mode = permissions.map_or(0, |bits| bits & mode::PERMISSIONS);
        (args.uid, args.gid) = (uid.unwrap_or(0), gid.unwrap_or(0));
        (args.mtime, args.atime) = (mtime.unwrap_or_default(), atime.unwrap_or_default());
        // What this client has not told yet must not come after it.
        self.core.send_due(inode, true);
        self.core.call(Request::about(inode, RequestOp::SetAttr(args))).await.map(drop)
    }
}

/// How an extended attribute is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// Made, or replaced.
    #[default]
    Any,
    /// Made: EEXIST if there is one.
    Create,
    /// Replaced: ENODATA if there is none.
    Replace,
}
