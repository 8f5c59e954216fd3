//! The exclusive lock of an image. Its owner writes to the image and keeps the object map.
//!
//! It is a lock of class `lock` on the header; its cookie names the owner's watch of the header
//! (`librbd/managed_lock`). A client that wants the lock requests it from the owner by a notification.
//! The owner ends its writes, releases the lock and announces the release. An owner without a watch is
//! dead: it is blocklisted, and then its lock is broken. Requests that other clients send to the owner
//! are in `ask.rs` and `serve.rs`.

mod ask;
mod confirm;
pub(crate) mod listen;
pub(crate) mod messages;
pub(crate) mod requests;
mod serve;
mod successor;
pub(crate) mod tenure;
mod watchers;

use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_rados::{Errno, LockHolder, LockMode, LockOptions, Reason, WaitGuard};
use loligo_wire::Encode as _;
use loligo_wire::rbd::feature;
use tokio::sync::SemaphorePermit;

use self::messages::{ANSWER_TIMEOUT, ClientId, Message, NEWS_TIMEOUT, result_of};
pub use self::watchers::Evicted;
use crate::Error;
use crate::features::OBJECT_MAP_INVALID;
use crate::image::{GATE_PLACES, Inner};
use crate::object_map::LOCK;

/// The tag of locks taken by programs; users' locks have another tag, or none.
const TAG: &str = "internal";

/// The prefix of an owner's cookie; the number of its watch follows.
pub(crate) const COOKIE: &str = "auto ";

/// How long to wait for the announcement that the lock is free before the next attempt.
pub(crate) const TRY_EVERY: Duration = Duration::from_secs(1);

impl Inner {
    /// Takes one permit of the gate for a change of the image's data, once this client owns the lock.
    pub(crate) async fn enter(&self) -> Result<SemaphorePermit<'_>, Error> {
        loop {
            let place = self.gate.acquire().await.map_err(|_| Errno::ENOTCONN)?;
            self.check()?;
            if self.may_write() && !self.map.is_doubtful() && !self.caching.is_left() {
                self.refresh_if_stale().await?;
                self.check_view()?;
                // The exclusive lock may have been switched on meanwhile.
                if self.may_write() {
                    self.begin_caching();
                    return Ok(place);
                }
            }
            drop(place);
            // Boxed, so that futures stay small for the lock's owner.
            let all = Box::pin(self.enter_alone()).await?;
            drop(all);
        }
    }

    /// Takes all permits of the gate, once this client owns the lock: no other change of the image's
    /// data runs. The cache has no dirty data afterwards.
    pub(crate) async fn enter_alone(&self) -> Result<SemaphorePermit<'_>, Error> {
        let all = self.gate.acquire_many(GATE_PLACES).await.map_err(|_| Errno::ENOTCONN)?;
        self.caching.none_is_left();
        self.check()?;
        loop {
            self.refresh_if_stale().await?;
            self.check_view()?;
            self.confirm_lock().await?;
            if self.may_write() {
                self.map.be_certain().await?;
                self.write_back().await?;
                self.begin_caching();
                return Ok(all);
            }
            // An owned lock is doubted again; the loop checks it.
            if !self.owned.load(Ordering::Acquire) {
                self.acquire().await?;
            }
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.check_watch()
    }

    pub(crate) fn check_watch(&self) -> Result<(), Error> {
        self.tenure.check()?;
        match self.ended.load(Ordering::Acquire) {
            0 => Ok(()),
            errno => Err(Errno(errno).into()),
        }
    }

    pub(crate) fn may_write(&self) -> bool {
        !self.view.load().has(feature::EXCLUSIVE_LOCK) || self.is_owner()
    }

    pub(crate) fn client_id(&self) -> ClientId {
        ClientId { client: self.io.rados().instance_id().0, watch: self.cookie.load(Ordering::Acquire) }
    }

    fn lock_options(&self) -> LockOptions {
        let cookie = format!("{COOKIE}{}", self.cookie.load(Ordering::Acquire)).into();
        LockOptions { cookie, tag: TAG.into(), ..LockOptions::default() }
    }

    /// Takes the lock, from its owner if there is one. The caller must hold all permits of the gate.
    async fn acquire(&self) -> Result<(), Error> {
        let mut waits: Option<WaitGuard> = None;
        loop {
            let freed = self.freed.notified();
            if self.try_lock().await? {
                break;
            }
            let Some(owner) = self.owner().await? else { continue };
            if !self.is_alive(&owner).await? {
                self.put_out(&owner).await?;
                continue;
            }
            let reason = self.locked_by(&owner, "give it up");
            match &waits {
                Some(waits) => waits.becomes(reason),
                None => waits = Some(self.io.rados().waits_for(reason)),
            }
            self.request_lock().await?;
            let _ = tokio::time::timeout(TRY_EVERY, freed).await;
            self.check()?;
        }
        self.begin_to_own().await
    }

    /// Takes the lock if it is free, without a request to its owner. Returns `true` if this client owns
    /// the lock now.
    pub(crate) async fn acquire_if_free(&self) -> Result<bool, Error> {
        let _all = self.gate.acquire_many(GATE_PLACES).await.map_err(|_| Errno::ENOTCONN)?;
        self.caching.none_is_left();
        self.check()?;
        self.refresh_if_stale().await?;
        self.check_view()?;
        self.confirm_lock().await?;
        if !self.may_write() && !self.owned.load(Ordering::Acquire) {
            if !self.try_lock().await? {
                return Ok(false);
            }
            self.begin_to_own().await?;
        }
        self.map.be_certain().await?;
        self.begin_caching();
        Ok(self.may_write())
    }

    /// Returns `true` if this client owns the lock now, `false` if another client does.
    async fn try_lock(&self) -> Result<bool, Error> {
        match self.io.lock(&*self.header, LOCK, LockMode::Exclusive, &self.lock_options()).await {
            Ok(()) => Ok(true),
            Err(e) if e.errno() == Errno::EEXIST => Ok(true),
            Err(e) if e.errno() == Errno::EBUSY => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Begins the tenure of a lock that was just taken.
    async fn begin_to_own(&self) -> Result<(), Error> {
        self.opened().await?;
        self.tenure.begins();
        self.owned.store(true, Ordering::Release);
        if let Err(e) = self.check_view() {
            // The previous owner has made it an image that this crate does not write to.
            self.give_up().await?;
            return Err(e);
        }
        if !self.view.load().has(feature::EXCLUSIVE_LOCK) {
            // The feature exclusive-lock was switched off meanwhile.
            return self.give_up().await;
        }
        self.announce(Message::AcquiredLock(self.client_id()));
        Ok(())
    }

    /// Reads the header and the object map, which nobody else changes now.
    async fn opened(&self) -> Result<(), Error> {
        self.refresh().await?;
        let view = self.view.load();
        if !view.has(feature::OBJECT_MAP) || view.flags & OBJECT_MAP_INVALID != 0 {
            return Ok(());
        }
        match self.map.open(self.fixed.layout.object_count(view.size)).await {
            // A map that cannot be read is marked invalid until it is rebuilt.
            Err(Error::Decode { .. }) => self.invalidate_map().await,
            Err(e) if e.is_not_found() || e.errno() == Errno::EINVAL => self.invalidate_map().await,
            done => done,
        }
    }

    pub(crate) async fn owner(&self) -> Result<Option<LockHolder>, Error> {
        let info = self.io.lock_info(&*self.header, LOCK).await?;
        let Some(holder) = info.holders.into_iter().next() else { return Ok(None) };
        if info.tag != TAG || watch_of(&holder).is_none() {
            return Err(Error::Locked(format!("client.{} ({})", holder.client.num, holder.cookie)));
        }
        Ok(Some(holder))
    }

    /// The reason of a wait for the lock's owner, which was asked for something.
    pub(crate) fn locked_by(&self, owner: &LockHolder, asked: &str) -> Reason {
        let at = owner.addr.sock.map_or_else(String::new, |sock| format!(" at {sock}/{}", owner.addr.nonce));
        let holder = format!("client.{}{at}, which was asked to {asked}", owner.client.num);
        Reason::Lock { what: format!("image '{}'", self.name), holder }
    }

    pub(crate) async fn is_alive(&self, owner: &LockHolder) -> Result<bool, Error> {
        let watchers = self.io.watchers(&*self.header).await?;
        let watch = watch_of(owner);
        Ok(watchers.iter().any(|w| {
            Some(w.cookie) == watch && w.addr.sock == owner.addr.sock && w.addr.nonce == owner.addr.nonce
        }))
    }

    /// Blocklists a dead owner and breaks its lock. A lock of this same client, left when its
    /// acquisition was dropped, is broken without blocklisting.
    async fn put_out(&self, owner: &LockHolder) -> Result<(), Error> {
        if u64::try_from(owner.client.num) != Ok(self.client_id().client) {
            let Some(sock) = owner.addr.sock else { return Err(Errno::EPROTO.into()) };
            self.io.rados().block(&format!("{sock}/{}", owner.addr.nonce), None).await?;
        }
        match self.io.break_lock(&*self.header, LOCK, owner.client, &owner.cookie).await {
            Err(e) if !e.is_not_found() => Err(e.into()),
            _ => Ok(()),
        }
    }

    async fn request_lock(&self) -> Result<(), Error> {
        let message = Message::RequestLock(self.client_id()).to_bytes();
        let answered = self.io.notify(&*self.header, message, ANSWER_TIMEOUT).await?;
        let refused = answered.answers.values().filter_map(|answer| result_of(answer)).find(|r| *r < 0);
        match refused {
            Some(result) => Err(Errno(result.saturating_neg()).into()),
            None => Ok(()),
        }
    }

    /// Releases the lock after all writes have ended.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        let _all = self.gate.acquire_many(GATE_PLACES).await.map_err(|_| Errno::ENOTCONN)?;
        self.give_up().await
    }

    /// As [`Inner::release`], but releases the lock even if the write-back fails: the data is lost, and
    /// the failure is returned.
    pub(crate) async fn release_at_last(&self) -> Result<(), Error> {
        let _all = self.gate.acquire_many(GATE_PLACES).await.map_err(|_| Errno::ENOTCONN)?;
        let flushed = self.flush_cache().await;
        self.abandon_cache().await;
        let released = self.give_up().await;
        flushed.and(released)
    }

    /// As [`Inner::release`], for a caller that has exclusive access already. The cache is written back
    /// before the lock is released. A lock that no longer exists at the release is lost.
    pub(crate) async fn give_up(&self) -> Result<(), Error> {
        self.end_caching().await?;
        if !self.owned.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.map.close().await?;
        match self.io.unlock(&*self.header, LOCK, &self.lock_options().cookie).await {
            Err(e) if e.is_not_found() => self.was_not_held().await?,
            done => done?,
        }
        self.tenure.ends();
        self.announce(Message::ReleasedLock(self.client_id()));
        Ok(())
    }

    /// The lock to be released did not exist: it is lost, unless the whole image was removed.
    async fn was_not_held(&self) -> Result<(), Error> {
        match self.io.lock_info(&*self.header, LOCK).await {
            Err(e) if e.is_not_found() => Ok(()),
            Err(e) => Err(e.into()),
            Ok(now) => Err(self.lose_lock(&now).await),
        }
    }

    /// Notifies all clients that have the image open, without waiting for them.
    pub(crate) fn announce(&self, message: Message) {
        let (io, header) = (self.io.clone(), self.header.clone());
        tokio::spawn(async move { io.notify(header, message.to_bytes(), NEWS_TIMEOUT).await });
    }

    /// Marks the header as about to change: if the task is dropped before it has read the header again,
    /// the next operation reads it.
    pub(crate) fn header_changes(&self) {
        self.stale.store(true, Ordering::Release);
    }

    /// The header has changed since it was read.
    pub(crate) fn header_was_changed(&self) {
        self.stale.store(true, Ordering::Release);
        self.updates.send_modify(|count| *count += 1);
    }

    /// Notifies all clients that have the image open of a changed header, and waits for their
    /// acknowledgement.
    pub(crate) async fn header_changed(&self) -> Result<(), Error> {
        self.refresh().await?;
        self.io.notify(&*self.header, Message::HeaderUpdate.to_bytes(), NEWS_TIMEOUT).await?;
        Ok(())
    }
}

/// The watch in the owner's cookie.
fn watch_of(owner: &LockHolder) -> Option<u64> {
    owner.cookie.as_text()?.strip_prefix(COOKIE)?.parse().ok()
}
