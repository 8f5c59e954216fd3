//! Determines without a disk access that an object does not exist.
//!
//! A Bloom filter over all names, in memory. A restart fills it in the background; until that is done
//! every object may exist.

use std::hash::{Hash as _, Hasher as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loligo_store::ObjectRef;
use rustc_hash::FxHasher;

/// Words of 64 bits: 8 MiB. With five million objects and four bits for each, one lookup in a hundred is a
/// false positive.
const WORDS: usize = 1 << 20;
/// Words that are allocated together, when their first bit is set: few objects take little memory.
const PAGE_WORDS: usize = 512;
const BITS_PER_NAME: u64 = 4;

#[derive(Debug)]
pub(super) struct Filter {
    pages: Box<[OnceLock<Box<[AtomicU64]>>]>,
    complete: AtomicBool,
}

impl Filter {
    pub(super) fn new() -> Self {
        let pages = (0..WORDS / PAGE_WORDS).map(|_| OnceLock::new()).collect();
        Self { pages, complete: AtomicBool::new(false) }
    }

    pub(super) fn insert(&self, collection: u32, oid: ObjectRef<'_>) {
        for (word, bit) in places(collection, oid) {
            // Relaxed: a thread that looks for the object has taken the collection's lock since it was
            // created.
            let new = || (0..PAGE_WORDS).map(|_| AtomicU64::new(0)).collect();
            let page = self.pages[word / PAGE_WORDS].get_or_init(new);
            page[word % PAGE_WORDS].fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// From now on an object that is not in the filter does not exist.
    pub(super) fn complete(&self) {
        // Release: publishes the names inserted before.
        self.complete.store(true, Ordering::Release);
    }

    pub(super) fn may_exist(&self, collection: u32, oid: ObjectRef<'_>) -> bool {
        !self.complete.load(Ordering::Acquire)
            || places(collection, oid).all(|(word, bit)| {
                let page = self.pages[word / PAGE_WORDS].get();
                page.is_some_and(|page| page[word % PAGE_WORDS].load(Ordering::Relaxed) & bit != 0)
            })
    }
}

/// Words and bits of a name, independent enough of each other: parts of one hash, multiplied again for each.
fn places(collection: u32, oid: ObjectRef<'_>) -> impl Iterator<Item = (usize, u64)> {
    let mut hasher = FxHasher::default();
    (collection, oid.hash, oid.nspace, oid.key, oid.name, oid.snap.0).hash(&mut hasher);
    let mut hash = hasher.finish();
    (0..BITS_PER_NAME).map(move |_| {
        hash = (hash ^ (hash >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((hash >> 40) as usize % WORDS, 1 << ((hash >> 32) % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_may_exist_and_little_else() {
        let filter = Filter::new();
        let names: Vec<_> = (0..20_000u32).map(|n| n.to_le_bytes()).collect();
        let oid = |n: usize| ObjectRef::head(n as u32, &names[n]);
        assert!(filter.may_exist(1, oid(0)), "it knows nothing yet");
        (0..10_000).for_each(|n| filter.insert(1, oid(n)));
        filter.complete();
        assert!((0..10_000).all(|n| filter.may_exist(1, oid(n))));
        assert!((10_000..20_000).filter(|n| filter.may_exist(1, oid(*n))).count() < 10);
        assert!((0..10_000).filter(|n| filter.may_exist(2, oid(*n))).count() < 10);
    }
}
