//! The state of the exclusive lock from its acquisition to its release.
//!
//! Another client can take a held lock away: it breaks the lock if the owner's watch is gone, or a user
//! breaks it. In most cases the owner is blocklisted, and its requests fail from then on; but not
//! always. The lock may also be free again when the owner hears of this, because the other client has
//! finished. An owner that takes the free lock again as if nothing had happened could overwrite data
//! written in between. Therefore a lock that is gone without having been released is *lost*: permanently
//! for this opening of the image, and for those that [inherit](crate::Image::succeed) it.
//!
//! | state | means |
//! |---|---|
//! | owned | this client owns the lock, as far as it knows |
//! | doubted | the lock may have been taken away: no change before the cluster confirms the lock |
//! | unreturned | this client owned the lock, and no reply confirms its release |
//! | lost | this client owned the lock, and does not any more: no more changes |
//!
//! The lock is doubted when the watch was registered again, when another client announces that it has
//! the lock or changed the header, and when the watch was not confirmed for some time, for example
//! because the process was stopped.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loligo_rados::{Confirmation, LockInfo};
use loligo_wire::{EntityNum, GlobalId};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::Error;
use crate::image::{Image, Inner};
use crate::lock::COOKIE;
use crate::object_map::LOCK;

/// How long a confirmed watch is relied on: two keepalive intervals. Another client breaks the lock of a
/// watch that the OSD has dropped, after 30 s (`osd_client_watch_timeout`).
const CONFIRMED_FOR: Duration = Duration::from_secs(10);

/// How long to wait for the map that shows whether the client that lost a lock is blocklisted.
const MAP_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the exclusive lock; see the module's documentation.
pub(crate) struct Tenure {
    /// Counts acquisitions of the lock.
    number: AtomicU64,
    /// The lock was taken and not released since.
    unreturned: AtomicBool,
    /// Counts reasons to doubt the lock (`doubts`), and those that were checked (`settled`).
    doubts: AtomicU64,
    settled: AtomicU64,
    /// When the lock was last confirmed: milliseconds since `begun`.
    seen: AtomicU64,
    begun: Instant,
    /// The watch's confirmation.
    confirmation: OnceLock<Confirmation>,
    lost: watch::Sender<Option<Loss>>,
}

/// The loss of a lock that was not released.
#[derive(Clone)]
struct Loss {
    /// The client that owns the lock instead.
    by: String,
    /// Whether this client was blocklisted.
    is_blocklisted: bool,
}

impl Loss {
    fn error(&self) -> Error {
        let by = self.by.clone();
        if self.is_blocklisted { Error::LockLost { by } } else { Error::LockBroken { by } }
    }
}

impl Default for Tenure {
    fn default() -> Self {
        Self {
            number: AtomicU64::new(0),
            unreturned: AtomicBool::new(false),
            doubts: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            begun: Instant::now(),
            confirmation: OnceLock::new(),
            lost: watch::Sender::new(None),
        }
    }
}

impl Tenure {
    /// Stores the confirmation of the watch.
    pub(crate) fn watched(&self, confirmation: Confirmation) {
        // An image has one watch.
        let _ = self.confirmation.set(confirmation);
    }

    pub(crate) fn begins(&self) {
        self.number.fetch_add(1, Ordering::AcqRel);
        self.unreturned.store(true, Ordering::Release);
        self.was_seen(self.begun.elapsed());
    }

    /// The lock was released.
    pub(crate) fn ends(&self) {
        self.unreturned.store(false, Ordering::Release);
    }

    /// Whether a tenure has begun whose end is not confirmed.
    pub(crate) fn is_unreturned(&self) -> bool {
        self.unreturned.load(Ordering::Acquire)
    }

    /// Marks the lock as possibly taken away.
    pub(crate) fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
    }

    fn is_doubted(&self) -> bool {
        self.settled.load(Ordering::Acquire) != self.doubts.load(Ordering::Acquire) || self.is_unconfirmed()
    }

    /// Whether neither the watch nor the lock itself was confirmed for some time.
    fn is_unconfirmed(&self) -> bool {
        let is_old = |confirmation: &Confirmation| confirmation.age() > CONFIRMED_FOR;
        // Relaxed: the time guards no other data.
        let seen = || Duration::from_millis(self.seen.load(Ordering::Relaxed));
        self.confirmation.get().is_some_and(is_old)
            && self.begun.elapsed().saturating_sub(seen()) > CONFIRMED_FOR
    }

    fn was_seen(&self, at: Duration) {
        self.seen.fetch_max(u64::try_from(at.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns an error if the lock is lost.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.lost.borrow().as_ref().map_or(Ok(()), |loss| Err(loss.error()))
    }
}

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
