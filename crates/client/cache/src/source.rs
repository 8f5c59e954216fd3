//! The state that all files of a cache share, and the cached state of one file: its objects and its
//! failures. A file that waits for memory makes all other files write back.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use loligo_lockstat::{Class, Mutex};
use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::sync::Notify;

use crate::backend::Backend;
use crate::error::Error;
use crate::object::{Dirtying, Memory, Object, Room, State, Tables};
use crate::options::Options;
use crate::standstill::Standstill;

/// Held to find, add or remove an open file.
static SOURCES: Class = Class::new("cache.sources");
/// Held to record or report a failure; a leaf.
static FAILURES: Class = Class::new("cache.failures");

/// The state that all files of a cache share; see [`Cache`](crate::Cache).
#[derive(Debug)]
pub(crate) struct Shared<B: Backend> {
    pub(crate) memory: Arc<Memory>,
    pub(crate) standstill: Standstill<B::Error>,
    /// The open files by id.
    pub(crate) sources: Mutex<FxHashMap<Vec<u8>, Weak<Source<B>>>>,
}

impl<B: Backend> Shared<B> {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            memory: Arc::new(Memory::new(options)),
            standstill: Standstill::default(),
            sources: Mutex::new(&SOURCES, FxHashMap::default()),
        }
    }

    /// Claims memory for blocks, and waits until there is room.
    pub(crate) async fn wait_for_room(&self, blocks: u64) -> Room<'_> {
        loop {
            let told = self.memory.room.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if let Some(room) = self.memory.room(blocks) {
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
    ) -> Result<Dirtying<'_>, Error<B::Error>> {
        let failures = source.failures();
        loop {
            let told = self.memory.room.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if let Some(dirtying) = self.memory.claim_dirty(blocks) {
                return Ok(dirtying);
            }
            if let Some(e) = source.failed_since(failures) {
                return Err(e);
            }
            if let Some(e) = self.standstill.reason().filter(|_| !source.is_busy()) {
                return Err(e);
            }
            self.hurry();
            told.await;
        }
    }

    /// Records a failure to write back.
    fn failed(&self, e: Option<Arc<B::Error>>) {
        self.standstill.failed(e);
        // Wakes writers that wait to dirty more, which report the failure.
        self.memory.room.notify_waiters();
    }

    /// Makes all files write back now.
    fn hurry(&self) {
        let sources: Vec<_> = self.sources.lock().values().filter_map(Weak::upgrade).collect();
        for source in sources.iter().filter(|source| source.is_busy()) {
            source.write_back_later();
            source.hurry();
        }
    }
}

/// A file: the state that its openers share.
pub(crate) struct Source<B: Backend> {
    pub(crate) shared: Arc<Shared<B>>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) backend: B,
    id: Vec<u8>,
    hash: u64,
    pub(crate) tables: Arc<Tables>,
    failures: Mutex<Failures<B::Error>>,
    /// Whether the write-back task is running.
    pub(crate) is_written_back: AtomicBool,
    /// Wakes the write-back task.
    pub(crate) hurry: Notify,
    /// The number of openers.
    pub(crate) openers: AtomicU64,
}

/// Failures to write back, counted as in Linux's `errseq_t`: each opener is told of a failure once; if
/// no opener was told, the next one to open the file is.
struct Failures<E> {
    count: u64,
    /// The error; `None` if there was no reply.
    last: Option<Arc<E>>,
    is_told: bool,
}

impl<B: Backend> Source<B> {
    pub(crate) fn new(shared: Arc<Shared<B>>, id: Vec<u8>, backend: B) -> Self {
        Self {
            memory: Arc::clone(&shared.memory),
            shared,
            backend,
            hash: FxBuildHasher.hash_one(&id),
            id,
            tables: Tables::new(),
            failures: Mutex::new(&FAILURES, Failures { count: 0, last: None, is_told: true }),
            is_written_back: AtomicBool::new(false),
            hurry: Notify::new(),
            openers: AtomicU64::new(0),
        }
    }

    /// Finds an object that has cached blocks.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Object>> {
        self.tables.find(number)
    }

    /// Runs `work` on an object under its lock; adds the object if it does not exist.
    pub(crate) fn with<R>(
        self: &Arc<Self>,
        number: u64,
        work: impl FnOnce(&Arc<Object>, &mut State) -> R,
    ) -> R {
        loop {
            let object = self.tables.find_or_add(number, self.hash, &self.memory);
            let mut state = object.state.lock();
            if !state.is_dead {
                let done = work(&object, &mut state);
                object.retire(&self.memory, &mut state);
                return done;
            }
        }
    }

    /// Whether data has not reached the back end.
    pub(crate) fn is_busy(&self) -> bool {
        self.tables.is_busy()
    }

    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
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
}

impl<E> Failures<E> {
    fn error(&self) -> Error<E> {
        self.last.clone().map_or(Error::GivenUp, Error::WriteBack)
    }
}

impl<B: Backend> Drop for Source<B> {
    fn drop(&mut self) {
        let mut sources = self.shared.sources.lock();
        // A new file may have the same id by now.
        if sources.get(&self.id).is_some_and(|source| source.strong_count() == 0) {
            sources.remove(&self.id);
        }
        drop(sources);
        for object in self.tables.all() {
            let mut state = object.state.lock();
            state.is_dead = true;
            let blocks = std::mem::take(&mut state.blocks);
            drop(state);
            for (number, block) in blocks {
                object.dispose(&self.memory, number, block);
            }
            object.leave(&self.memory);
        }
    }
}

impl<B: Backend> fmt::Debug for Source<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("id", &String::from_utf8_lossy(&self.id)).finish_non_exhaustive()
    }
}
