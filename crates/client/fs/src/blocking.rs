//! The file system without `async`, for threads that may block.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Runtime;

use crate::{
    Caps, Changes, DirEntry, Error, Lock, LockKind, Metadata, MountOptions, NodeId, OpenOptions, RenameFlags,
    Space, XattrMode,
};

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

/// Blocking form of [`crate::Node`].
#[derive(Clone, Debug)]
pub struct Node {
    inner: crate::Node,
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

    /// See [`crate::FileSystem::root`].
    pub fn root(&self) -> Result<Node, Error> {
        self.inner.root().map(|node| self.node(node))
    }

    /// See [`crate::FileSystem::find`].
    pub fn find(&self, path: impl AsRef<[u8]>) -> Result<Node, Error> {
        self.runtime.block_on(self.inner.find(path)).map(|node| self.node(node))
    }

    /// See [`crate::FileSystem::find_link`].
    pub fn find_link(&self, path: impl AsRef<[u8]>) -> Result<Node, Error> {
        self.runtime.block_on(self.inner.find_link(path)).map(|node| self.node(node))
    }

    /// See [`crate::FileSystem::node_by_id`].
    pub fn node_by_id(&self, id: NodeId) -> Result<Node, Error> {
        self.runtime.block_on(self.inner.node_by_id(id)).map(|node| self.node(node))
    }

    fn node(&self, inner: crate::Node) -> Node {
        Node { inner, runtime: Arc::clone(&self.runtime) }
    }

    waits! {
        /// See [`crate::FileSystem::sync`].
        sync() -> ();
        /// See [`crate::FileSystem::statfs`].
        statfs() -> Space;
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

    /// See [`crate::File::copy_range`].
    pub fn copy_range(&self, offset: u64, to: &Self, to_offset: u64, len: u64) -> Result<u64, Error> {
        self.runtime.block_on(self.inner.copy_range(offset, &to.inner, to_offset, len))
    }

    waits! {
        /// See [`crate::File::read_vectored_at`].
        read_vectored_at(offset: u64, lens: &[u64]) -> Vec<Bytes>;
        /// See [`crate::File::write_vectored_at`].
        write_vectored_at(offset: u64, parts: &[Bytes]) -> ();
        /// See [`crate::File::fallocate`].
        fallocate(mode: i32, offset: u64, len: u64) -> ();
        /// See [`crate::File::seek_data`].
        seek_data(offset: u64) -> u64;
        /// See [`crate::File::seek_hole`].
        seek_hole(offset: u64) -> u64;
        /// See [`crate::File::lazyio_propagate`].
        lazyio_propagate(offset: u64, len: u64) -> ();
        /// See [`crate::File::lazyio_synchronize`].
        lazyio_synchronize(offset: u64, len: u64) -> ();
        /// See [`crate::File::lock`].
        lock(lock: Lock, wait: bool) -> ();
        /// See [`crate::File::lock_whole`].
        lock_whole(kind: LockKind, owner: u64, wait: bool) -> ();
        /// See [`crate::File::find_lock`].
        find_lock(lock: Lock) -> Option<Lock>;
        /// See [`crate::File::unlock_all`].
        unlock_all(owner: u64) -> ();
        /// See [`crate::File::stat`].
        stat() -> Metadata;
        /// See [`crate::File::read_at`].
        read_at(offset: u64, len: u64) -> Bytes;
        /// See [`crate::File::read_into`].
        read_into(offset: u64, buf: &mut [u8]) -> usize;
        /// See [`crate::File::read_pieces_at`].
        read_pieces_at(offset: u64, len: u64) -> Vec<Bytes>;
        /// See [`crate::File::write_at`].
        write_at(offset: u64, data: impl Into<Bytes>) -> ();
        /// See [`crate::File::write_owned_at`].
        write_owned_at(offset: u64, data: impl Into<Bytes>) -> ();
        /// See [`crate::File::write_back_at`].
        write_back_at(offset: u64, data: impl Into<Bytes>) -> ();
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

impl Node {
    /// Returns the asynchronous form.
    pub fn asynchronous(&self) -> &crate::Node {
        &self.inner
    }

    /// See [`crate::Node::lookup`].
    pub fn lookup(&self, name: impl AsRef<[u8]>) -> Result<Self, Error> {
        self.runtime.block_on(self.inner.lookup(name)).map(|node| self.other(node))
    }

    /// See [`crate::Node::mkdir`].
    pub fn mkdir(&self, name: impl AsRef<[u8]>, permissions: u32) -> Result<Self, Error> {
        self.runtime.block_on(self.inner.mkdir(name, permissions)).map(|node| self.other(node))
    }

    /// See [`crate::Node::mknod`].
    pub fn mknod(&self, name: impl AsRef<[u8]>, mode: u32, rdev: u32) -> Result<Self, Error> {
        self.runtime.block_on(self.inner.mknod(name, mode, rdev)).map(|node| self.other(node))
    }

    /// See [`crate::Node::symlink`].
    pub fn symlink(&self, name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> Result<Self, Error> {
        self.runtime.block_on(self.inner.symlink(name, target)).map(|node| self.other(node))
    }

    /// See [`crate::Node::link`].
    pub fn link(&self, name: impl AsRef<[u8]>, existing: &Self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.link(name, &existing.inner))
    }

    /// See [`crate::Node::rename`].
    pub fn rename(
        &self,
        name: impl AsRef<[u8]>,
        to: &Self,
        to_name: impl AsRef<[u8]>,
        flags: RenameFlags,
    ) -> Result<(), Error> {
        self.runtime.block_on(self.inner.rename(name, &to.inner, to_name, flags))
    }

    /// See [`crate::Node::open`].
    pub fn open(&self, options: OpenOptions) -> Result<File, Error> {
        self.runtime.block_on(self.inner.open(options)).map(|file| self.file(file))
    }

    /// See [`crate::Node::create`].
    pub fn create(&self, name: impl AsRef<[u8]>, options: OpenOptions) -> Result<(Self, File, bool), Error> {
        let (node, file, is_new) = self.runtime.block_on(self.inner.create(name, options))?;
        Ok((self.other(node), self.file(file), is_new))
    }

    /// See [`crate::Node::read_dir`].
    pub fn read_dir(&self) -> Result<ReadDir, Error> {
        self.inner.read_dir().map(|inner| ReadDir { inner, runtime: Arc::clone(&self.runtime) })
    }

    fn other(&self, inner: crate::Node) -> Self {
        Self { inner, runtime: Arc::clone(&self.runtime) }
    }

    fn file(&self, inner: crate::File) -> File {
        File { inner, runtime: Arc::clone(&self.runtime) }
    }

    waits! {
        /// See [`crate::Node::stat`].
        stat(mask: Caps) -> Metadata;
        /// See [`crate::Node::set`].
        set(changes: &Changes) -> ();
        /// See [`crate::Node::read_link`].
        read_link() -> Vec<u8>;
        /// See [`crate::Node::unlink`].
        unlink(name: impl AsRef<[u8]>) -> ();
        /// See [`crate::Node::rmdir`].
        rmdir(name: impl AsRef<[u8]>) -> ();
        /// See [`crate::Node::xattr`].
        xattr(name: impl AsRef<[u8]>) -> Bytes;
        /// See [`crate::Node::list_xattrs`].
        list_xattrs() -> Vec<Vec<u8>>;
        /// See [`crate::Node::set_xattr`].
        set_xattr(name: impl AsRef<[u8]>, value: impl Into<Bytes>, how: XattrMode) -> ();
        /// See [`crate::Node::remove_xattr`].
        remove_xattr(name: impl AsRef<[u8]>) -> ();
    }
}

impl Iterator for ReadDir {
    type Item = Result<DirEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.inner.next()).transpose()
    }
}
