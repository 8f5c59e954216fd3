//! The bound of a lane, in items and bytes.

use crate::sync::{AtomicUsize, Relaxed};

/// The most that a lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Items.
    pub items: usize,
    /// Bytes, as the lane's weighing function counts them; `usize::MAX`: bytes are not counted. An item
    /// that exceeds the bound by itself is admitted when no bytes are queued; otherwise it could never
    /// be pushed.
    pub bytes: usize,
}

/// The queued amounts and their bound. The counters order no other memory, so all accesses are relaxed.
///
/// A push counts its item before it adds it to the inbox, so the count is never below what is queued.
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

    /// Counts one more item if there is room for it. Returns whether there was.
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

    /// Counts items that are put back, even beyond the bound.
    pub(crate) fn readmit(&self, items: usize, bytes: usize) {
        self.items.fetch_add(items, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Uncounts items that were taken out.
    #[inline]
    pub(crate) fn release(&self, items: usize, bytes: usize) {
        self.items.fetch_sub(items, Relaxed);
        if bytes > 0 {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
    }
}
