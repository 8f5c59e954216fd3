//! One capacity for many collections, without a counter that all of them update.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::StoreError;

/// Collections reserve space in portions of the capacity divided by this number, so that the unused
/// remainders of a few hundred collections are negligible. `PORTION_MIN` and `PORTION_MAX` limit the
/// portion's size.
const PORTION_PART: u64 = 1 << 16;
/// The smallest portion, in bytes; `PORTION_MAX` is the largest.
const PORTION_MIN: u64 = 4 << 10;
const PORTION_MAX: u64 = 256 << 10;

/// The capacity of a store.
#[derive(Debug)]
pub(super) struct Budget {
    capacity: u64,
    portion: u64,
    /// The sum of all shares; at most `capacity`, unless the store began with more.
    granted: AtomicU64,
}

/// One collection's share of the capacity.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Bytes granted; at least `used`.
    granted: u64,
    used: u64,
}

impl Budget {
    pub(super) fn new(capacity: u64) -> Self {
        let portion = (capacity / PORTION_PART).clamp(PORTION_MIN, PORTION_MAX);
        Self { capacity, portion, granted: AtomicU64::new(0) }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Ensures that `share` has space for `needed` more bytes.
    #[inline]
    pub(super) fn reserve(&self, share: &mut Share, needed: u64) -> Result<(), StoreError> {
        let free = share.granted - share.used;
        if needed <= free { Ok(()) } else { self.grant(share, needed) }
    }

    #[cold]
    fn grant(&self, share: &mut Share, needed: u64) -> Result<(), StoreError> {
        let missing = needed - (share.granted - share.used);
        let all_taken = |_| StoreError::Full {
            needed,
            free: self.capacity.saturating_sub(self.granted.load(Ordering::Relaxed)) + share.granted
                - share.used,
            capacity: self.capacity,
        };
        let taken =
            self.take(missing.max(self.portion)).or_else(|_| self.take(missing)).map_err(all_taken)?;
        share.granted += taken;
        Ok(())
    }

    fn take(&self, bytes: u64) -> Result<u64, u64> {
        let enlarged = |granted: u64| granted.checked_add(bytes).filter(|sum| *sum <= self.capacity);
        self.granted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enlarged).map(|_| bytes)
    }

    /// Sets the usage of `share`, which is at most what was reserved, and returns what it does not need soon.
    #[inline]
    pub(super) fn settle(&self, share: &mut Share, used: u64) {
        // A reservation is an upper bound. If one is ever too low, the sums must stay right all the same.
        if used > share.granted {
            self.granted.fetch_add(used - share.granted, Ordering::Relaxed);
            share.granted = used;
        }
        share.used = used;
        if share.granted - used > 4 * self.portion {
            self.give_back(share, used + self.portion);
        }
    }

    #[cold]
    fn give_back(&self, share: &mut Share, keep: u64) {
        self.granted.fetch_sub(share.granted - keep, Ordering::Relaxed);
        share.granted = keep;
    }

    /// Returns the whole share to the budget.
    pub(super) fn close(&self, share: &mut Share) {
        self.granted.fetch_sub(share.granted, Ordering::Relaxed);
        *share = Share::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_shared_and_comes_back() {
        let budget = Budget::new(100_000);
        let (mut a, mut b) = (Share::default(), Share::default());
        budget.reserve(&mut a, 90_000).expect("room");
        budget.settle(&mut a, 90_000);
        budget.reserve(&mut b, 7_000).expect("less than a portion is left, but enough");
        budget.settle(&mut b, 7_000);
        let full = StoreError::Full { needed: 3_001, free: 3_000, capacity: 100_000 };
        assert_eq!(budget.reserve(&mut b, 3_001), Err(full));
        budget.settle(&mut a, 10_000);
        budget.reserve(&mut b, 60_000).expect("a gave room back");
        budget.close(&mut a);
        budget.close(&mut b);
        assert_eq!(budget.granted.load(Ordering::Relaxed), 0);
    }
}
