//! Checks whether the exclusive lock is still owned, when that is doubted (`tenure.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_rados::LockInfo;
use loligo_wire::{EntityNum, GlobalId};
use tokio::time::timeout;

use super::COOKIE;
use super::tenure::Loss;
use crate::Error;
use crate::image::{Image, Inner};
use crate::object_map::LOCK;

/// How long to wait for the map that shows whether the client that lost a lock is blocklisted.
const MAP_TIMEOUT: Duration = Duration::from_secs(5);

impl Image {
    /// Waits until the exclusive lock is lost: this client owned it, and it was taken away. The image
    /// can then not be changed any more; changes in flight may fail or succeed.
    /// [Blocklisting](loligo_rados::Rados::blocklisted) of the client is reported separately.
    ///
    /// The future does not keep the image open. If the image is closed first, the future never
    /// completes.
    pub fn lock_lost(&self) -> impl Future<Output = Error> + Send + use<> {
        let mut lost = self.inner.tenure.lost.subscribe();
        async move {
            let loss = lost.wait_for(Option::is_some).await.ok().and_then(|loss| loss.clone());
            match loss {
                Some(loss) => loss.error(),
                None => std::future::pending().await,
            }
        }
    }
}

impl Inner {
    /// Whether this client owns the lock without doubt.
    pub(crate) fn is_owner(&self) -> bool {
        self.owned.load(Ordering::Acquire) && !self.tenure.is_doubted()
    }

    /// Marks an owned lock as doubted, and checks it in the background.
    pub(crate) fn doubt_lock(self: &Arc<Self>) {
        if !self.owned.load(Ordering::Acquire) {
            return;
        }
        self.tenure.doubt();
        let inner = Arc::clone(self);
        // The next change repeats a failed check.
        tokio::spawn(async move { inner.confirm_lock().await });
    }

    /// Checks whether this client still owns the lock, if that is doubted.
    pub(crate) async fn confirm_lock(&self) -> Result<(), Error> {
        self.tenure.check()?;
        if !self.owned.load(Ordering::Acquire) || !self.tenure.is_doubted() {
            return Ok(());
        }
        // Boxed, so that futures stay small if there is no doubt.
        Box::pin(self.look_at_lock()).await
    }

    async fn look_at_lock(&self) -> Result<(), Error> {
        let (doubts, now) = (self.tenure.doubts.load(Ordering::Acquire), self.tenure.begun.elapsed());
        let number = self.tenure.number.load(Ordering::Acquire);
        let info = self.io.lock_info(&*self.header, LOCK).await?;
        // Released meanwhile, and perhaps taken again: not a loss, and the doubt remains.
        let is_owned = self.owned.load(Ordering::Acquire);
        if !is_owned || self.tenure.number.load(Ordering::Acquire) != number {
            return Ok(());
        }
        if !self.is_held_here(&info) {
            return Err(self.lose_lock(&info).await);
        }
        self.tenure.settled.fetch_max(doubts, Ordering::AcqRel);
        self.tenure.was_seen(now);
        Ok(())
    }

    fn is_held_here(&self, info: &LockInfo) -> bool {
        let id = self.client_id();
        let (client, cookie) = (EntityNum::client(GlobalId(id.client)), format!("{COOKIE}{}", id.watch));
        info.holders.iter().any(|holder| holder.client == client && holder.cookie == cookie)
    }

    /// Marks the lock as lost: it was not released, and this client does not own it any more.
    pub(crate) async fn lose_lock(&self, now: &LockInfo) -> Error {
        let rados = self.io.rados();
        // The client's map may be older than its blocklisting.
        let _ = timeout(MAP_TIMEOUT, rados.wait_for_latest_osdmap()).await;
        let by = match now.holders.first() {
            Some(holder) => holder.client.to_string(),
            None => "another client".to_owned(),
        };
        let loss = Loss { by, is_blocklisted: rados.is_blocklisted() };
        let error = loss.error();
        self.owned.store(false, Ordering::Release);
        self.tenure.lost.send_if_modified(|lost| lost.is_none() && lost.replace(loss).is_none());
        error
    }
}
