//! A count of changes. With it a reader sees several pages as they were at one time, without a lock.

use crate::sync::{AtomicU64, Ordering};

/// Odd while some pages of an object are being changed.
///
/// Orders: pages are published with Release and loaded with Acquire. A reader that has seen a page of a
/// change has acquired what came before: the odd count; so its second look at the count differs from the
/// first one. A reader that has seen the count after a change has acquired all of its pages.
#[derive(Debug)]
pub(crate) struct Version(AtomicU64);

impl Version {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Runs a change of pages, which appear all at once. Called under the object's lock.
    pub(crate) fn change<R>(&self, change: impl FnOnce() -> R) -> R {
        // Nobody else changes it.
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before + 1, Ordering::Relaxed);
        let result = change();
        self.0.store(before + 2, Ordering::Release);
        result
    }

    /// Runs a look at pages. Returns `None` if some were changed meanwhile.
    pub(crate) fn read<R>(&self, look: impl FnOnce() -> R) -> Option<R> {
        let before = self.0.load(Ordering::Acquire);
        if !before.is_multiple_of(2) {
            return None;
        }
        let seen = look();
        (self.0.load(Ordering::Relaxed) == before).then_some(seen)
    }
}
