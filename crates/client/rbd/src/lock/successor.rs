//! Continues an image with another client after the client that had it open was blocklisted.
//!
//! The successor may write only if nobody else can have written since. If its predecessor owned the
//! exclusive lock, the successor must find the lock still held by exactly that client under exactly that
//! cookie, break it, and acquire it before any other client. A client that blocklists another one to
//! take its lock breaks the lock itself; the successor then fails.

use std::sync::Arc;

use loligo_rados::{LockInfo, Rados};
use loligo_wire::rbd::feature;
use loligo_wire::{EntityNum, GlobalId, Name};

use super::COOKIE;
use crate::Error;
use crate::image::{At, Image, Inner, Which};
use crate::object_map::LOCK;

/// How the exclusive lock is, or was last known to be, held: the client and its cookie.
struct Holding {
    client: EntityNum,
    cookie: Name,
    is_owner: bool,
}

impl Image {
    /// Whether the client of this image is [blocklisted](Rados::is_blocklisted).
    pub fn is_blocklisted(&self) -> bool {
        self.inner.io.rados().is_blocklisted()
    }

    /// Opens the same image or snapshot with the client `rados`, and inherits the exclusive lock. No
    /// operation may be in progress on this image, and its own client must be
    /// [blocklisted](Rados::is_blocklisted) and [shut down](Rados::shutdown), so that nothing waits for
    /// it. A cache is not inherited.
    ///
    /// # Errors
    /// [`Error::WriteBack`] if a cache has dirty data: it is lost, as is what other clients might see of
    /// it. [`Error::LockLost`] or [`Error::LockBroken`] if another client has, or had, the exclusive
    /// lock. As [`Image::open`]. After any error but the first three the call can be repeated.
    pub async fn succeed(&self, rados: &Rados) -> Result<Self, Error> {
        let old = &self.inner;
        if !old.is_read_only() {
            old.flush_cache().await?;
            old.tenure.check()?;
        }
        let io = rados.ioctx_by_id(old.io.pool()).with_namespace(old.io.namespace().to_vec());
        let at = old.snap.map_or(At::Head, At::Id);
        let inner = Inner::load(&io, Which::Id(&old.id), at, old.mode, 0).await?;
        let new = Self::start(Arc::new(inner)).await?.with_ancestors(old.mode).await?;
        if !old.is_read_only() {
            new.inherit(&old.holding()).await?;
        }
        Ok(new)
    }

    /// Takes over the lock that a predecessor has left; does nothing if it had none.
    async fn inherit(&self, left: &Holding) -> Result<(), Error> {
        let inner = &self.inner;
        inner.refresh_if_stale().await?;
        let info = inner.io.lock_info(&*inner.header, LOCK).await?;
        let mut was_left = info.holders.iter().any(|h| h.client == left.client && h.cookie == left.cookie);
        if was_left {
            match inner.io.break_lock(&*inner.header, LOCK, left.client, &left.cookie).await {
                // Another client was faster.
                Err(e) if e.is_not_found() => was_left = false,
                done => done?,
            }
        }
        if !left.is_owner {
            return Ok(());
        }
        let has_lock = inner.view.load().has(feature::EXCLUSIVE_LOCK);
        if was_left && has_lock && self.acquire_free_lock().await? {
            return Ok(());
        }
        let now = inner.io.lock_info(&*inner.header, LOCK).await?;
        Err(Error::LockLost { by: other_holder(&now, left) })
    }
}

impl Inner {
    fn holding(&self) -> Holding {
        let id = self.client_id();
        Holding {
            client: EntityNum::client(GlobalId(id.client)),
            cookie: format!("{COOKIE}{}", id.watch).into(),
            is_owner: self.tenure.is_unreturned(),
        }
    }
}

fn other_holder(info: &LockInfo, left: &Holding) -> String {
    let other = info.holders.iter().find(|holder| holder.client != left.client);
    other.map_or_else(|| "another client".to_owned(), |holder| holder.client.to_string())
}
