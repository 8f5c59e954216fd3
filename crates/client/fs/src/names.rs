//! Names: making, removing and moving them.

use loligo_rados::Errno;
use loligo_wire::message::mds::{FilePath, RequestOp, SnapPayload};
use loligo_wire::{Caps, Encode as _};

use crate::error::Error;
use crate::inode::{Inode, mode};
use crate::metadata::Metadata;
use crate::mount::FileSystem;
use crate::session::Request;
use crate::walk::Last;

/// What a name leads to, without its data.
impl FileSystem {
    /// Describes a file, directory or device. Symbolic links are followed.
    pub async fn stat(&self, path: impl AsRef<[u8]>) -> Result<Metadata, Error> {
        self.described(path.as_ref(), Last::Follow).await
    }

    /// Like [`stat`](Self::stat), but describes a symbolic link itself.
    pub async fn lstat(&self, path: impl AsRef<[u8]>) -> Result<Metadata, Error> {
        self.described(path.as_ref(), Last::Keep).await
    }

    async fn described(&self, path: &[u8], last: Last) -> Result<Metadata, Error> {
        let inode = self.core.walk(path, last).await?;
        self.core.refresh(&inode, Caps::STAT).await?;
        let known = inode.known();
        Ok(Metadata::of(inode.id, &known.attrs))
    }

    /// Returns a symbolic link's target.
    ///
    /// # Errors
    /// EINVAL if it is no link.
    pub async fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        let inode = self.core.walk(path.as_ref(), Last::Keep).await?;
        if inode.kind() != mode::SYMLINK {
            return Err(Errno::EINVAL.into());
        }
        self.core.link_target(&inode).await
    }
}

/// New names.
impl FileSystem {
    /// Makes a directory. In a directory's `.snap` it makes a snapshot of the directory.
    ///
    /// # Errors
    /// EEXIST if there is something of this name.
    pub async fn create_dir(&self, path: impl AsRef<[u8]>, permissions: u32) -> Result<(), Error> {
        let (dir, name) = self.core.walk_to_parent(path.as_ref()).await?;
        let request = match dir.id.is_snap_dir() {
            true => Request {
                data: SnapPayload::default().to_bytes(),
                ..Request::in_dir(&dir, &name, RequestOp::MkSnap { mode: 0 })
            },
            false => {
                writable(&dir)?;
                let mode = permissions & mode::PERMISSIONS;
                Request::in_dir(&dir, &name, RequestOp::MkDir { mode })
            }
        };
        self.core.call(request).await.map(drop)
    }

    /// Makes a directory and those above it that do not exist.
    pub async fn create_dir_all(&self, path: impl AsRef<[u8]>, permissions: u32) -> Result<(), Error> {
        let path = path.as_ref();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let part = &path[..end];
            if part.iter().all(|byte| *byte == b'/') {
                continue;
            }
            match self.create_dir(part, permissions).await {
                Err(e) if e.errno() == Errno::EEXIST => {}
                other => other?,
            }
        }
        if self.stat(path).await?.is_dir() { Ok(()) } else { Err(Errno::ENOTDIR.into()) }
    }

    /// Makes a symbolic link.
    pub async fn symlink(&self, target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (dir, name) = self.core.walk_to_parent(path.as_ref()).await?;
        writable(&dir)?;
        let path2 = FilePath::name(target.as_ref());
        let request = Request { path2, ..Request::in_dir(&dir, &name, RequestOp::SymLink) };
        self.core.call(request).await.map(drop)
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// EPERM for directories.
    pub async fn link(&self, existing: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let inode = self.core.walk(existing.as_ref(), Last::Keep).await?;
        if inode.is_dir() {
            return Err(Errno::EPERM.into());
        }
        let (dir, name) = self.core.walk_to_parent(path.as_ref()).await?;
        writable(&dir)?;
        if !inode.id.is_head() {
            return Err(Errno::EXDEV.into());
        }
        let request = Request {
            path2: inode.address.clone(),
            also: Some(inode),
            ..Request::in_dir(&dir, &name, RequestOp::Link)
        };
        self.core.call(request).await.map(drop)
    }

    /// Makes a file, a named pipe, a socket or a device. `mode` has the type's bits, as `mknod(2)` takes
    /// them; without any it is a file.
    pub async fn make_node(&self, path: impl AsRef<[u8]>, mode: u32, rdev: u32) -> Result<(), Error> {
        let (dir, name) = self.core.walk_to_parent(path.as_ref()).await?;
        writable(&dir)?;
        let mode = match mode & mode::TYPE {
            0 => mode::regular(mode),
            mode::DIRECTORY => return Err(Errno::EPERM.into()),
            _ => mode,
        };
        self.core.call(Request::in_dir(&dir, &name, RequestOp::MkNod { mode, rdev })).await.map(drop)
    }
}

/// Names that go.
impl FileSystem {
    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// EISDIR for a directory.
    pub async fn remove_file(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (dir, name) = self.core.walk_to_parent(path.as_ref()).await?;
        writable(&dir)?;
        self.core.call(Request::in_dir(&dir, &name, RequestOp::Unlink)).await.map(drop)
    }

    /// Removes an empty directory. In a directory's `.snap` it removes a snapshot.
    ///
    /// # Errors
    /// ENOTEMPTY if it is not empty.
    pub async fn remove_dir(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (dir, name) = self.core.walk_to_parent(path.as_ref()).await?;
        let op = if dir.id.is_snap_dir() { RequestOp::RmSnap } else { RequestOp::RmDir };
        if !dir.id.is_snap_dir() {
            writable(&dir)?;
        }
        self.core.call(Request::in_dir(&dir, &name, op)).await?;
        dir.known().entries.remove(&name);
        Ok(())
    }

    /// Moves a name, over an existing one if that is a file, or an empty directory for a directory. In a
    /// directory's `.snap` it renames a snapshot.
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        let (from_dir, from_name) = self.core.walk_to_parent(from.as_ref()).await?;
        let (to_dir, to_name) = self.core.walk_to_parent(to.as_ref()).await?;
        let op = match (from_dir.id.is_snap_dir(), to_dir.id.is_snap_dir()) {
            (true, true) if from_dir.id == to_dir.id => RequestOp::RenameSnap,
            (false, false) => {
                writable(&from_dir)?;
                writable(&to_dir)?;
                RequestOp::Rename
            }
            _ => return Err(Errno::EXDEV.into()),
        };
        let request = Request {
            path2: from_dir.address_of(&from_name),
            also: Some(from_dir.clone()),
            ..Request::in_dir(&to_dir, &to_name, op)
        };
        self.core.call(request).await?;
        from_dir.known().entries.remove(&from_name);
        Ok(())
    }
}

/// Refuses changes in a snapshot.
pub(crate) fn writable(dir: &Inode) -> Result<(), Errno> {
    if dir.id.is_head() { Ok(()) } else { Err(Errno::EROFS) }
}

/// Returns an error unless the inode is a file with data.
pub(crate) fn regular_file(inode: &Inode) -> Result<(), Errno> {
    match inode.kind() {
        mode::REGULAR => Ok(()),
        mode::DIRECTORY => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}
