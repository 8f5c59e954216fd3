//! An open image.
//!
//! [`Inner`] is the state of an open image (`state.rs`). What can be done with it is in modules above it,
//! each with methods of its own: `open.rs` here, reads and writes in `io/`, the exclusive lock in `lock/`,
//! clones in `clone/`, and so on.

mod feature_switch;
pub(crate) mod metadata;
mod open;
mod refresh;
pub(crate) mod resize;
mod state;
mod updates;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loligo_rados::{LockMode, PoolId, SnapId};
use loligo_stripe::Layout;
use loligo_wire::Name;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use self::state::CachedObjects;
pub(crate) use self::state::{GATE_PLACES, Inner, Link, Origin};
pub use self::updates::Updates;
use crate::Error;
use crate::header::{Format, View};
use crate::object_map::LOCK;

/// An open image, or an open snapshot of one. [`Image::close`] closes it; dropping it closes it in the
/// background.
pub struct Image {
    pub(crate) inner: Arc<Inner>,
    stop: Option<oneshot::Sender<()>>,
    task: Option<tokio::task::JoinHandle<()>>,
    runtime: Handle,
}

/// How an image is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Access to the header only. Also opens images whose data this crate cannot read: with unknown
    /// features, or being created by a migration.
    Header,
    /// Read only. Changes of the size by others are seen after [`Image::refresh`].
    ReadOnly,
    /// Read and write. The first write takes the exclusive lock; the image gives it up when another
    /// client requests it.
    ReadWrite,
}

/// Identifies an image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    Name(&'a Name),
    Id(&'a str),
    /// An image known by its id alone; the id stands for its name.
    Known {
        name: &'a [u8],
        id: &'a str,
    },
}

/// The image itself, or one of its snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) enum At<'a> {
    Head,
    Name(&'a Name),
    Id(SnapId),
}

impl Image {
    /// The same image for background work; dropping it releases neither the lock nor the watch.
    pub(crate) fn borrowed(inner: Arc<Inner>) -> Self {
        Self { inner, stop: None, task: None, runtime: Handle::current() }
    }

    /// Writes back the cache, then releases the exclusive lock, if this client owns it, and the watch.
    ///
    /// # Errors
    /// [`Error::WriteBack`] if data in the cache is lost, or an earlier write-back failed that was not
    /// reported yet; or the lock could not be released. The image is closed in each case.
    pub async fn close(mut self) -> Result<(), Error> {
        let released = self.inner.release_at_last().await;
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
        released
    }

    /// The image's name when it was opened.
    pub fn name(&self) -> &Name {
        &self.inner.name
    }

    /// The format of its header.
    pub fn format(&self) -> Format {
        self.inner.fixed.format
    }

    /// The image's id; empty for an image of format 1.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// The prefix of the names of its data objects.
    pub fn block_name_prefix(&self) -> &str {
        &self.inner.fixed.prefix
    }

    /// How the image's bytes map to objects.
    pub fn layout(&self) -> Layout {
        self.inner.fixed.layout
    }

    /// The base-2 logarithm of the object size.
    pub fn order(&self) -> u8 {
        self.inner.fixed.order
    }

    /// The data pool, if it differs from the header's pool.
    pub fn data_pool(&self) -> Option<PoolId> {
        self.inner.fixed.data_pool.map(PoolId)
    }

    /// The size in bytes of the open image or snapshot.
    pub fn size(&self) -> u64 {
        self.inner.size()
    }

    /// The header's contents when it was last read.
    pub fn view(&self) -> Arc<View> {
        self.inner.view.load_full()
    }

    /// Whether this image owns the exclusive lock, as far as it knows.
    pub fn is_lock_owner(&self) -> bool {
        self.inner.owned.load(Ordering::Acquire)
    }

    /// The mode in which the image is locked, by the exclusive lock or by a user's lock; `None` if it is
    /// not locked.
    ///
    /// # Errors
    /// The lock cannot be read.
    pub async fn lock_mode(&self) -> Result<Option<LockMode>, Error> {
        let info = self.inner.io.lock_info(&*self.inner.header, LOCK).await?;
        Ok(info.mode.filter(|_| !info.holders.is_empty()))
    }

    /// Reads the header again.
    ///
    /// # Errors
    /// The header cannot be read.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.inner.refresh().await
    }

    /// Takes the exclusive lock now, instead of at the first write.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Locked`] if a user has locked the image.
    pub async fn acquire_lock(&self) -> Result<(), Error> {
        self.inner.enter_alone().await.map(drop)
    }

    /// Takes the exclusive lock now and keeps it: requests of other clients are refused with EROFS until
    /// [`Image::release_lock`].
    ///
    /// # Errors
    /// As [`Image::acquire_lock`]; EROFS if another client keeps the lock in this way.
    pub async fn keep_lock(&self) -> Result<(), Error> {
        let acquired = self.inner.enter_alone().await?;
        // While no change runs, and before the lock can be asked for.
        self.inner.kept.store(true, Ordering::Release);
        drop(acquired);
        Ok(())
    }

    /// Releases the exclusive lock, if this client owns it, when the changes under way have ended. The next
    /// change takes it again.
    ///
    /// # Errors
    /// [`Error::WriteBack`] if data in the cache could not be written back; the lock is lost, or cannot be
    /// released.
    pub async fn release_lock(&self) -> Result<(), Error> {
        self.inner.check_watch()?;
        self.inner.kept.store(false, Ordering::Release);
        self.inner.release().await
    }

    /// Takes the exclusive lock now if it is free, for use with a cache, which holds data only while the
    /// lock is owned. Another owner is not asked to give it up. Returns `true` if this image owns the
    /// lock now, or if the image has no feature exclusive-lock.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; errors of the cluster.
    pub async fn acquire_free_lock(&self) -> Result<bool, Error> {
        self.inner.acquire_if_free().await
    }

    /// Whether no other client has the image open for writing.
    pub(crate) async fn is_alone(&self) -> Result<bool, Error> {
        let watchers = self.inner.io.watchers(&*self.inner.header).await?;
        let own = self.inner.cookie.load(Ordering::Acquire);
        Ok(watchers.iter().all(|watcher| watcher.cookie == own))
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let Some(stop) = self.stop.take() else { return };
        let (inner, task) = (Arc::clone(&self.inner), self.task.take());
        let closing = self.runtime.spawn(async move {
            let _ = inner.release_at_last().await;
            drop(stop);
            if let Some(task) = task {
                let _ = task.await;
            }
        });
        crate::progress::is_closing(closing);
    }
}
