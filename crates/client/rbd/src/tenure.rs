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
    /// It was taken, and not given up since.
    unreturned: AtomicBool,
    /// How often there was reason to doubt, and how many of these reasons were looked into.
    doubts: AtomicU64,
    settled: AtomicU64,
    /// When the lock was last seen to be ours: milliseconds since `begun`.
    seen: AtomicU64,
    begun: Instant,
    /// Of the watch.
    confirmation: OnceLock<Confirmation>,
    lost: watch::Sender<Option<Loss>>,
}

/// The end of a lock that was not given up.
#[derive(Clone)]
struct Loss {
    /// Who has it instead.
    by: String,
    /// Whether whoever broke it has put this client on the blocklist.
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
    /// There is a watch now.
    pub(crate) fn watched(&self, confirmation: Confirmation) {
        // An image has one watch.
        let _ = self.confirmation.set(confirmation);
    }

    pub(crate) fn begins(&self) {
        self.number.fetch_add(1, Ordering::AcqRel);
        self.unreturned.store(true, Ordering::Release);
        self.was_seen(self.begun.elapsed());
    }

    /// It was given up.
    pub(crate) fn ends(&self) {
        self.unreturned.store(false, Ordering::Release);
    }

    /// Whether there was one whose end is not known.
    pub(crate) fn is_unreturned(&self) -> bool {
        self.unreturned.load(Ordering::Acquire)
    }

    /// Somebody may have taken it away.
    pub(crate) fn doubt(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
    }

    fn is_doubted(&self) -> bool {
        self.settled.load(Ordering::Acquire) != self.doubts.load(Ordering::Acquire) || self.is_unconfirmed()
    }

    /// Neither the watch nor the lock itself was seen for some time.
    fn is_unconfirmed(&self) -> bool {
        let is_old = |confirmation: &Confirmation| confirmation.age() > CONFIRMED_FOR;
        // Relaxed: a time, to which nothing else belongs.
        let seen = || Duration::from_millis(self.seen.load(Ordering::Relaxed));
        self.confirmation.get().is_some_and(is_old)
            && self.begun.elapsed().saturating_sub(seen()) > CONFIRMED_FOR
    }

    fn was_seen(&self, at: Duration) {
        self.seen.fetch_max(u64::try_from(at.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Refuses what needs a lock that is lost.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.lost.borrow().as_ref().map_or(Ok(()), |loss| Err(loss.error()))
    }
}

impl Image {
    /// Waits until the exclusive lock is lost: it was ours, and somebody has taken it away. Nothing can be
    /// changed by this image any more then; what it has under way may fail, or may not. That the client is
    /// [blocklisted](loligo_rados::Rados::blocklisted) is known elsewhere.
    ///
    /// The future does not keep the image open; if that is closed before, it waits for ever.
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
    /// Whether the lock is ours beyond doubt.
    pub(crate) fn is_owner(&self) -> bool {
        self.owned.load(Ordering::Acquire) && !self.tenure.is_doubted()
    }

    /// Somebody may have taken the lock away, if it was ours: finds out, without keeping anybody waiting.
    pub(crate) fn doubt_lock(self: &Arc<Self>) {
        if !self.owned.load(Ordering::Acquire) {
            return;
        }
        self.tenure.doubt();
        let inner = Arc::clone(self);
        // What fails is tried again by the next change.
        tokio::spawn(async move { inner.confirm_lock().await });
    }

    /// Looks whether the lock is still ours, if there is doubt.
    pub(crate) async fn confirm_lock(&self) -> Result<(), Error> {
        self.tenure.check()?;
        if !self.owned.load(Ordering::Acquire) || !self.tenure.is_doubted() {
            return Ok(());
        }
        // On the heap, so that futures are small where there is no doubt.
        Box::pin(self.look_at_lock()).await
    }

    async fn look_at_lock(&self) -> Result<(), Error> {
        let (doubts, now) = (self.tenure.doubts.load(Ordering::Acquire), self.tenure.begun.elapsed());
        let number = self.tenure.number.load(Ordering::Acquire);
        let info = self.io.lock_info(&*self.header, LOCK).await?;
        // Given up meanwhile, and perhaps taken again: that is no loss, and there is still doubt.
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

    /// The lock was ours, and is not any more, though it was not given up.
    pub(crate) async fn lose_lock(&self, now: &LockInfo) -> Error {
        let rados = self.io.rados();
        // The client's map may be older than what was done to it.
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
