//! Names, by paths: making, removing and moving them.

use loligo_rados::Errno;
use loligo_wire::Caps;

use crate::error::Error;
use crate::metadata::{FileType, Metadata};
use crate::mount::FileSystem;
use crate::node::{Node, RenameFlags};
use crate::path;
use crate::walk::Last;

impl FileSystem {
    /// Finds what a path names; symbolic links are followed.
    pub async fn find(&self, path: impl AsRef<[u8]>) -> Result<Node, Error> {
        self.found(path.as_ref(), Last::Follow).await
    }

    /// Like [`find`](Self::find), but finds a symbolic link itself.
    pub async fn find_link(&self, path: impl AsRef<[u8]>) -> Result<Node, Error> {
        self.found(path.as_ref(), Last::Keep).await
    }

    pub(crate) async fn found(&self, path: &[u8], last: Last) -> Result<Node, Error> {
        Ok(self.node(self.walk(path, last).await?))
    }

    /// Finds the directory of a path's last name, which need not exist.
    pub(crate) async fn dir_of(&self, path: &[u8]) -> Result<(Node, Vec<u8>), Error> {
        let (dir, name) = self.walk_to_parent(path).await?;
        Ok((self.node(dir), name))
    }

    /// Like [`dir_of`](Self::dir_of), for the new name of what is no directory: a slash behind it is refused
    /// as by `link(2)`.
    async fn dir_of_new(&self, path: &[u8]) -> Result<(Node, Vec<u8>), Error> {
        let (dir, name) = self.dir_of(path).await?;
        if path::ends_with_slash(path) {
            dir.lookup(&name).await?;
            return Err(Errno::EEXIST.into());
        }
        Ok((dir, name))
    }

    /// Like [`dir_of`](Self::dir_of), for a name that is to go: `otherwise` tells what is wrong with a path
    /// that ends with `.` or `..`, and with the root.
    async fn dir_with(
        &self,
        path: &[u8],
        otherwise: impl FnOnce(&[u8]) -> Errno,
    ) -> Result<(Node, Vec<u8>), Error> {
        let is_name = path::parent_and_name(path).is_some();
        self.dir_of(path).await.map_err(|e| match e.errno() {
            Errno::EEXIST if !is_name => otherwise(path).into(),
            _ => e,
        })
    }
}

/// What a name leads to, without its data.
impl FileSystem {
    /// Describes a file, directory or device. Symbolic links are followed.
    pub async fn stat(&self, path: impl AsRef<[u8]>) -> Result<Metadata, Error> {
        self.find(path).await?.stat(Caps::STAT).await
    }

    /// Like [`stat`](Self::stat), but describes a symbolic link itself.
    pub async fn lstat(&self, path: impl AsRef<[u8]>) -> Result<Metadata, Error> {
        self.find_link(path).await?.stat(Caps::STAT).await
    }

    /// Returns a symbolic link's target.
    ///
    /// # Errors
    /// EINVAL if it is no link.
    pub async fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
        self.find_link(path).await?.read_link().await
    }
}

/// New names.
impl FileSystem {
    /// Makes a directory. In a directory's `.snap` it makes a snapshot of the directory.
    ///
    /// # Errors
    /// EEXIST if there is something of this name.
    pub async fn create_dir(&self, path: impl AsRef<[u8]>, permissions: u32) -> Result<(), Error> {
        let (dir, name) = self.dir_of(path.as_ref()).await?;
        dir.mkdir(&name, permissions).await.map(drop)
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
        let (dir, name) = self.dir_of_new(path.as_ref()).await?;
        dir.symlink(&name, target).await.map(drop)
    }

    /// Gives a file a second name.
    ///
    /// # Errors
    /// EPERM for directories.
    pub async fn link(&self, existing: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let node = self.find_link(existing).await?;
        let (dir, name) = self.dir_of_new(path.as_ref()).await?;
        dir.link(&name, &node).await
    }

    /// Makes a file, a named pipe, a socket or a device. `mode` has the type's bits, as `mknod(2)` takes
    /// them; without any it is a file.
    pub async fn make_node(&self, path: impl AsRef<[u8]>, mode: u32, rdev: u32) -> Result<(), Error> {
        let (dir, name) = self.dir_of_new(path.as_ref()).await?;
        dir.mknod(&name, mode, rdev).await.map(drop)
    }
}

/// Names that go.
impl FileSystem {
    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// EISDIR for a directory.
    pub async fn remove_file(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let path = path.as_ref();
        let (dir, name) = self.dir_with(path, |_| Errno::EISDIR).await?;
        if path::ends_with_slash(path) {
            let is_dir = dir.lookup(&name).await?.file_type() == FileType::Directory;
            return Err(if is_dir { Errno::EISDIR } else { Errno::ENOTDIR }.into());
        }
        dir.unlink(&name).await
    }

    /// Removes an empty directory. In a directory's `.snap` it removes a snapshot.
    ///
    /// # Errors
    /// ENOTEMPTY if it is not empty.
    pub async fn remove_dir(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (dir, name) = self.dir_with(path.as_ref(), path::why_not_removed).await?;
        dir.rmdir(&name).await
    }

    /// Moves a name, over an existing one if that is a file, or an empty directory for a directory. In a
    /// directory's `.snap` it renames a snapshot.
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let (from_dir, from_name) = self.dir_with(from, |_| Errno::EBUSY).await?;
        let (to_dir, to_name) = self.dir_with(to, |_| Errno::EBUSY).await?;
        // A slash behind either name says that a directory moves.
        if (path::ends_with_slash(from) || path::ends_with_slash(to))
            && from_dir.lookup(&from_name).await?.file_type() != FileType::Directory
        {
            return Err(Errno::ENOTDIR.into());
        }
        from_dir.rename(&from_name, &to_dir, &to_name, RenameFlags::default()).await
    }
}
