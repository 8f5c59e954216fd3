//! What all files of a cache share: memory, and how much of it is dirty.

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

/// Held to find, add or remove one open file.
static SOURCES: Class = Class::new("cache.sources");

/// Held to count a failure, or a success after failures; a leaf.
static STANDSTILL: Class = Class::new("cache.standstill");

/// What a block costs beside its bytes: its page's counter, its entry in the object's tree (whose nodes may
/// be half empty), its place in the queue, and what is remembered of it when it is gone.
const BLOCK_COST: u64 = 256;
/// What an object costs beside its blocks.
const OBJECT_COST: u64 = 512;
/// Blocks of the long queue that go around once more while one is looked for to be thrown out; after them one
/// of the short queue is, if it was not used. More would not find more: of a circle that is a little larger
/// than the cache, which has all of it used, what stays is what is not looked at.
const KEPT_MAX: usize = 4;
/// Blocks that are looked at in all; those of the second half are thrown out even if they were used.
const LOOKS_MAX: usize = 128;
/// So often writing back fails, of any file, before those are told who wait because of it: once may be by
/// chance.
const FAILURES_MIN: u64 = 3;

/// Failures to write back, of any file, since something was written back last.
#[derive(Debug)]
struct Standstill<E> {
    failures: u64,
    /// Why; none if there was no answer.
    last: Option<Arc<E>>,
}

/// See [`Cache`](crate::Cache).
#[derive(Debug)]
pub(crate) struct Shared<B: Backend> {
    pub(crate) options: Options,
    /// Bytes that blocks and objects take, or will.
    used: Account,
    /// Bytes of blocks that are dirty or on their way, or will be.
    dirty: Account,
    /// Bytes of pages that exist.
    pub(crate) held: Arc<AtomicU64>,
    pub(crate) queues: Queues<Arc<Object<B>>>,
    /// What keeps dirty blocks from becoming fewer.
    standstill: Mutex<Standstill<B::Error>>,
    /// Told when there may be room again, of either sort.
    pub(crate) room: Notify,
    /// Blocks that may be copied for their way to the back end, or be read ahead.
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

    /// Room for blocks; something is thrown out for it. None if all there is is needed.
    pub(crate) fn room(&self, blocks: u64) -> Option<Room<'_, B>> {
        let bytes = blocks * self.block_cost();
        while !self.used.claim(bytes) {
            if !self.throw_out() {
                return None;
            }
        }
        Some(Room { shared: self, blocks })
    }

    /// The same; waits until there is.
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

    /// Waits until so many more blocks may be dirty.
    ///
    /// # Errors
    /// If meanwhile something of `source` could not be written back; or it has nothing to write back, and
    /// other files fail to, again and again.
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

    /// Something could not be written back.
    pub(crate) fn failed(&self, e: Option<Arc<B::Error>>) {
        let mut standstill = self.standstill.lock();
        standstill.failures += 1;
        let old = std::mem::replace(&mut standstill.last, e);
        drop(standstill);
        drop(old);
        // Who waits for leave to write more is told of it.
        self.room.notify_waiters();
    }

    /// Something was written back.
    pub(crate) fn goes_on(&self) {
        let mut standstill = self.standstill.lock();
        standstill.failures = 0;
        let old = standstill.last.take();
        drop(standstill);
        drop(old);
    }

    /// The last failure, if there were several and nothing was written back since.
    fn stands_still(&self) -> Option<Error<B::Error>> {
        let standstill = self.standstill.lock();
        let error = || standstill.last.clone().map_or(Error::GivenUp, Error::Full);
        (standstill.failures >= FAILURES_MIN).then(error)
    }

    /// Whether it is time to write back.
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

    /// Objects are few beside their blocks: they are counted, and room is made for them with the next block.
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

    /// Throws a block out; false if none may be.
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

    /// Has all files write back now.
    fn hurry(&self) {
        let sources: Vec<_> = self.sources.lock().values().filter_map(std::sync::Weak::upgrade).collect();
        for source in sources.iter().filter(|source| source.is_busy()) {
            source.write_back_later();
            source.hurry();
        }
    }
}

/// Room for some blocks; what is not taken is given back.
pub(crate) struct Room<'a, B: Backend> {
    shared: &'a Shared<B>,
    blocks: u64,
}

impl<B: Backend> Room<'_, B> {
    /// For one block; false if there is none left.
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

/// Leave to make some blocks dirty; what is not taken is given back.
pub(crate) struct Dirtying<'a, B: Backend> {
    shared: &'a Shared<B>,
    blocks: u64,
}

impl<B: Backend> Dirtying<'_, B> {
    /// For one block.
    pub(crate) fn take(&mut self) {
        self.blocks -= 1;
    }
}

impl<B: Backend> Drop for Dirtying<'_, B> {
    fn drop(&mut self) {
        self.shared.blocks_are_clean(self.blocks);
    }
}
