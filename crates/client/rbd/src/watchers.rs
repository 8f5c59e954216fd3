//! Who has an image open, and locks that people take by hand.
//!
//! There is one lock on an image's header, `rbd_lock`: that of the feature exclusive-lock (`lock.rs`), which
//! clients hand to each other, is the same as the one by hand, which nobody gives up but who took it, or who
//! breaks it.

use std::sync::atomic::Ordering;

use loligo_rados::{Errno, LockInfo, LockMode, LockOptions, WatchItem};
use loligo_wire::{EntityNum, Name};

use crate::Error;
use crate::error::EBUSY;
use crate::image::Image;
use crate::object_map::LOCK;

/// What becomes of a client whose lock is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evicted {
    /// It is kept out of the cluster (the blocklist), as stock `rbd` has it: what it has under way changes
    /// nothing any more.
    Yes,
    /// It may go on. A client of this crate notices that its lock is gone, and changes nothing any more
    /// ([`Error::LockBroken`]); librbd does not.
    No,
}

impl Image {
    /// Who watches the image's header, that is has it open for writing; without this.
    ///
    /// # Errors
    /// They cannot be read.
    pub async fn watchers(&self) -> Result<Vec<WatchItem>, Error> {
        let mut watchers = self.inner.io.watchers(&*self.inner.header).await?;
        let (own, cookie) = (self.inner.client_id().client, self.inner.cookie.load(Ordering::Acquire));
        watchers.retain(|watcher| watcher.cookie != cookie || u64::try_from(watcher.name.num) != Ok(own));
        Ok(watchers)
    }

    /// The lock, and who holds it.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn lock_info(&self) -> Result<LockInfo, Error> {
        Ok(self.inner.io.lock_info(&*self.inner.header, LOCK).await?)
    }

    /// Locks the image by hand, for this client; `tag`: together with others who name the same one. The image
    /// is not written to by others then, if it has the feature exclusive-lock; the lock outlives this.
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
            Err(e) if [EBUSY, Errno::EEXIST].contains(&e.errno()) => {
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

    /// Gives a lock up that this client has taken by hand.
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

    /// Takes the lock away from a client, of whatever kind it is.
    ///
    /// # Errors
    /// [`Error::NoLock`] if it does not hold it under this cookie.
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
