//! Making, removing and moving names in a directory.

use loligo_rados::Errno;
use loligo_wire::Encode as _;
use loligo_wire::message::mds::{FilePath, RequestOp, SnapPayload};

use super::Node;
use crate::error::Error;
use crate::inode::{mode, writable};
use crate::mds::missing;
use crate::path;
use crate::session::Request;

/// What a rename may do, as `renameat2(2)` takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fails with EEXIST if the new name is taken. This client looks before it asks, since metadata servers
    /// have no such operation: a name that another client makes in between is replaced.
    pub no_replace: bool,
    /// Both names change places. Metadata servers have no such operation: EINVAL, as from a stock client.
    pub exchange: bool,
}

/// New names.
impl Node {
    /// Makes a directory. In a directory's `.snap` it makes a snapshot of the directory.
    ///
    /// # Errors
    /// EEXIST if there is something of this name.
    pub async fn mkdir(&self, name: impl AsRef<[u8]>, permissions: u32) -> Result<Self, Error> {
        let name = self.entry(name.as_ref())?;
        let request = match self.inode.id.is_snap_dir() {
            true => {
                self.fs.may_create(&self.inode).await?;
                Request {
                    data: SnapPayload::default().to_bytes(),
                    ..Request::in_dir(&self.inode, name, RequestOp::MkSnap { mode: 0 })
                }
            }
            false => {
                self.may_add().await?;
                let mode = mode::DIRECTORY | (permissions & mode::PERMISSIONS);
                let (mode, data) = self.fs.inherit(&self.inode, mode).await?;
                Request { data, ..Request::in_dir(&self.inode, name, RequestOp::MkDir { mode }) }
            }
        };
        self.made(request, name).await
    }

    /// Makes a symbolic link.
    pub async fn symlink(&self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Result<Self, Error> {
        let name = self.entry(name.as_ref())?;
        self.may_add().await?;
        let path2 = FilePath::name(target.as_ref());
        let request = Request { path2, ..Request::in_dir(&self.inode, name, RequestOp::SymLink) };
        self.made(request, name).await
    }

    /// Gives a file a second name, in this directory.
    ///
    /// # Errors
    /// EPERM for directories.
    pub async fn link(&self, name: impl AsRef<[u8]>, existing: &Self) -> Result<(), Error> {
        let inode = &existing.inode;
        let name = self.entry(name.as_ref())?;
        if inode.is_dir() {
            return Err(Errno::EPERM.into());
        }
        writable(inode)?;
        writable(&self.inode)?;
        self.fs.may_link(inode).await?;
        self.may_add().await?;
        let request = Request {
            path2: inode.address.clone(),
            also: Some(inode.clone()),
            ..Request::in_dir(&self.inode, name, RequestOp::Link)
        };
        self.fs.call(request).await.map(drop)
    }

    /// Makes a file, a named pipe, a socket or a device. `mode` has the type's bits, as `mknod(2)` takes
    /// them; without any it is a file.
    pub async fn mknod(&self, name: impl AsRef<[u8]>, mode: u32, rdev: u32) -> Result<Self, Error> {
        let name = self.entry(name.as_ref())?;
        let mode = match mode & mode::TYPE {
            0 => mode::regular(mode),
            mode::DIRECTORY => return Err(Errno::EPERM.into()),
            _ => mode,
        };
        self.may_add().await?;
        let (mode, data) = self.fs.inherit(&self.inode, mode).await?;
        let request = Request { data, ..Request::in_dir(&self.inode, name, RequestOp::MkNod { mode, rdev }) };
        self.made(request, name).await
    }

    /// Checks that the user may add a name to this directory, and that a quota has room for it.
    async fn may_add(&self) -> Result<(), Error> {
        writable(&self.inode)?;
        self.fs.may_create(&self.inode).await?;
        self.fs.room_for_name(&self.inode).await
    }

    /// Sends a request that makes a name and returns what it names.
    async fn made(&self, request: Request, name: &[u8]) -> Result<Self, Error> {
        match self.fs.call(request).await?.target {
            Some(inode) => Ok(self.fs.node(inode)),
            // A server that has restarted answers a repeated request without saying what it made.
            None => self.lookup(name).await,
        }
    }

    /// Checks a name of an entry that this directory is to have, or to lose.
    pub(super) fn entry<'n>(&self, name: &'n [u8]) -> Result<&'n [u8], Error> {
        if !self.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        match path::checked(name)? {
            b"" => Err(Errno::ENOENT.into()),
            b"." | b".." => Err(Errno::EINVAL.into()),
            name if name.contains(&b'/') => Err(Errno::EINVAL.into()),
            name => Ok(name),
        }
    }
}

/// Names that go.
impl Node {
    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// EISDIR for a directory.
    pub async fn unlink(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        let name = self.entry(name.as_ref())?;
        writable(&self.inode)?;
        self.fs.may_delete(&self.inode, name).await?;
        self.fs.call(Request::in_dir(&self.inode, name, RequestOp::Unlink)).await.map(drop)
    }

    /// Removes an empty directory. In a directory's `.snap` it removes a snapshot.
    ///
    /// # Errors
    /// ENOTEMPTY if it is not empty.
    pub async fn rmdir(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        let name = self.entry(name.as_ref())?;
        let is_snap = self.inode.id.is_snap_dir();
        let op = if is_snap { RequestOp::RmSnap } else { RequestOp::RmDir };
        if !is_snap {
            writable(&self.inode)?;
        }
        self.fs.may_delete(&self.inode, name).await?;
        self.fs.call(Request::in_dir(&self.inode, name, op)).await.map(drop)
    }

    /// Moves a name of this directory to another one, over an existing name if that is a file, or an empty
    /// directory for a directory. In a directory's `.snap` it renames a snapshot.
    pub async fn rename(
        &self,
        name: impl AsRef<[u8]>,
        to: &Self,
        to_name: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<(), Error> {
        let (name, to_name) = (self.entry(name.as_ref())?, to.entry(to_name.as_ref())?);
        if flags.exchange {
            return Err(Errno::EINVAL.into());
        }
        if self.inode.id.snap != to.inode.id.snap {
            return Err(Errno::EXDEV.into());
        }
        let op = match self.inode.id.is_snap_dir() {
            true if self.inode.id == to.inode.id => RequestOp::RenameSnap,
            _ => {
                writable(&self.inode)?;
                RequestOp::Rename
            }
        };
        self.fs.may_delete(&self.inode, name).await?;
        self.fs.may_delete(&to.inode, to_name).await?;
        self.fs.same_quotas(&self.inode, &to.inode).await?;
        if flags.no_replace {
            match to.lookup(to_name).await {
                Ok(_) => return Err(Errno::EEXIST.into()),
                Err(e) if e.is_not_found() => {}
                Err(e) => return Err(e),
            }
        }
        let request = Request {
            path2: self.inode.address_of(name),
            also: Some(self.inode.clone()),
            renames: Some((self.inode.clone(), name.to_vec())),
            ..Request::in_dir(&to.inode, to_name, op)
        };
        if let Err(e) = self.fs.call(request).await {
            // Servers look into a directory before they see that what is to take its place is none.
            let is_full = e.errno() == Errno::ENOTEMPTY && op == RequestOp::Rename;
            let takes_no_dirs = is_full && !self.lookup(name).await?.is_dir();
            return Err(if takes_no_dirs { Errno::EISDIR.into() } else { e });
        }
        if self.inode.id != to.inode.id {
            // The reply describes the other directory alone.
            self.inode.known().is_outdated = true;
        }
        Ok(())
    }
}

impl Node {
    /// Returns the inode that a reply must name.
    pub(super) fn named(
        &self,
        what: &'static str,
        target: Option<std::sync::Arc<crate::inode::Inode>>,
    ) -> Result<Self, Error> {
        target.map(|inode| self.fs.node(inode)).ok_or_else(|| missing(what, 0))
    }
}
