//! The store as a whole: creating, opening and closing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};

use loligo_lockstat::{Class, Mutex};
use loligo_store::{
    BatchListener, Collection, CollectionStats, CommitListener, ObjectStore, StatFs, StoreError, guarded,
};
use loligo_wire::{PgId, PoolId, Reader, Uuid};

use super::ahead::Ahead;
use super::backend::files::Files;
use super::backend::{Backend, Kv, Snapshot};
use super::checkpoint::{Checkpointer, Collections, map_bytes};
use super::collection::DiskCollection;
use super::commit::Committer;
use super::config::{DiskConfig, OpenError, open_error};
use super::core::{Core, Start};
use super::journal::Journal;
use super::layout::{BLOCK, Superblock};
use super::notes::{LIMIT, Notes};
use super::opened::Opened;
use super::pool::Pool;
use super::queue::WAITING_MAX;
use super::rows::{self, CollectionRow, StoreRow};
use super::space::{Space, Stored};
use super::{keys, make, reader, record};

static THREADS: Class = Class::new("store.threads");

/// The maximum number of threads that may wait for the disk.
const POOL_THREADS_MAX: usize = 16;

/// An [`ObjectStore`] on disk.
pub struct DiskStore {
    id: Uuid,
    core: Arc<Core>,
    collections: Arc<Collections>,
    /// The committer, then the checkpointer, then the others.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl DiskStore {
    /// Opens the store in a directory; creates one if there is none.
    pub fn open(dir: &Path, config: DiskConfig) -> Result<Self, OpenError> {
        let files = Files::open(dir).map_err(open_error)?;
        Self::open_on(Arc::new(files), config)
    }

    pub(super) fn open_on(backend: Arc<dyn Backend>, config: DiskConfig) -> Result<Self, OpenError> {
        let (superblock, kv) = make::find_or_make(&*backend, config)?;
        let pool = Pool::start(POOL_THREADS_MAX)?;
        let opened = Opening::new(&*backend, superblock, kv, pool.clone(), config)
            .and_then(|opening| opening.finish(&*backend, config.io_uring));
        match opened {
            Ok((core, collections, threads)) => {
                // Held as long as anything may be written: it locks the directory.
                core.signals.on_stop(Box::new(move |_| drop(backend)));
                let threads = Mutex::new(&THREADS, threads);
                Ok(Self { id: superblock.salt, core, collections, threads })
            }
            Err(e) => {
                pool.close();
                Err(e)
            }
        }
    }

    /// Identifies this store. Keep it from clients: a client that knows it could write data that looks
    /// like the store's own.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Registers `hook` to be called once if the store stops because it can write no more; calls it now if
    /// it has stopped. [`why_stopped`](Self::why_stopped) returns the reason.
    pub fn on_stop(&self, hook: impl FnOnce(&StoreError) + Send + 'static) {
        self.core.signals.on_stop(Box::new(hook));
    }

    /// Returns why the store has stopped, if it has. For people.
    pub fn why_stopped(&self) -> Option<String> {
        self.core.signals.why_stopped().map(str::to_owned)
    }

    /// Writes everything and ends. Nothing may be submitted after this.
    pub fn close(&self) {
        let mut threads = std::mem::take(&mut *self.threads.lock()).into_iter();
        // Release: publishes everything submitted before.
        self.core.signals.closing.store(true, Ordering::Release);
        self.core.signals.wake();
        if let Some(committer) = threads.next() {
            let _ = committer.join();
        }
        self.core.signals.drained.store(true, Ordering::Release);
        self.core.signals.wake();
        if let Some(reader) = self.core.io.reader.get() {
            reader.close();
        }
        self.core.io.pool.close();
        threads.for_each(|thread| drop(thread.join()));
        self.core.stop("the store was closed".to_owned());
        // References to parts of the store may live longer, but keep no file open.
        self.core.io.close_kv();
        let mut table = self.collections.0.write();
        let removed = std::mem::take(&mut table.removed);
        drop(table);
        self.collections.all().iter().chain(&removed).for_each(|collection| collection.close());
    }

    #[cfg(test)]
    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> &Collections {
        &self.collections
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// A store that is being opened.
struct Opening {
    core: Arc<Core>,
    collections: Arc<Collections>,
    journal: Journal,
    superblock: Superblock,
    /// The number of checkpoints so far.
    checkpoints: u64,
    stored: Stored,
    /// Removed collections, and the newest record about each.
    tombstones: BTreeMap<PgId, u64>,
    kv: Arc<dyn Kv>,
}

impl Opening {
    fn new(
        backend: &dyn Backend,
        superblock: Superblock,
        kv: Arc<dyn Kv>,
        pool: Pool,
        config: DiskConfig,
    ) -> Result<Self, OpenError> {
        let disk = kv.snapshot();
        let row = match disk.get(keys::STORE)? {
            Some(row) => StoreRow::decode(&row)?,
            None => StoreRow::empty(superblock.fsid),
        };
        if row.fsid != superblock.fsid {
            return Err(OpenError::Damaged("the map belongs to another store".to_owned()));
        }
        let mut stored = Stored::new(superblock.blocks);
        for (key, value) in disk.range(b"S", b"T", usize::MAX)? {
            let number = Reader::new(&key[1..]).array().map(u32::from_be_bytes)?;
            stored.load(number, &value)?;
        }
        for (key, value) in disk.range(b"R", b"S", usize::MAX)? {
            stored.load_shared(Reader::new(&key[1..]).array().map(u32::from_be_bytes)?, &value)?;
        }
        if let Some(block) = stored.shared_but_free() {
            return Err(OpenError::Damaged(format!("block {block} has several references, and is free")));
        }
        let start = Start {
            journal_len: superblock.journal_len,
            journal_at: row.journal_tail,
            next_seq: row.next_seq,
            next_object: row.next_object,
            cache_bytes: config.cache_bytes,
            waiting_max: WAITING_MAX,
            small_writes: config.small_writes,
        };
        let core = Core::new(backend.open("data")?, Arc::clone(&kv), Space::new(&stored), pool, &start);
        let file = backend.open("journal")?;
        let journal = Journal::new(file, superblock.salt, superblock.journal_len, row.journal_tail)?;
        let mut opening = Self {
            core: Arc::new(core),
            collections: Arc::new(Collections::new(row.next_collection)),
            journal,
            superblock,
            checkpoints: row.mark.map_or(0, |mark| mark.checkpoint),
            stored,
            tombstones: BTreeMap::new(),
            kv,
        };
        opening.load_collections(&disk)?;
        opening.replay(LIMIT.newest(backend, superblock.salt)?)?;
        Ok(opening)
    }

    fn load_collections(&mut self, disk: &Arc<dyn Snapshot>) -> Result<(), OpenError> {
        let mut table = self.collections.0.write();
        let guard = Arc::clone(&table.guard);
        drop(table);
        let mut objects = 0;
        for (key, value) in disk.range(b"C", b"D", usize::MAX)? {
            let mut r = Reader::new(&key[1..]);
            let pool = PoolId(r.array().map(i64::from_be_bytes)?);
            let pg = PgId { pool, seed: r.array().map(u32::from_be_bytes)? };
            let mut row = CollectionRow::decode(&value)?;
            if row.number == 0 {
                self.tombstones.insert(pg, row.applied_seq);
                continue;
            }
            if row.object_rows.is_none() {
                row.object_rows = Some(rows::count_object_rows(&**disk, row.number)?);
            }
            objects += row.stats.objects;
            let newest = disk.get(&keys::records(row.number, row.records / keys::RECORDS_PER_ROW))?;
            let partial = (row.records % keys::RECORDS_PER_ROW) as usize;
            let ops = match newest {
                Some(newest) if partial > 0 => rows::decode_ops(&newest)?,
                _ => Vec::new(),
            };
            if ops.len() != partial {
                return Err(OpenError::Damaged(format!("the operation records of {pg}")));
            }
            let core = Arc::clone(&self.core);
            let collection = DiskCollection::new(core, pg, &row, ops, Arc::clone(disk), Arc::clone(&guard));
            table = self.collections.0.write();
            table.open.insert(pg, collection);
            drop(table);
        }
        if objects == 0 {
            self.core.filter.complete();
        }
        Ok(())
    }

    /// Applies the records that the journal has and the map does not.
    fn replay(&mut self, limit: Option<u64>) -> Result<(), OpenError> {
        let mut next_seq = self.core.marks.next_seq.load(Ordering::Relaxed);
        while let Some(records) = self.journal.read()? {
            for bytes in &records {
                let record = record::decode(bytes)?;
                next_seq = next_seq.max(record.seq + 1);
                self.repeat(record).map_err(|e| OpenError::Damaged(e.to_string()))?;
            }
        }
        let at = self.journal.head();
        if self.journal.has_later(limit)? {
            return Err(OpenError::Damaged(format!("the journal at position {at}, with more behind it")));
        }
        self.core.marks.next_seq.store(next_seq, Ordering::Relaxed);
        self.core.marks.head.store(at, Ordering::Relaxed);
        let is_ready = |limit: &u64| *limit >= at && self.journal.reaches(*limit);
        self.core.marks.limit.store(limit.filter(is_ready).unwrap_or(at), Ordering::Relaxed);
        Ok(())
    }

    fn repeat(&mut self, record: record::Record<'_>) -> Result<(), StoreError> {
        let void = self.tombstones.get(&record.pg).copied().unwrap_or(0);
        let known = self.collections.0.read().open.get(&record.pg).cloned();
        if known.is_none() && record.seq <= void {
            return Ok(());
        }
        let collection =
            known.unwrap_or_else(|| make_collection(&self.core, &self.collections, record.pg, void));
        if record.seq <= collection.inner.lock().seq {
            return Ok(());
        }
        let removes = matches!(record.what, record::What::Remove);
        collection.replay(record.seq, record.what)?;
        if removes {
            self.tombstones.insert(record.pg, record.seq);
            let mut table = self.collections.0.write();
            table.open.remove(&record.pg);
            table.removed.push(collection);
        }
        Ok(())
    }

    #[expect(clippy::type_complexity, reason = "the parts of a store")]
    fn finish(
        self,
        backend: &dyn Backend,
        io_uring: bool,
    ) -> Result<(Arc<Core>, Arc<Collections>, Vec<JoinHandle<()>>), OpenError> {
        let Self { core, collections, journal, superblock, checkpoints, stored, tombstones, kv } = self;
        // Each thread has handles of its own.
        let open = |name| backend.open(name);
        let ahead = Ahead::new(Arc::clone(&core), Notes::open(backend, superblock.salt)?, open("journal")?)?;
        let head = journal.head();
        let tombstones = tombstones.into_keys().map(|pg| (pg, head)).collect();
        let committer = Committer::new(Arc::clone(&core), open("data")?, journal);
        let checkpointer = Checkpointer::new(
            Arc::clone(&core),
            open("data")?,
            Arc::clone(&collections),
            (superblock, Notes::open(backend, superblock.salt)?, checkpoints),
            stored,
            tombstones,
        );
        core.space.set_map_bytes(map_bytes(&collections.all()));
        let of_hook = Arc::downgrade(&collections);
        core.signals.on_stop(Box::new(move |error| {
            let all = of_hook.upgrade().map(|collections| collections.all()).unwrap_or_default();
            all.iter().filter_map(|c| c.audience.get()).for_each(|listener| listener.stopped(error));
        }));
        let stop = {
            // A weak reference, so that the threads do not keep alive what they stop.
            let core = Arc::downgrade(&core);
            move |why: String| core.upgrade().into_iter().for_each(|core| core.stop(why.clone()))
        };
        let spawn = |name: &'static str, run: Box<dyn FnOnce() + Send>| {
            let stop = stop.clone();
            thread::Builder::new().name(name.to_owned()).spawn(move || guarded(name, run, stop))
        };
        core.io.pool.on_panic(Box::new(stop.clone()));
        if io_uring
            && let Some(reader) =
                reader::Reader::start(Arc::clone(&core.io.data), Arc::clone(&core.batches), stop.clone())?
        {
            let _ = core.io.reader.set(reader);
        }
        let mut threads = vec![spawn("loligo-commit", Box::new(move || committer.run()))?];
        let _ = core.signals.committer.set(threads[0].thread().clone());
        threads.push(spawn("loligo-checkpt", Box::new(move || checkpointer.run()))?);
        let _ = core.signals.checkpointer.set(threads[1].thread().clone());
        threads.push(spawn("loligo-ahead", Box::new(move || ahead.run()))?);
        let _ = core.signals.ahead.set(threads[2].thread().clone());
        let filler = Arc::clone(&core);
        threads.push(spawn("loligo-filter", Box::new(move || fill(&filler, &*kv)))?);
        Ok((core, collections, threads))
    }
}

/// Adds the names of all objects on disk to the filter.
fn fill(core: &Core, kv: &dyn Kv) {
    const PAGE: usize = 4096;
    let disk = kv.snapshot();
    let mut start = b"O".to_vec();
    while core.signals.why_stopped().is_none() && !core.signals.closing.load(Ordering::Relaxed) {
        // If the names cannot be read, every lookup goes to the disk and reports the error.
        let Ok(rows) = disk.range(&start, b"P", PAGE) else { return };
        for (key, _) in &rows {
            let number = key.get(1..5).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
            let (Some(number), Some(name)) = (number, keys::object_name(key)) else { return };
            core.filter.insert(number, name.as_ref());
        }
        match rows.last() {
            Some((key, _)) if rows.len() == PAGE => start = [&key[..], &[0]].concat(),
            _ => return core.filter.complete(),
        }
    }
}

/// Creates a collection; records up to `void` belong to an earlier one of that name.
fn make_collection(core: &Arc<Core>, collections: &Collections, pg: PgId, void: u64) -> Arc<DiskCollection> {
    let disk = core.io.kv().snapshot();
    let mut table = collections.0.write();
    if let Some(collection) = table.open.get(&pg) {
        return Arc::clone(collection);
    }
    let row = CollectionRow { number: table.next_number, applied_seq: void, ..CollectionRow::default() };
    table.next_number += 1;
    let collection =
        DiskCollection::new(Arc::clone(core), pg, &row, Vec::new(), disk, Arc::clone(&table.guard));
    table.open.insert(pg, Arc::clone(&collection));
    collection
}

impl ObjectStore for DiskStore {
    fn on_batches(&self, listener: Arc<dyn BatchListener>) {
        self.core.batches.listen(listener);
    }

    fn open(&self, pg: PgId, listener: Arc<dyn CommitListener>) -> Result<Arc<dyn Collection>, StoreError> {
        self.core.signals.check()?;
        let known = self.collections.0.read().open.get(&pg).cloned();
        let collection = match known {
            Some(collection) => collection,
            // Records of an earlier collection of that name have smaller numbers.
            None => {
                let seq = self.core.marks.next_seq.fetch_add(1, Ordering::Relaxed);
                make_collection(&self.core, &self.collections, pg, seq)
            }
        };
        collection.audience.set(listener);
        Ok(Arc::new(Opened(collection)))
    }

    fn remove(&self, pg: PgId) -> Result<(), StoreError> {
        let mut table = self.collections.0.write();
        let Some(collection) = table.open.remove(&pg) else { return Ok(()) };
        // With the table locked: a checkpoint finds the collection either unchanged or removed, with the
        // record of the removal.
        let (pushed, forgotten) = collection.remove();
        table.removed.push(collection);
        drop(table);
        drop(forgotten);
        self.core.wake_committer(pushed)
    }

    fn collections(&self) -> Vec<PgId> {
        self.collections.0.read().open.keys().copied().collect()
    }

    fn statfs(&self) -> StatFs {
        let mut stored = CollectionStats::default();
        self.collections.all().iter().for_each(|collection| stored += collection.stats());
        let (blocks, free) = self.core.space.figures();
        StatFs { total: blocks * BLOCK as u64, available: free * BLOCK as u64, stored }
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskStore").field("collections", &self.collections().len()).finish_non_exhaustive()
    }
}
