//! Bounds of a lane, in items and bytes.

use crate::sync::{AtomicUsize, Relaxed};

/// How much a lane may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Items.
    pub items: usize,
    /// Bytes, as the lane's weighing function counts them; `usize::MAX`: they are not counted. An item that
    /// is heavier by itself is let in when no bytes are queued, as it could never be pushed otherwise.
    pub bytes: usize,
}

/// How much is queued, and how much may be. The counts guard nothing but themselves, so they are relaxed.
///
/// A push counts its item before it leaves it in the inbox, so at no time is more queued than counted.
pub(crate) struct Room {
    items: AtomicUsize,
    /// Stays 0 if bytes are not bounded.
    bytes: AtomicUsize,
    bound: Bound,
}

impl Room {
    pub(crate) fn new(bound: Bound) -> Self {
        assert!(bound.items > 0 && bound.bytes > 0, "a lane without room: {bound:?}");
        Self { items: AtomicUsize::new(0), bytes: AtomicUsize::new(0), bound }
    }

    pub(crate) fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn bound(&self) -> Bound {
        self.bound
    }

    pub(crate) fn is_weighed(&self) -> bool {
        self.bound.bytes != usize::MAX
    }

    /// Counts one item more, if there is room for it.
    #[inline]
    pub(crate) fn admit(&self, bytes: usize) -> bool {
        let may_enter = |items: usize| (items < self.bound.items).then_some(items + 1);
        if self.items.fetch_update(Relaxed, Relaxed, may_enter).is_err() {
            return false;
        }
        if !self.is_weighed() {
            return true;
        }
        let fits = |queued: usize| {
            let sum = queued.saturating_add(bytes);
            (sum <= self.bound.bytes || queued == 0).then_some(sum)
        };
        let admitted = self.bytes.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if !admitted {
            self.items.fetch_sub(1, Relaxed);
        }
        admitted
    }

    /// Counts what comes back, whether there is room for it or not.
    pub(crate) fn readmit(&self, items: usize, bytes: usize) {
        self.items.fetch_add(items, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Counts what was taken out.
    #[inline]
    pub(crate) fn release(&self, items: usize, bytes: usize) {
        self.items.fetch_sub(items, Relaxed);
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
    }
}
