//! The objects of a file. Each has a lock of its own, held to change some of its blocks. Reads of what is
//! cached take none: the objects and their pages are found through indices that never change in place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::{Arc, Weak};

use loligo_lockstat::{Class, Mutex, MutexGuard};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::block::Block;
use crate::evict::Slot;
use crate::index::Index;
use crate::memory::{self, MemoryOf};
use crate::shelf::Shelf;

/// Held to change some blocks of one object, or to look at their state, at most [`BATCH`] at a time; not to
/// read them. A page's bytes are copied under it only where a part of a block is written, or where a block
/// stays that came with others.
static OBJECT: Class = Class::new("cache.object");
/// Held to add or remove one object, or to list [`BATCH`] of them. Taken under an object's lock; no other
/// lock is taken under it.
static TABLE: Class = Class::new("cache.table");

/// The number of shards of a file's table of objects.
const TABLES: usize = 16;
/// The most blocks that are changed under one acquisition of an object's lock.
pub(crate) const BATCH: usize = 16;

/// The most blocks of the long queue that are kept while a victim is searched. After them a block of the
/// short queue is evicted, if it was not used. A larger number would not find more: when a loop slightly
/// larger than the cache is read, all blocks have been used, and the blocks that stay are those that are
/// not examined.
const KEPT_MAX: usize = 4;
/// The most blocks that are examined in all; those of the second half are evicted even if they were
/// used.
const LOOKS_MAX: usize = 128;

/// The most blocks that are evicted for each block that comes, while pages keep too much memory.
const EXTRA_MAX: u64 = 4;

/// The memory of a cache, with the objects that own its blocks.
pub(crate) type Memory = MemoryOf<Arc<Object>>;

/// See [`memory::Room`].
pub(crate) type Room<'a> = memory::Room<'a, Arc<Object>>;

/// See [`memory::Dirtying`].
pub(crate) type Dirtying<'a> = memory::Dirtying<'a, Arc<Object>>;

/// A file's objects by number. Separate from the file, because objects keep a weak reference to it.
pub(crate) struct Tables([Shard; TABLES]);

struct Shard {
    table: Mutex<Table>,
    /// The table's objects, for those that look for one. Changed under the table's lock.
    index: Index<Object>,
}

pub(crate) struct Table {
    objects: BTreeMap<u64, Arc<Object>>,
    /// The objects with blocks that have not reached the back end.
    busy: BTreeSet<u64>,
}

/// The blocks of one object.
pub(crate) struct Object {
    pub(crate) number: u64,
    hash: u64,
    tables: Weak<Tables>,
    /// Where the blocks' pages are found. Changed under the lock.
    pub(crate) shelf: Shelf,
    pub(crate) state: Mutex<State>,
    /// Notified when blocks were read or written back.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) blocks: BTreeMap<u32, Block>,
    /// The blocks with dirty bytes.
    pub(crate) dirty: BTreeSet<u32>,
    /// The blocks being written back, with the number of the first write that made them dirty.
    pub(crate) writing: BTreeMap<u32, u64>,
    /// The number of writes so far.
    pub(crate) seq: u64,
    /// How often blocks were dropped. A read in progress during such a drop does not keep its data.
    pub(crate) forgotten: u64,
    /// The object has no blocks and was removed from its table.
    pub(crate) is_dead: bool,
}

impl State {
    pub(crate) fn is_busy(&self) -> bool {
        !self.dirty.is_empty() || !self.writing.is_empty()
    }
}

impl Tables {
    pub(crate) fn new() -> Arc<Self> {
        let table = || Table { objects: BTreeMap::new(), busy: BTreeSet::new() };
        let shard = |_| Shard { table: Mutex::new(&TABLE, table()), index: Index::new() };
        Arc::new(Self(std::array::from_fn(shard)))
    }

    /// Finds an object that has cached blocks.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Object>> {
        self.of(number).index.get(in_shard(number))
    }

    /// Looks at an object that has cached blocks. Threads that look at one do not share a counter of
    /// references to it.
    pub(crate) fn look<R>(&self, number: u64, look: impl FnOnce(&Object) -> Option<R>) -> Option<R> {
        let objects = self.of(number).index.load();
        look(objects.get(in_shard(number))?)
    }

    /// Finds an object, or adds it. `file` is the hash of the file's id.
    pub(crate) fn find_or_add(self: &Arc<Self>, number: u64, file: u64, memory: &Memory) -> Arc<Object> {
        self.find(number).unwrap_or_else(|| {
            let fresh = Arc::new(Object {
                number,
                hash: FxBuildHasher.hash_one((file, number)),
                tables: Arc::downgrade(self),
                shelf: Shelf::new(),
                state: Mutex::new(&OBJECT, State::default()),
                changed: Notify::new(),
            });
            let Shard { table, index } = self.of(number);
            let mut table = table.lock();
            let object = table.objects.entry(number).or_insert_with(|| {
                memory.object_is_there();
                index.insert(in_shard(number), Arc::clone(&fresh));
                fresh
            });
            Arc::clone(object)
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Object>> {
        self.list(|table, after| {
            let range = table.objects.range((after, Bound::Unbounded));
            range.map(|(number, object)| (*number, Some(Arc::clone(object)))).take(BATCH).collect()
        })
    }

    pub(crate) fn busy(&self) -> Vec<Arc<Object>> {
        self.list(|table, after| {
            let range = table.busy.range((after, Bound::Unbounded));
            range.map(|number| (*number, table.objects.get(number).cloned())).take(BATCH).collect()
        })
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.0.iter().any(|shard| !shard.table.lock().busy.is_empty())
    }

    /// Records whether an object is busy. The caller holds its lock.
    pub(crate) fn note_busy(&self, number: u64, is_busy: bool) {
        let mut table = self.of(number).table.lock();
        match is_busy {
            true => table.busy.insert(number),
            false => table.busy.remove(&number),
        };
    }

    /// Locks the table that an object is in.
    #[cfg(test)]
    pub(crate) fn lock_of(&self, number: u64) -> MutexGuard<'_, Table> {
        self.of(number).table.lock()
    }

    /// Lists the objects that `some` finds in each table behind a number, a few at a time. Objects added
    /// or removed meanwhile may be missing.
    fn list(&self, some: impl Fn(&Table, Bound<u64>) -> Found) -> Vec<Arc<Object>> {
        let mut all = Vec::new();
        for shard in &self.0 {
            let mut after = Bound::Unbounded;
            loop {
                let found = some(&shard.table.lock(), after);
                let Some((last, _)) = found.last() else { break };
                after = Bound::Excluded(*last);
                let is_full = found.len() == BATCH;
                all.extend(found.into_iter().filter_map(|(_, object)| object));
                if !is_full {
                    break;
                }
            }
        }
        all
    }

    fn of(&self, number: u64) -> &Shard {
        &self.0[number as usize % TABLES]
    }
}

/// Returns an object's number among those of its shard.
fn in_shard(number: u64) -> u64 {
    number / TABLES as u64
}

/// Objects by number, ascending.
type Found = SmallVec<[(u64, Option<Arc<Object>>); BATCH]>;

impl Object {
    /// Locks the object; `None` if it was removed from its table.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.state.lock()).filter(|state| !state.is_dead)
    }

    /// Queues a block that has become idle for eviction, or removes it if it has no page.
    pub(crate) fn settle(self: &Arc<Self>, memory: &Memory, state: &mut State, number: u32) {
        let Some(block) = state.blocks.get_mut(&number) else { return };
        if !block.is_idle() {
            return;
        }
        if !block.has_page() {
            state.blocks.remove(&number);
        } else if block.slot.is_none() {
            block.slot = Some(memory.queues.add(self.block_hash(number), Arc::clone(self), number));
        }
    }

    /// Removes a block that is in use from the eviction queue.
    pub(crate) fn unqueue(&self, memory: &Memory, block: &mut Block, number: u32) {
        if let Some(slot) = block.slot.take() {
            // A further reference to this object.
            drop(memory.queues.remove(self.block_hash(number), slot, false));
        }
    }

    /// Removes the object from its file if it has no blocks.
    pub(crate) fn retire(&self, memory: &Memory, state: &mut State) {
        if state.blocks.is_empty() && !state.is_dead {
            state.is_dead = true;
            self.leave(memory);
        }
    }

    /// Takes the object out of its file's table.
    pub(crate) fn leave(&self, memory: &Memory) {
        let Some(tables) = self.tables.upgrade() else { return };
        let Shard { table, index } = tables.of(self.number);
        let mut table = table.lock();
        // The caller holds another reference.
        if table.objects.remove(&self.number).is_some() {
            index.remove(in_shard(self.number));
            memory.object_is_gone();
        }
    }

    /// Evicts a block if it is still in this slot, and was not used or `anyway` is set. A block that was
    /// used is moved to the end of the long queue.
    pub(crate) fn throw_out(&self, memory: &Memory, number: u32, slot: Slot, anyway: bool) -> bool {
        let mut state = self.state.lock();
        let Some(block) = state.blocks.get_mut(&number).filter(|block| block.slot == Some(slot)) else {
            return false;
        };
        let hash = self.block_hash(number);
        if block.forget_a_use() && !anyway {
            memory.queues.keep(hash, slot);
            let answer = block.move_out(&memory.held);
            drop(state);
            drop(answer);
            return false;
        }
        let owner = memory.queues.remove(hash, slot, true);
        let block = state.blocks.remove(&number);
        let page = block.and_then(|mut block| block.forget(&self.shelf, memory, number));
        self.retire(memory, &mut state);
        drop(state);
        drop((owner, page));
        memory.blocks_are_gone(1);
        true
    }

    /// Frees a block that was removed from its object.
    pub(crate) fn dispose(&self, memory: &Memory, number: u32, mut block: Block) {
        self.unqueue(memory, &mut block, number);
        memory.blocks_are_clean(u64::from(block.is_busy()));
        let page = block.forget(&self.shelf, memory, number);
        memory.blocks_are_gone(u64::from(page.is_some()));
    }

    fn block_hash(&self, number: u32) -> u64 {
        FxBuildHasher.hash_one((self.hash, number))
    }
}

impl Memory {
    /// Claims memory for blocks, evicting others. `None` if no more blocks can be evicted.
    pub(crate) fn room(&self, blocks: u64) -> Option<Room<'_>> {
        // Pages that are gone may have left something of what was read with them. A few more blocks go for
        // each that comes: the rest of one run lies in several queues.
        (0..EXTRA_MAX * blocks).take_while(|_| self.holds_too_much() && self.throw_out()).for_each(drop);
        loop {
            if let Some(room) = self.claim(blocks) {
                return Some(room);
            }
            if !self.throw_out() {
                return None;
            }
        }
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
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("number", &self.number).finish_non_exhaustive()
    }
}
