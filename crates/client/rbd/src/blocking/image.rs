//! An image with a blocking API.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use loligo_rados::blocking::IoCtx;
use loligo_rados::{LockInfo, WatchItem};
use loligo_wire::{EntityNum, Name};
use tokio::runtime::Runtime;

use crate::diff::{Change, Grain};
use crate::group::Belonging;
use crate::{
    Allocation, Ancestry, Child, Error, Evicted, ImageCache, Mode, NewCopy, Parent, Shrink, Usage, View,
};

/// As [`crate::Image`]. [`Image::close`] closes it; dropping it closes it too, and ignores errors.
pub struct Image {
    /// `None` after it was closed.
    inner: Option<crate::Image>,
    runtime: Arc<Runtime>,
}

/// Each method is as the one of the same name in [`crate::Image`].
impl Image {
    /// Opens an image by its name.
    pub fn open(io: &IoCtx, name: impl Into<Name>, mode: Mode) -> Result<Self, Error> {
        Self::opened(io, crate::Image::open(io.asynchronous(), name, mode))
    }

    /// Opens an image by its id.
    pub fn open_by_id(io: &IoCtx, id: &str, mode: Mode) -> Result<Self, Error> {
        Self::opened(io, crate::Image::open_by_id(io.asynchronous(), id, mode))
    }

    /// Opens a snapshot of an image for reading.
    pub fn open_snapshot(
        io: &IoCtx,
        name: impl Into<Name>,
        snapshot: impl Into<Name>,
    ) -> Result<Self, Error> {
        Self::opened(io, crate::Image::open_snapshot(io.asynchronous(), name, snapshot))
    }

    fn opened(io: &IoCtx, image: impl Future<Output = Result<crate::Image, Error>>) -> Result<Self, Error> {
        let inner = Some(io.runtime().block_on(image)?);
        Ok(Self { inner, runtime: Arc::clone(io.runtime()) })
    }

    /// Adds a cache to the image. Threads of the connection write it back, also between calls.
    pub fn cached(mut self, cache: &ImageCache) -> Result<Self, Error> {
        let inner = self.inner.take().unwrap_or_else(|| unreachable!("who closes it has it no more"));
        let _entered = self.runtime.enter();
        self.inner = Some(inner.cached(cache)?);
        Ok(self)
    }

    /// Writes back all cached objects of a range.
    pub fn flush_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.wait(self.asynchronous().flush_range(offset, len))
    }

    /// Writes back the cache, then releases the exclusive lock, if this client owns it, and the watch.
    pub fn close(mut self) -> Result<(), Error> {
        self.end()
    }

    fn end(&mut self) -> Result<(), Error> {
        self.inner.take().map_or(Ok(()), |inner| self.runtime.block_on(inner.close()))
    }

    /// The asynchronous image.
    pub fn asynchronous(&self) -> &crate::Image {
        self.inner.as_ref().unwrap_or_else(|| unreachable!("who closes it has it no more"))
    }

    /// The image's name when it was opened.
    pub fn name(&self) -> &Name {
        self.asynchronous().name()
    }

    /// The image's id.
    pub fn id(&self) -> &str {
        self.asynchronous().id()
    }

    /// The size in bytes of the open image or snapshot.
    pub fn size(&self) -> u64 {
        self.asynchronous().size()
    }

    /// The header's contents when it was last read.
    pub fn view(&self) -> Arc<View> {
        self.asynchronous().view()
    }

    /// Whether this image owns the exclusive lock, as far as it knows.
    pub fn is_lock_owner(&self) -> bool {
        self.asynchronous().is_lock_owner()
    }

    /// Reads the header again.
    pub fn refresh(&self) -> Result<(), Error> {
        self.wait(self.asynchronous().refresh())
    }

    /// Takes the exclusive lock now.
    pub fn acquire_lock(&self) -> Result<(), Error> {
        self.wait(self.asynchronous().acquire_lock())
    }

    /// Takes the exclusive lock now if it is free. Returns `true` if this image owns it now.
    pub fn acquire_free_lock(&self) -> Result<bool, Error> {
        self.wait(self.asynchronous().acquire_free_lock())
    }

    /// Reads bytes, fewer if the image ends before.
    pub fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        self.wait(self.asynchronous().read(offset, len))
    }

    /// Writes bytes.
    pub fn write(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        self.wait(self.asynchronous().write(offset, data))
    }

    /// Releases the space of a range.
    pub fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.wait(self.asynchronous().discard(offset, len))
    }

    /// Zeroes a range.
    pub fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.wait(self.asynchronous().write_zeroes(offset, len))
    }

    /// Writes a pattern repeatedly.
    pub fn write_same(&self, offset: u64, len: u64, pattern: Bytes) -> Result<(), Error> {
        self.wait(self.asynchronous().write_same(offset, len, pattern))
    }

    /// Writes if the current data is as expected.
    pub fn compare_and_write(&self, offset: u64, expected: Bytes, data: Bytes) -> Result<(), Error> {
        self.wait(self.asynchronous().compare_and_write(offset, expected, data))
    }

    /// Waits until all changes in flight are durable, including those in a cache.
    pub fn flush(&self) -> Result<(), Error> {
        self.wait(self.asynchronous().flush())
    }

    /// Returns the parts of a range that have objects.
    pub fn allocation(&self, offset: u64, len: u64) -> Result<Vec<Allocation>, Error> {
        self.wait(self.asynchronous().allocation(offset, len))
    }

    /// Returns the differences from a snapshot, or from nothing.
    pub fn diff(
        &self,
        from: Option<&Name>,
        grain: Grain,
    ) -> Result<impl Iterator<Item = Result<Change, Error>> + use<'_>, Error> {
        let mut changes = self.wait(self.asynchronous().diff(from, grain))?;
        Ok(std::iter::from_fn(move || self.wait(changes.next())))
    }

    /// Resizes the image.
    pub fn resize(&self, size: u64, shrink: Shrink) -> Result<(), Error> {
        self.wait(self.asynchronous().resize(size, shrink))
    }

    /// Creates a snapshot.
    pub fn create_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().create_snapshot(name))
    }

    /// Removes a snapshot.
    pub fn remove_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().remove_snapshot(name))
    }

    /// Renames a snapshot.
    pub fn rename_snapshot(&self, from: impl Into<Name>, to: impl Into<Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().rename_snapshot(from, to))
    }

    /// Protects a snapshot from removal.
    pub fn protect_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().protect_snapshot(name))
    }

    /// Removes the protection of a snapshot.
    pub fn unprotect_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().unprotect_snapshot(name))
    }

    /// Restores the image's data from a snapshot.
    pub fn roll_back(&self, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        self.wait(self.asynchronous().roll_back(name, progress))
    }

    /// Returns the parent, if the image is a clone.
    pub fn parent(&self) -> Result<Option<Parent>, Error> {
        self.wait(self.asynchronous().parent())
    }

    /// Returns the group that the image belongs to.
    pub fn group(&self) -> Result<Option<Belonging>, Error> {
        self.wait(self.asynchronous().group())
    }

    /// Returns the clones of a snapshot, or of all snapshots.
    pub fn children(&self, snapshot: Option<&Name>) -> Result<Vec<Child>, Error> {
        self.wait(self.asynchronous().children(snapshot))
    }

    /// Detaches a clone from its parent.
    pub fn flatten(&self, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        self.wait(self.asynchronous().flatten(progress))
    }

    /// Creates a copy of the data.
    pub fn copy(
        &self,
        io: &IoCtx,
        name: impl Into<Name>,
        new: NewCopy,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        self.wait(self.asynchronous().copy(io.asynchronous(), name, new, progress))
    }

    /// Creates a copy of the data, snapshots and parent.
    pub fn deep_copy(
        &self,
        io: &IoCtx,
        name: impl Into<Name>,
        new: NewCopy,
        ancestry: Ancestry,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        self.wait(self.asynchronous().deep_copy(io.asynchronous(), name, new, ancestry, progress))
    }

    /// Returns the usage of each snapshot and of the image.
    pub fn usage(&self) -> Result<Vec<Usage>, Error> {
        self.wait(self.asynchronous().usage())
    }

    /// Switches features on.
    pub fn enable_features(&self, features: u64) -> Result<(), Error> {
        self.wait(self.asynchronous().enable_features(features))
    }

    /// Switches features off.
    pub fn disable_features(&self, features: u64) -> Result<(), Error> {
        self.wait(self.asynchronous().disable_features(features))
    }

    /// Compares the object map with the objects.
    pub fn check_object_map(&self) -> Result<Vec<u64>, Error> {
        self.wait(self.asynchronous().check_object_map())
    }

    /// Rebuilds the object maps.
    pub fn rebuild_object_map(&self, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        self.wait(self.asynchronous().rebuild_object_map(progress))
    }

    /// Returns the image's metadata.
    pub fn metadata(&self) -> Result<BTreeMap<Name, Bytes>, Error> {
        self.wait(self.asynchronous().metadata())
    }

    /// Sets the value of a key.
    pub fn set_metadata(&self, key: impl Into<Name>, value: Bytes) -> Result<(), Error> {
        self.wait(self.asynchronous().set_metadata(key, value))
    }

    /// Removes a key.
    pub fn remove_metadata(&self, key: impl Into<Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().remove_metadata(key))
    }

    /// Returns the watchers of the header.
    pub fn watchers(&self) -> Result<Vec<WatchItem>, Error> {
        self.wait(self.asynchronous().watchers())
    }

    /// Returns the lock and its holders.
    pub fn lock_info(&self) -> Result<LockInfo, Error> {
        self.wait(self.asynchronous().lock_info())
    }

    /// Locks the image on behalf of a user.
    pub fn lock_by_hand(&self, cookie: impl Into<Name>, tag: Option<&Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().lock_by_hand(cookie, tag))
    }

    /// Releases a user's lock.
    pub fn unlock_by_hand(&self, cookie: impl Into<Name>) -> Result<(), Error> {
        self.wait(self.asynchronous().unlock_by_hand(cookie))
    }

    /// Breaks the lock of a client.
    pub fn break_lock(
        &self,
        client: EntityNum,
        cookie: impl Into<Name>,
        evicted: Evicted,
    ) -> Result<(), Error> {
        self.wait(self.asynchronous().break_lock(client, cookie, evicted))
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
