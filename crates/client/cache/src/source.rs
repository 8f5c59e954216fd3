//! The cached state of one file: its objects, each with a lock of its own, and its failures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use loligo_lockstat::{Class, Mutex, MutexGuard};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::backend::Backend;
use crate::block::Block;
use crate::error::Error;
use crate::evict::Slot;
use crate::shared::Shared;

/// Held to look up or change some blocks of one object, at most [`BATCH`] at a time. A page's bytes are
/// copied under it only where a part of a block is written.
static OBJECT: Class = Class::new("cache.object");
/// Held to find, add or remove one object, or to list [`BATCH`] of them. Taken under an object's lock;
/// no other lock is taken under it.
static TABLE: Class = Class::new("cache.table");
/// Held to record or report a failure; a leaf.
static FAILURES: Class = Class::new("cache.failures");

/// The number of shards of a file's table of objects.
const TABLES: usize = 16;
/// The most blocks that are changed under one acquisition of an object's lock.
pub(crate) const BATCH: usize = 16;

/// A file: the state that its openers share.
pub(crate) struct Source<B: Backend> {
    pub(crate) shared: Arc<Shared<B>>,
    pub(crate) backend: B,
    id: Vec<u8>,
    hash: u64,
    tables: Arc<Tables<B>>,
    failures: Mutex<Failures<B::Error>>,
    /// Whether the write-back task is running.
    pub(crate) is_written_back: AtomicBool,
    /// Wakes the write-back task.
    pub(crate) hurry: Notify,
    /// The number of openers.
    pub(crate) openers: AtomicU64,
}

/// A file's objects by number. Separate from the file, because objects keep a weak reference to it.
struct Tables<B: Backend>([Mutex<Table<B>>; TABLES]);

struct Table<B: Backend> {
    objects: BTreeMap<u64, Arc<Object<B>>>,
    /// The objects with blocks that have not reached the back end.
    busy: BTreeSet<u64>,
}

/// Failures to write back, counted as in Linux's `errseq_t`: each opener is told of a failure once; if
/// no opener was told, the next one to open the file is.
struct Failures<E> {
    count: u64,
    /// The error; `None` if there was no reply.
    last: Option<Arc<E>>,
    is_told: bool,
}

/// The blocks of one object.
pub(crate) struct Object<B: Backend> {
    pub(crate) number: u64,
    hash: u64,
    tables: Weak<Tables<B>>,
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

impl<B: Backend> Source<B> {
    pub(crate) fn new(shared: Arc<Shared<B>>, id: Vec<u8>, backend: B) -> Self {
        let table = || Table { objects: BTreeMap::new(), busy: BTreeSet::new() };
        Self {
            shared,
            backend,
            hash: FxBuildHasher.hash_one(&id),
            id,
            tables: Arc::new(Tables(std::array::from_fn(|_| Mutex::new(&TABLE, table())))),
            failures: Mutex::new(&FAILURES, Failures { count: 0, last: None, is_told: true }),
            is_written_back: AtomicBool::new(false),
            hurry: Notify::new(),
            openers: AtomicU64::new(0),
        }
    }

    /// Finds an object that has cached blocks.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Object<B>>> {
        self.table(number).lock().objects.get(&number).cloned()
    }

    pub(crate) fn find_or_add(self: &Arc<Self>, number: u64) -> Arc<Object<B>> {
        self.find(number).unwrap_or_else(|| {
            let fresh = Arc::new(Object {
                number,
                hash: FxBuildHasher.hash_one((self.hash, number)),
                tables: Arc::downgrade(&self.tables),
                state: Mutex::new(&OBJECT, State::default()),
                changed: Notify::new(),
            });
            let mut table = self.table(number).lock();
            let object = table.objects.entry(number).or_insert_with(|| {
                self.shared.object_is_there();
                fresh
            });
            Arc::clone(object)
        })
    }

    /// Runs `work` on an object under its lock; adds the object if it does not exist.
    pub(crate) fn with<R>(
        self: &Arc<Self>,
        number: u64,
        work: impl FnOnce(&Arc<Object<B>>, &mut State) -> R,
    ) -> R {
        loop {
            let object = self.find_or_add(number);
            let mut state = object.state.lock();
            if !state.is_dead {
                let done = work(&object, &mut state);
                object.retire(&self.shared, &mut state);
                return done;
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Object<B>>> {
        self.tables.list(|table, after| {
            let range = table.objects.range((after, Bound::Unbounded));
            range.map(|(number, object)| (*number, Some(Arc::clone(object)))).take(BATCH).collect()
        })
    }

    pub(crate) fn busy(&self) -> Vec<Arc<Object<B>>> {
        self.tables.list(|table, after| {
            let range = table.busy.range((after, Bound::Unbounded));
            range.map(|number| (*number, table.objects.get(number).cloned())).take(BATCH).collect()
        })
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.tables.0.iter().any(|table| !table.lock().busy.is_empty())
    }

    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Records whether an object is busy. The caller holds its lock.
    pub(crate) fn note_busy(&self, number: u64, is_busy: bool) {
        let mut table = self.table(number).lock();
        match is_busy {
            true => table.busy.insert(number),
            false => table.busy.remove(&number),
        };
    }

    /// Records a failure to write back; `None` if there was no reply.
    pub(crate) fn failed(&self, e: Option<B::Error>) {
        let e = e.map(Arc::new);
        let mut failures = self.failures.lock();
        failures.count += 1;
        failures.is_told = false;
        let old = std::mem::replace(&mut failures.last, e.clone());
        drop(failures);
        drop(old);
        self.shared.failed(e);
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures.lock().count
    }

    pub(crate) fn failed_since(&self, count: u64) -> Option<Error<B::Error>> {
        let failures = self.failures.lock();
        (failures.count > count).then(|| failures.error())
    }

    /// The initial value of an opener's failure count: all failures so far, but without the last one if
    /// no opener was told of it.
    pub(crate) fn first_look(&self) -> u64 {
        let failures = self.failures.lock();
        failures.count - u64::from(!failures.is_told)
    }

    /// Returns the last failure if this opener was not told of it yet.
    pub(crate) fn tell(&self, seen: &AtomicU64) -> Option<Error<B::Error>> {
        let mut failures = self.failures.lock();
        // Relaxed: accessed under the lock.
        if seen.swap(failures.count, Ordering::Relaxed) == failures.count {
            return None;
        }
        failures.is_told = true;
        Some(failures.error())
    }

    fn table(&self, number: u64) -> &Mutex<Table<B>> {
        self.tables.of(number)
    }
}

impl<E> Failures<E> {
    fn error(&self) -> Error<E> {
        self.last.clone().map_or(Error::GivenUp, Error::WriteBack)
    }
}

impl<B: Backend> Tables<B> {
    /// Lists the objects that `some` finds in each table behind a number, a few at a time. Objects added
    /// or removed meanwhile may be missing.
    fn list(&self, some: impl Fn(&Table<B>, Bound<u64>) -> Found<B>) -> Vec<Arc<Object<B>>> {
        let mut all = Vec::new();
        for table in &self.0 {
            let mut after = Bound::Unbounded;
            loop {
                let found = some(&table.lock(), after);
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

    fn of(&self, number: u64) -> &Mutex<Table<B>> {
        &self.0[number as usize % TABLES]
    }
}

/// Objects by number, ascending.
type Found<B> = SmallVec<[(u64, Option<Arc<Object<B>>>); BATCH]>;

impl<B: Backend> Drop for Source<B> {
    fn drop(&mut self) {
        let mut sources = self.shared.sources.lock();
        // A new file may have the same id by now.
        if sources.get(&self.id).is_some_and(|source| source.strong_count() == 0) {
            sources.remove(&self.id);
        }
        drop(sources);
        for object in self.all() {
            let mut state = object.state.lock();
            state.is_dead = true;
            let blocks = std::mem::take(&mut state.blocks);
            drop(state);
            for (number, block) in blocks {
                object.dispose(&self.shared, number, block);
            }
            object.leave(&self.shared);
        }
    }
}

impl<B: Backend> Object<B> {
    /// Locks the object; `None` if it was removed from its table.
    pub(crate) fn lock(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.state.lock()).filter(|state| !state.is_dead)
    }

    /// Queues a block that has become idle for eviction, or removes it if it has no page.
    pub(crate) fn settle(self: &Arc<Self>, shared: &Shared<B>, state: &mut State, number: u32) {
        let Some(block) = state.blocks.get_mut(&number) else { return };
        if !block.is_idle() {
            return;
        }
        if !block.has_page() {
            state.blocks.remove(&number);
        } else if block.slot.is_none() {
            block.slot = Some(shared.queues.add(self.block_hash(number), Arc::clone(self), number));
        }
    }

    /// Removes a block that is in use from the eviction queue.
    pub(crate) fn unqueue(&self, shared: &Shared<B>, block: &mut Block, number: u32) {
        if let Some(slot) = block.slot.take() {
            // A further reference to this object.
            drop(shared.queues.remove(self.block_hash(number), slot, false));
        }
    }

    /// Removes the object from its file if it has no blocks.
    pub(crate) fn retire(&self, shared: &Shared<B>, state: &mut State) {
        if state.blocks.is_empty() && !state.is_dead {
            state.is_dead = true;
            self.leave(shared);
        }
    }

    fn leave(&self, shared: &Shared<B>) {
        let Some(tables) = self.tables.upgrade() else { return };
        // The caller holds another reference.
        if tables.of(self.number).lock().objects.remove(&self.number).is_some() {
            shared.object_is_gone();
        }
    }

    /// Evicts a block if it is still in this slot, and was not used or `anyway` is set. A block that was
    /// used is moved to the end of the long queue.
    pub(crate) fn throw_out(&self, shared: &Shared<B>, number: u32, slot: Slot, anyway: bool) -> bool {
        let mut state = self.state.lock();
        let Some(block) = state.blocks.get_mut(&number).filter(|block| block.slot == Some(slot)) else {
            return false;
        };
        let hash = self.block_hash(number);
        if block.forget_a_use() && !anyway {
            shared.queues.keep(hash, slot);
            return false;
        }
        let owner = shared.queues.remove(hash, slot, true);
        let block = state.blocks.remove(&number);
        self.retire(shared, &mut state);
        drop(state);
        drop((owner, block));
        shared.blocks_are_gone(1);
        true
    }

    /// Frees a block that was removed from its object.
    pub(crate) fn dispose(&self, shared: &Shared<B>, number: u32, mut block: Block) {
        self.unqueue(shared, &mut block, number);
        shared.blocks_are_clean(u64::from(block.is_busy()));
        shared.blocks_are_gone(u64::from(block.has_page()));
    }

    fn block_hash(&self, number: u32) -> u64 {
        FxBuildHasher.hash_one((self.hash, number))
    }
}

impl<B: Backend> fmt::Debug for Source<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("id", &String::from_utf8_lossy(&self.id)).finish_non_exhaustive()
    }
}

impl<B: Backend> fmt::Debug for Object<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("number", &self.number).finish_non_exhaustive()
    }
}
