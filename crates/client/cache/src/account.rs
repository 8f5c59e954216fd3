//! A bounded count of bytes.

use crate::sync::{AtomicU64, Ordering};

/// A sum that does not exceed its bound, except by bytes [added](Account::add) unconditionally.
///
/// All operations are Relaxed: the objects' locks protect the data that is counted.
#[derive(Debug)]
pub(crate) struct Account {
    sum: AtomicU64,
    max: u64,
}

impl Account {
    pub(crate) fn new(max: u64) -> Self {
        Self { sum: AtomicU64::new(0), max }
    }

    /// Adds `more` unless the sum would exceed the bound. Returns whether it was added.
    #[must_use]
    pub(crate) fn claim(&self, more: u64) -> bool {
        let add = |now: u64| now.checked_add(more).filter(|sum| *sum <= self.max);
        self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Adds `more`, even beyond the bound.
    pub(crate) fn add(&self, more: u64) {
        self.sum.fetch_add(more, Ordering::Relaxed);
    }

    /// Subtracts bytes that were claimed or added.
    pub(crate) fn give_back(&self, less: u64) {
        self.sum.fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// Whether the sum exceeds half of the bound: a hint.
    pub(crate) fn is_half_full(&self) -> bool {
        self.sum() > self.max / 2
    }
}
