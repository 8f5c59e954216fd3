//! The memory of a cache: what all its blocks and objects use, and how much of it is dirty.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore};

use crate::account::Account;
use crate::evict::Queues;
use crate::options::Options;

/// The memory of a block in addition to its bytes: its page's counter, its entry in the object's tree
/// (whose nodes may be half empty), its node in the queue, and its entry in the memory of evicted
/// blocks.
const BLOCK_COST: u64 = 352;
/// The memory of an object in addition to its blocks.
const OBJECT_COST: u64 = 512;
/// The memory of a row of places, where readers find the pages of neighbouring blocks, and of its entry in
/// the object's index.
const ROW_COST: u64 = 288;

/// The memory of a cache. `T` is the type of a block's owner.
#[derive(Debug)]
pub(crate) struct MemoryOf<T> {
    pub(crate) options: Options,
    /// Bytes that blocks, rows and objects use or have claimed.
    used: Account,
    /// Bytes of blocks that are dirty, being written back, or claimed for it.
    dirty: Account,
    /// Bytes of pages that exist, and of what was read with them.
    pub(crate) held: Arc<AtomicU64>,
    pub(crate) queues: Queues<T>,
    /// Notified when there may be room for blocks or for dirty data.
    pub(crate) room: Notify,
    /// Blocks that may be written back, and are kept for it if they are replaced meanwhile, or be read.
    pub(crate) transit: Arc<Semaphore>,
    pub(crate) transit_blocks: u32,
}

impl<T: Clone> MemoryOf<T> {
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
            room: Notify::new(),
            transit: Arc::new(Semaphore::new(transit_blocks as usize)),
            transit_blocks,
            options,
        }
    }

    /// Claims memory for blocks, if so much is unused.
    pub(crate) fn claim(&self, blocks: u64) -> Option<Room<'_, T>> {
        self.used.claim(blocks * self.block_cost()).then(|| Room { memory: self, blocks })
    }

    /// Claims that blocks become dirty, if so many more may be.
    pub(crate) fn claim_dirty(&self, blocks: u64) -> Option<Dirtying<'_, T>> {
        let bytes = blocks * u64::from(self.options.block_bytes);
        self.dirty.claim(bytes).then(|| Dirtying { memory: self, blocks })
    }

    /// Whether write-back should start now.
    pub(crate) fn is_rather_dirty(&self) -> bool {
        self.dirty.is_half_full()
    }

    /// Whether pages keep more memory than all blocks together may have.
    pub(crate) fn holds_too_much(&self) -> bool {
        let pages_max = self.used.max() / self.block_cost() * u64::from(self.options.block_bytes);
        self.held.load(Ordering::Relaxed) > pages_max
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

    /// Rows are counted as objects are.
    pub(crate) fn row_is_there(&self) {
        self.used.add(ROW_COST);
    }

    pub(crate) fn row_is_gone(&self) {
        self.used.give_back(ROW_COST);
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
}

/// Memory claimed for some blocks. The unused part is returned on drop.
pub(crate) struct Room<'a, T: Clone> {
    memory: &'a MemoryOf<T>,
    blocks: u64,
}

impl<T: Clone> Room<'_, T> {
    /// Uses the memory of one block. Returns `false` if none is left.
    pub(crate) fn take(&mut self) -> bool {
        let any = self.blocks > 0;
        self.blocks -= u64::from(any);
        any
    }
}

impl<T: Clone> Drop for Room<'_, T> {
    fn drop(&mut self) {
        self.memory.blocks_are_gone(self.blocks);
    }
}

/// Permission to make some blocks dirty. The unused part is returned on drop.
pub(crate) struct Dirtying<'a, T: Clone> {
    memory: &'a MemoryOf<T>,
    blocks: u64,
}

impl<T: Clone> Dirtying<'_, T> {
    /// Uses the permission for one block.
    pub(crate) fn take(&mut self) {
        self.blocks -= 1;
    }
}

impl<T: Clone> Drop for Dirtying<'_, T> {
    fn drop(&mut self) {
        self.memory.blocks_are_clean(self.blocks);
    }
}
