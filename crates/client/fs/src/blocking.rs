//! The file system without `async`, for threads that may block.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Runtime;

use crate::{Changes, DirEntry, Error, Metadata, MountOptions, OpenOptions, XattrMode};

/// Blocking form of [`crate::FileSystem`]. Must not be used on a thread of an asynchronous runtime.
#[derive(Clone, Debug)]
pub struct FileSystem {
    inner: crate::FileSystem,
    runtime: Arc<Runtime>,
}

/// Blocking form of [`crate::File`].
#[derive(Debug)]
pub struct File {
    inner: crate::File,
    runtime: Arc<Runtime>,
}

/// Blocking form of [`crate::ReadDir`]: an iterator.
#[derive(Debug)]
pub struct ReadDir {
    inner: crate::ReadDir,
    runtime: Arc<Runtime>,
}

/// Defines methods that wait for those of the asynchronous form.
macro_rules! waits {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        $($(#[$doc])* pub fn $name(&self $(, $arg: $ty)*) -> Result<$out, Error> {
            self.runtime.block_on(self.inner.$name($($arg),*))
        })*
    };
}

impl FileSystem {
    /// Mounts a file system of a connected client. `runtime` runs the client and the mount.
    pub fn mount(
        rados: &loligo_rados::Rados,
        runtime: &Arc<Runtime>,
        options: MountOptions,
    ) -> Result<Self, Error> {
        let inner = runtime.block_on(crate::FileSystem::mount(rados, options))?;
        Ok(Self { inner, runtime: Arc::clone(runtime) })
    }

    /// Returns the asynchronous form.
    pub fn asynchronous(&self) -> &crate::FileSystem {
        &self.inner
    }

    /// See [`crate::FileSystem::unmount`].
    pub fn unmount(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.unmount())
    }

    /// See [`crate::FileSystem::open`].
    pub fn open(&self, path: impl AsRef<[u8]>, options: OpenOptions) -> Result<File, Error> {
        let inner = self.runtime.block_on(self.inner.open(path, options))?;
        Ok(File { inner, runtime: Arc::clone(&self.runtime) })
    }

    /// See [`crate::FileSystem::read_dir`].
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<ReadDir, Error> {
        let inner = self.runtime.block_on(self.inner.read_dir(path))?;
        Ok(ReadDir { inner, runtime: Arc::clone(&self.runtime) })
    }

    waits! {
        /// See [`crate::FileSystem::sync`].
        sync() -> ();
        /// See [`crate::FileSystem::stat`].
        stat(path: impl AsRef<[u8]>) -> Metadata;
        /// See [`crate::FileSystem::lstat`].
        lstat(path: impl AsRef<[u8]>) -> Metadata;
        /// See [`crate::FileSystem::statistics`].
        statistics(path: impl AsRef<[u8]>) -> Metadata;
        /// See [`crate::FileSystem::read_link`].
        read_link(path: impl AsRef<[u8]>) -> Vec<u8>;
        /// See [`crate::FileSystem::create_dir`].
        create_dir(path: impl AsRef<[u8]>, permissions: u32) -> ();
        /// See [`crate::FileSystem::create_dir_all`].
        create_dir_all(path: impl AsRef<[u8]>, permissions: u32) -> ();
        /// See [`crate::FileSystem::symlink`].
        symlink(target: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> ();
        /// See [`crate::FileSystem::link`].
        link(existing: impl AsRef<[u8]>, path: impl AsRef<[u8]>) -> ();
        /// See [`crate::FileSystem::make_node`].
        make_node(path: impl AsRef<[u8]>, mode: u32, rdev: u32) -> ();
        /// See [`crate::FileSystem::remove_file`].
        remove_file(path: impl AsRef<[u8]>) -> ();
        /// See [`crate::FileSystem::remove_dir`].
        remove_dir(path: impl AsRef<[u8]>) -> ();
        /// See [`crate::FileSystem::rename`].
        rename(from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> ();
        /// See [`crate::FileSystem::change`].
        change(path: impl AsRef<[u8]>, changes: Changes) -> ();
        /// See [`crate::FileSystem::change_link`].
        change_link(path: impl AsRef<[u8]>, changes: Changes) -> ();
        /// See [`crate::FileSystem::truncate`].
        truncate(path: impl AsRef<[u8]>, size: u64) -> ();
        /// See [`crate::FileSystem::xattr`].
        xattr(path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Bytes;
        /// See [`crate::FileSystem::xattrs`].
        xattrs(path: impl AsRef<[u8]>) -> Vec<Vec<u8>>;
        /// See [`crate::FileSystem::set_xattr`].
        set_xattr(path: impl AsRef<[u8]>, name: impl AsRef<[u8]>, value: impl Into<Bytes>, how: XattrMode) -> ();
        /// See [`crate::FileSystem::remove_xattr`].
        remove_xattr(path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> ();
    }
}

impl File {
    /// Returns the asynchronous form.
    pub fn asynchronous(&self) -> &crate::File {
        &self.inner
    }

    /// See [`crate::File::close`].
    pub fn close(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.close())
    }

    waits! {
        /// See [`crate::File::stat`].
        stat() -> Metadata;
        /// See [`crate::File::read_at`].
        read_at(offset: u64, len: u64) -> Bytes;
        /// See [`crate::File::write_at`].
        write_at(offset: u64, data: impl Into<Bytes>) -> ();
        /// See [`crate::File::append`].
        append(data: impl Into<Bytes>) -> u64;
        /// See [`crate::File::punch_hole`].
        punch_hole(offset: u64, len: u64) -> ();
        /// See [`crate::File::truncate`].
        truncate(size: u64) -> ();
        /// See [`crate::File::sync`].
        sync() -> ();
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.inner.next()).transpose()
    }
}
