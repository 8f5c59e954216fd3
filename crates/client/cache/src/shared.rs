//! The state that all files of a cache share: memory and dirty bytes.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use loligo_lockstat::{Class, Mutex};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, Semaphore};

use crate::account::Account;
use crate::backend::Backend;
use crate::error::Error;
use crate::evict::Queues;
use crate::options::Options;
use crate::source::{Object, Source};

/// Held to find, add or remove an open file.
static SOURCES: Class = Class::new("cache.sources");

/// Held to count a failure, or a success after failures; a leaf.
static STANDSTILL: Class = Class::new("cache.standstill");

/// The memory of a block in addition to its bytes: its page's counter, its entry in the object's tree
/// (whose nodes may be half empty), its node in the queue, and its entry in the memory of evicted
/// blocks.
const BLOCK_COST: u64 = 256;
/// The memory of an object in addition to its blocks.
const OBJECT_COST: u64 = 512;
/// The most blocks of the long queue that are kept while a victim is searched. After them a block of the
/// short queue is evicted, if it was not used. A larger number would not find more: when a loop slightly
/// larger than the cache is read, all blocks have been used, and the blocks that stay are those that are
/// not examined.
const KEPT_MAX: usize = 4;
/// The most blocks that are examined in all; those of the second half are evicted even if they were
/// used.
const LOOKS_MAX: usize = 128;
/// The number of failures to write back, over all files, before waiting writers of other files get an
/// error: a single failure may be accidental.
const FAILURES_MIN: u64 = 3;

/// Failures to write back, over all files, since the last success.
#[derive(Debug)]
struct Standstill<E> {
    failures: u64,
    /// The error; `None` if there was no reply.
    last: Option<Arc<E>>,
}

/// See [`Cache`](crate::Cache).
#[derive(Debug)]
pub(crate) struct Shared<B: Backend> {
    pub(crate) options: Options,
    /// Bytes that blocks and objects use or have claimed.
    used: Account,
    /// Bytes of blocks that are dirty, being written back, or claimed for it.
    dirty: Account,
    /// Bytes of pages that exist.
    pub(crate) held: Arc<AtomicU64>,
    pub(crate) queues: Queues<Arc<Object<B>>>,
    /// The reason why the amount of dirty data does not fall.
    standstill: Mutex<Standstill<B::Error>>,
    /// Notified when there may be room for blocks or for dirty data.
    pub(crate) room: Notify,
    /// Blocks that may be copied for write-back, or be read.
    pub(crate) transit: Arc<Semaphore>,
    pub(crate) transit_blocks: u32,
    pub(crate) sources: Mutex<FxHashMap<Vec<u8>, std::sync::Weak<Source<B>>>>,
}

impl<B: Backend> Shared<B> {
    pub(crate) fn new(options: Options) -> Self {
        let options = options.checked();
        let room_max = options.size - options.transit();
        let blocks = room_max / u64::from(options.block_bytes);
        let transit_blocks = (options.transit() / u64::from(options.block_bytes)).max(1) as u32;
        Self {
            used: Account::new(room_max),
            dirty: Account::new(options.dirty_max),
            held: Arc::default(),
            queues: Queues::new(blocks as usize),
            standstill: Mutex::new(&STANDSTILL, Standstill { failures: 0, last: None }),
            room: Notify::new(),
            transit: Arc::new(Semaphore::new(transit_blocks as usize)),
            transit_blocks,
            sources: Mutex::new(&SOURCES, FxHashMap::default()),
            options,
        }
    }

    /// Claims memory for blocks, evicting others. `None` if no more blocks can be evicted.
    pub(crate) fn room(&self, blocks: u64) -> Option<Room<'_, B>> {
        let bytes = blocks * self.block_cost();
        while !self.used.claim(bytes) {
            if !self.throw_out() {
                return None;
            }
        }
        Some(Room { shared: self, blocks })
    }

    /// Like `room`, but waits until there is room.
    pub(crate) async fn wait_for_room(&self, blocks: u64) -> Room<'_, B> {
        loop {
            let told = self.room.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if let Some(room) = self.room(blocks) {
                return room;
            }
            self.hurry();
            told.await;
        }
    }

    /// Waits until `blocks` more blocks may be dirty.
    ///
    /// # Errors
    /// If meanwhile data of `source` could not be written back; or if `source` has nothing to write
    /// back, and other files fail to repeatedly.
    pub(crate) async fn wait_to_dirty(
        &self,
        source: &Source<B>,
        blocks: u64,
    ) -> Result<Dirtying<'_, B>, Error<B::Error>> {
        let failures = source.failures();
        let bytes = blocks * u64::from(self.options.block_bytes);
        loop {
            let told = self.room.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.dirty.claim(bytes) {
                return Ok(Dirtying { shared: self, blocks });
            }
            if let Some(e) = source.failed_since(failures) {
                return Err(e);
            }
            if let Some(e) = self.stands_still().filter(|_| !source.is_busy()) {
                return Err(e);
            }
            self.hurry();
            told.await;
        }
    }

    /// Records a failure to write back.
    pub(crate) fn failed(&self, e: Option<Arc<B::Error>>) {
        let mut standstill = self.standstill.lock();
        standstill.failures += 1;
        let old = std::mem::replace(&mut standstill.last, e);
        drop(standstill);
        drop(old);
        // Wakes writers that wait to dirty more, which report the failure.
        self.room.notify_waiters();
    }

    /// Records that data was written back.
    pub(crate) fn goes_on(&self) {
        let mut standstill = self.standstill.lock();
        standstill.failures = 0;
        let old = standstill.last.take();
        drop(standstill);
        drop(old);
    }

    /// Returns the last failure, if there were at least `FAILURES_MIN` and nothing was written back
    /// since.
    fn stands_still(&self) -> Option<Error<B::Error>> {
        let standstill = self.standstill.lock();
        let error = || standstill.last.clone().map_or(Error::GivenUp, Error::Full);
        (standstill.failures >= FAILURES_MIN).then(error)
    }

    /// Whether write-back should start now.
    pub(crate) fn is_rather_dirty(&self) -> bool {
        self.dirty.is_half_full()
    }

    pub(crate) fn blocks_are_clean(&self, blocks: u64) {
        if blocks > 0 {
            self.dirty.give_back(blocks * u64::from(self.options.block_bytes));
            self.room.notify_waiters();
        }
    }

    pub(crate) fn blocks_are_gone(&self, blocks: u64) {
        if blocks > 0 {
            self.used.give_back(blocks * self.block_cost());
            self.room.notify_waiters();
        }
    }

    /// Objects are few compared with blocks: they are only counted, and room for them is made with the
    /// next block.
    pub(crate) fn object_is_there(&self) {
        self.used.add(OBJECT_COST);
    }

    pub(crate) fn object_is_gone(&self) {
        self.used.give_back(OBJECT_COST);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.sum()
    }

    pub(crate) fn dirty(&self) -> u64 {
        self.dirty.sum()
    }

    fn block_cost(&self) -> u64 {
        u64::from(self.options.block_bytes) + BLOCK_COST
    }

    /// Evicts a block. Returns `false` if none can be evicted.
    fn throw_out(&self) -> bool {
        let mut kept = 0;
        for look in 0..LOOKS_MAX {
            let Some(next) = self.queues.candidate(kept >= KEPT_MAX) else { return false };
            if next.owner.throw_out(self, next.block, next.slot, look >= LOOKS_MAX / 2) {
                return true;
            }
            kept += usize::from(next.is_used);
        }
        false
    }

    /// Makes all files write back now.
    fn hurry(&self) {
        let sources: Vec<_> = self.sources.lock().values().filter_map(std::sync::Weak::upgrade).collect();
        for source in sources.iter().filter(|source| source.is_busy()) {
            source.write_back_later();
            source.hurry();
        }
    }
}

/// Memory claimed for some blocks. The unused part is returned on drop.
pub(crate) struct Room<'a, B: Backend> {
    shared: &'a Shared<B>,
    blocks: u64,
}

impl<B: Backend> Room<'_, B> {
    /// Uses the memory of one block. Returns `false` if none is left.
    pub(crate) fn take(&mut self) -> bool {
        let any = self.blocks > 0;
        self.blocks -= u64::from(any);
        any
    }
}

impl<B: Backend> Drop for Room<'_, B> {
    fn drop(&mut self) {
        self.shared.blocks_are_gone(self.blocks);
    }
}

/// Permission to make some blocks dirty. The unused part is returned on drop.
pub(crate) struct Dirtying<'a, B: Backend> {
    shared: &'a Shared<B>,
    blocks: u64,
}

impl<B: Backend> Dirtying<'_, B> {
    /// Uses the permission for one block.
    pub(crate) fn take(&mut self) {
        self.blocks -= 1;
    }
}

impl<B: Backend> Drop for Dirtying<'_, B> {
    fn drop(&mut self) {
        self.shared.blocks_are_clean(self.blocks);
    }
}
