//! The clients that have an image open, and locks taken by users.
//!
//! An image's header has one lock, `rbd_lock`. The exclusive lock of the feature (`lock/mod.rs`), which
//! clients hand over to each other, uses the same lock as users do. A user's lock is only released by
//! its holder, or broken.

use std::sync::atomic::Ordering;

use loligo_rados::{Errno, LockInfo, LockMode, LockOptions, WatchItem};
use loligo_wire::{EntityNum, Name};

use crate::Error;
use crate::image::Image;
use crate::object_map::LOCK;

/// What happens to a client whose lock is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It is blocklisted, as by stock `rbd`: its requests in flight have no effect any more.
    Yes,
    /// It stays connected. A client of this crate notices the loss of the lock and makes no more changes
    /// ([`Error::LockBroken`]); librbd does not.
    No,
}

impl Image {
    /// Returns the watchers of the image's header, which have it open for writing, without this one.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn watchers(&self) -> Result<Vec<WatchItem>, Error> {
        let mut watchers = self.inner.io.watchers(&*self.inner.header).await?;
        let (own, cookie) = (self.inner.client_id().client, self.inner.cookie.load(Ordering::Acquire));
        watchers.retain(|watcher| watcher.cookie != cookie || u64::try_from(watcher.name.num) != Ok(own));
        Ok(watchers)
    }

    /// Returns the lock and its holders.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn lock_info(&self) -> Result<LockInfo, Error> {
        Ok(self.inner.io.lock_info(&*self.inner.header, LOCK).await?)
    }

    /// Locks the image for this client, on behalf of a user. With a `tag` the lock is shared with other
    /// holders that give the same tag. If the image has the feature exclusive-lock, other clients cannot
    /// write to it. The lock outlives this image.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image) -> Result<(), loligo_rbd::Error> {
    /// image.lock_by_hand("maintenance", None).await?;
    /// for holder in image.lock_info().await?.holders {
    ///     println!("{} {}", holder.client, holder.cookie);
    /// }
    /// image.unlock_by_hand("maintenance").await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::LockTaken`].
    pub async fn lock_by_hand(&self, cookie: impl Into<Name>, tag: Option<&Name>) -> Result<(), Error> {
        let cookie = &cookie.into();
        let inner = &self.inner;
        let mode = if tag.is_some() { LockMode::Shared } else { LockMode::Exclusive };
        let tag = tag.cloned().unwrap_or_default();
        let options = LockOptions { cookie: cookie.to_owned(), tag, ..LockOptions::default() };
        match inner.io.lock(&*inner.header, LOCK, mode, &options).await {
            Err(e) if [Errno::EBUSY, Errno::EEXIST].contains(&e.errno()) => {
                let holders = self.lock_info().await?.holders;
                let held =
                    |holder: &loligo_rados::LockHolder| format!("{} ({})", holder.client, holder.cookie);
                let by = holders.first().map_or_else(|| "somebody else".to_owned(), held);
                return Err(Error::LockTaken { by, errno: e.errno() });
            }
            done => done?,
        }
        inner.header_changed().await
    }

    /// Releases a lock that this client took by `Image::lock_by_hand`.
    ///
    /// # Errors
    /// [`Error::NoLock`].
    pub async fn unlock_by_hand(&self, cookie: impl Into<Name>) -> Result<(), Error> {
        let cookie = &cookie.into();
        let inner = &self.inner;
        match inner.io.unlock(&*inner.header, LOCK, cookie).await {
            Err(e) if e.is_not_found() => return Err(Error::NoLock(cookie.to_owned())),
            done => done?,
        }
        inner.header_changed().await
    }

    /// Breaks the lock of a client, of either kind.
    ///
    /// # Errors
    /// [`Error::NoLock`] if the client does not hold the lock under this cookie.
    pub async fn break_lock(
        &self,
        client: EntityNum,
        cookie: impl Into<Name>,
        evicted: Evicted,
    ) -> Result<(), Error> {
        let cookie = &cookie.into();
        let inner = &self.inner;
        let no_lock = || Error::NoLock(format!("{client} ({cookie})").into());
        let holders = self.lock_info().await?.holders;
        let holder = holders.iter().find(|holder| holder.client == client && holder.cookie == cookie);
        let holder = holder.ok_or_else(no_lock)?;
        if evicted == Evicted::Yes {
            let sock = holder.addr.sock.ok_or(Errno::EPROTO)?;
            inner.io.rados().block(&format!("{sock}/{}", holder.addr.nonce), None).await?;
        }
        match inner.io.break_lock(&*inner.header, LOCK, client, cookie).await {
            Err(e) if e.is_not_found() => return Err(no_lock()),
            done => done?,
        }
        inner.header_changed().await
    }
}
