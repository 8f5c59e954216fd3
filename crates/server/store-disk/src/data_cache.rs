//! Cached blocks of the data file.
//!
//! A block is never overwritten while anything refers to it, so a cached block is valid until the block is
//! freed. A checkpoint removes blocks just before it frees them ([`DataCache::forget`]). A thread that adds
//! a block keeps it from being freed meanwhile: a reader holds a view, and the committer has not finished
//! with the block's record. An entry also stores the block's checksum, so that a mistake here causes a miss
//! and not wrong data.
//!
//! `quick_cache` chooses the blocks to keep (a hot and a cold ring, and a list of evicted keys, as in
//! S3-FIFO). A scan therefore evicts other scans and not frequently read data. The cache is divided into
//! parts, each with its own lock, held for one lookup.

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use quick_cache::unsync::Cache;
use quick_cache::{Lifecycle, Weighter};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::block::Place;
use super::layout::{BLOCK, Run};

/// Held to find, add or remove one block; nothing is freed under it.
static DATA_CACHE: Class = Class::new("store.data_cache");

/// The number of parts, each with its own lock; a power of two.
const PARTS: usize = 16;
/// The memory that a block takes in addition to its bytes: its entry in the table and in the rings, and
/// its reference count.
const ENTRY_BYTES: usize = 128;

/// Cached blocks, up to a number of bytes.
#[derive(Debug)]
pub(super) struct DataCache {
    /// Empty if nothing is to be cached.
    parts: Vec<Mutex<Part>>,
    bytes_max: usize,
}

type Part = Cache<u32, Kept, Weight, FxBuildHasher, Evicted>;

/// The bytes of a block (zeros follow up to its end), and its checksum.
#[derive(Clone, Debug)]
struct Kept {
    crc: u32,
    data: Bytes,
}

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<u32, Kept> for Weight {
    fn weight(&self, _: &u32, kept: &Kept) -> u64 {
        (kept.data.len() + ENTRY_BYTES) as u64
    }
}

/// Collects evicted blocks, to be freed without the lock.
#[derive(Clone, Debug)]
struct Evicted;

impl Lifecycle<u32, Kept> for Evicted {
    type RequestState = SmallVec<[Kept; 2]>;

    fn begin_request(&self) -> Self::RequestState {
        SmallVec::new()
    }

    fn on_evict(&self, gone: &mut Self::RequestState, _: u32, kept: Kept) {
        gone.push(kept);
    }
}

impl DataCache {
    /// Creates a cache of up to `bytes_max` bytes, overhead included. It keeps nothing if there is no room
    /// for one block in each part. No memory is allocated in advance.
    pub(super) fn new(bytes_max: usize) -> Self {
        let part_bytes = bytes_max / PARTS;
        let blocks = part_bytes / (BLOCK + ENTRY_BYTES);
        let parts = if blocks == 0 { 0 } else { PARTS };
        let part = || Cache::with(blocks, part_bytes as u64, Weight, FxBuildHasher, Evicted);
        let parts = std::iter::repeat_with(|| Mutex::new(&DATA_CACHE, part())).take(parts).collect();
        Self { parts, bytes_max }
    }

    /// The maximum size in bytes.
    pub(super) fn bytes_max(&self) -> usize {
        if self.parts.is_empty() { 0 } else { self.bytes_max }
    }

    /// Returns the bytes of a block if it is cached; zeros follow.
    pub(super) fn get(&self, place: Place) -> Option<Bytes> {
        let part = self.part(place.block)?.lock();
        let kept = part.get(&place.block)?;
        (kept.crc == place.crc).then(|| kept.data.clone())
    }

    /// Adds a block. `data` must be the whole memory that it keeps alive. The caller ensures that the
    /// block is in use.
    pub(super) fn put(&self, place: Place, data: Bytes) {
        debug_assert!(data.len() <= BLOCK, "more than a block");
        let Some(part) = self.part(place.block) else { return };
        let mut part = part.lock();
        let gone = part.insert_with_lifecycle(place.block, Kept { crc: place.crc, data });
        drop(part);
        drop(gone);
    }

    /// Removes blocks that are about to be freed.
    pub(super) fn forget(&self, runs: &[Run]) {
        for block in runs.iter().flat_map(|run| run.start..run.end()) {
            let Some(part) = self.part(block) else { return };
            let gone = part.lock().remove(&block);
            drop(gone);
        }
    }

    fn part(&self, block: u32) -> Option<&Mutex<Part>> {
        // The high bits of the product depend on all bits of the number.
        let hash = block.wrapping_mul(0x9e37_79b9);
        self.parts.get((hash >> (u32::BITS - PARTS.ilog2())) as usize)
    }

    /// The size of the cached blocks, overhead included.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.lock().weight()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Put(u32, u8, usize),
        Get(u32),
        Forget(u32, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let block = 0..600u32;
        prop_oneof![
            4 => (block.clone(), any::<u8>(), 0..=BLOCK).prop_map(|(b, fill, len)| Step::Put(b, fill, len)),
            4 => block.clone().prop_map(Step::Get),
            1 => (block, 1..4u32).prop_map(|(b, len)| Step::Forget(b, len)),
        ]
    }

    fn place(block: u32, fill: u8) -> Place {
        Place { block, crc: u32::from(fill) }
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_was_put_there_and_memory_is_bounded(steps in vec(step(), 1..1500)) {
            const MAX: usize = 200 * BLOCK;
            let cache = DataCache::new(MAX);
            let mut oracle: HashMap<u32, (u8, usize)> = HashMap::new();
            for step in steps {
                match step {
                    Step::Put(block, fill, len) => {
                        cache.put(place(block, fill), Bytes::from(vec![fill; len]));
                        oracle.insert(block, (fill, len));
                    }
                    Step::Get(block) => {
                        let known = oracle.get(&block).copied();
                        let (fill, len) = known.unwrap_or_default();
                        let found = cache.get(place(block, fill));
                        prop_assert!(found.is_none() || known.is_some());
                        prop_assert!(found.is_none_or(|data| data == vec![fill; len]));
                        prop_assert_eq!(cache.get(place(block, fill.wrapping_add(1))), None);
                    }
                    Step::Forget(start, len) => {
                        cache.forget(&[Run { start, len }]);
                        oracle.retain(|block, _| !(start..start + len).contains(block));
                    }
                }
                prop_assert!(cache.bytes() <= MAX as u64);
            }
        }
    }

    #[test]
    fn what_is_read_again_and_again_survives_a_scan() {
        let cache = DataCache::new(1000 * BLOCK);
        let put = |block| cache.put(place(block, 1), Bytes::from(vec![1; BLOCK]));
        (0..200).for_each(put);
        for _ in 0..3 {
            (0..200).for_each(|block| drop(cache.get(place(block, 1))));
        }
        (1_000..101_000).for_each(put);
        let kept = (0..200).filter(|block| cache.get(place(*block, 1)).is_some()).count();
        assert!(kept > 180, "{kept} of 200");
        assert!(cache.bytes() > 900 * BLOCK as u64, "the rest is used");
    }

    #[test]
    fn none_is_kept_where_there_is_no_room() {
        let cache = DataCache::new(PARTS * BLOCK);
        cache.put(place(1, 1), Bytes::from_static(b"x"));
        assert_eq!((cache.get(place(1, 1)), cache.bytes_max(), cache.bytes()), (None, 0, 0));
    }
}
