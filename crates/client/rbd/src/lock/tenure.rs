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

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loligo_rados::Confirmation;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Error;

/// How long a confirmed watch is relied on: two keepalive intervals. Another client breaks the lock of a
/// watch that the OSD has dropped, after 30 s (`osd_client_watch_timeout`).
const CONFIRMED_FOR: Duration = Duration::from_secs(10);

/// The state of the exclusive lock; see the module's documentation.
pub(crate) struct Tenure {
    /// Counts acquisitions of the lock.
    pub(super) number: AtomicU64,
    /// The lock was taken and not released since.
    unreturned: AtomicBool,
    /// Counts reasons to doubt the lock (`doubts`), and those that were checked (`settled`).
    pub(super) doubts: AtomicU64,
    pub(super) settled: AtomicU64,
    /// When the lock was last confirmed: milliseconds since `begun`.
    seen: AtomicU64,
    pub(super) begun: Instant,
    /// The watch's confirmation.
    confirmation: OnceLock<Confirmation>,
    pub(super) lost: watch::Sender<Option<Loss>>,
}

/// The loss of a lock that was not released.
#[derive(Clone)]
pub(super) struct Loss {
    /// The client that owns the lock instead.
    pub(super) by: String,
    /// Whether this client was blocklisted.
    pub(super) is_blocklisted: bool,
}

impl Loss {
    pub(super) fn error(&self) -> Error {
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

    pub(super) fn is_doubted(&self) -> bool {
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

    pub(super) fn was_seen(&self, at: Duration) {
        self.seen.fetch_max(u64::try_from(at.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns an error if the lock is lost.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.lost.borrow().as_ref().map_or(Ok(()), |loss| Err(loss.error()))
    }
}
