//! Bytes that are counted against a bound.

use crate::sync::{AtomicU64, Ordering};

/// A sum that never exceeds its bound, but by what is [added](Account::add) without asking.
///
/// All is Relaxed: what is counted is guarded by the objects' locks, this only counts it.
#[derive(Debug)]
pub(crate) struct Account {
    sum: AtomicU64,
    max: u64,
}

impl Account {
    pub(crate) fn new(max: u64) -> Self {
        Self { sum: AtomicU64::new(0), max }
    }

    /// Adds unless the sum were more than the bound.
    #[must_use]
    pub(crate) fn claim(&self, more: u64) -> bool {
        let add = |now: u64| now.checked_add(more).filter(|sum| *sum <= self.max);
        self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Adds also beyond the bound.
    pub(crate) fn add(&self, more: u64) {
        self.sum.fetch_add(more, Ordering::Relaxed);
    }

    /// Gives back what was claimed or added.
    pub(crate) fn give_back(&self, less: u64) {
        self.sum.fetch_sub(less, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// Whether it is more than half of what may be: a hint.
    pub(crate) fn is_half_full(&self) -> bool {
        self.sum() > self.max / 2
    }
}
