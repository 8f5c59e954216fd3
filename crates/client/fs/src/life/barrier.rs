//! The OSDs' map that data may not be read or written before.
//!
//! A server that has had another client blocklisted, or a pool filled up, names the map that says so. What
//! is read before this client has that map could still be changed by the other one.

use std::sync::atomic::{AtomicU32, Ordering};

use loligo_wire::Epoch;

/// The barrier of a mount. The data path looks at it without a lock.
#[derive(Debug, Default)]
pub(crate) struct Barrier {
    wanted: AtomicU32,
    pub(super) reached: AtomicU32,
}

impl Barrier {
    /// A server wants this map to be known first.
    pub(crate) fn raise(&self, epoch: Epoch) {
        self.wanted.fetch_max(epoch.0, Ordering::AcqRel);
    }

    /// Returns the map that is wanted, as this client tells the servers.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.wanted.load(Ordering::Acquire))
    }

    /// Returns `true` if the map may not be known.
    pub(crate) fn is_up(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.reached.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_barrier_counts_until_its_map_is_known() {
        let barrier = Barrier::default();
        assert!(!barrier.is_up());
        barrier.raise(Epoch(7));
        barrier.raise(Epoch(3));
        assert!(barrier.is_up());
        assert_eq!(barrier.epoch(), Epoch(7));
        barrier.reached.store(7, Ordering::Relaxed);
        assert!(!barrier.is_up());
    }
}
