//! The checkpointer: one thread that updates the map with the changes in memory, so that the journal can
//! be reused.
//!
//! A checkpoint captures the changes of each collection (a cut, under the collection's lock, in memory
//! only), writes the blocks that have no place yet, and commits everything to the map at once, with the
//! sequence number of the newest record in each collection's cut. A restart does not replay records up to
//! that one. The order is: blocks, sync, map. Then the journal's tail advances. Blocks that the map no
//! longer refers to are freed when no view uses them any more.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{io, thread};

use loligo_lockstat::{Class, RwLock};
use loligo_store::StoreError;
use loligo_wire::PgId;

use super::backend::{BackendFile, Batch};
use super::collection::DiskCollection;
use super::core::{Core, DIRTY_MAX};
use super::cut::{Cut, Flushed, Grown};
use super::flush::{Flush, Writer};
use super::guard::Guard;
use super::keys;
use super::layout::{Runs, Superblock};
use super::notes::{CHECKPOINT, Notes};
use super::rows::{CollectionRow, StoreMark, StoreRow, encode_ops};
use super::space::{Need, Stored};

static COLLECTIONS: Class = Class::new("store.disk_collections");

/// The maximum time until changes are in the map, if nothing else triggers a checkpoint.
const INTERVAL: Duration = Duration::from_secs(10);
/// The interval of the checks for a reason.
const LOOK: Duration = Duration::from_millis(200);
/// The bytes of large writes in memory that trigger a checkpoint.
const LARGE_BYTES_MAX: u64 = 96 << 20;
/// The number of objects of all collections that stay in memory though the map has them: about a kilobyte
/// each.
const CLEAN_MAX: usize = 24 << 10;
/// The number of operation records kept on disk for each collection.
const RECORDS_KEPT: u64 = 3072;

/// The existing collections, and the removed ones that are still in the map.
pub(super) struct Collections(pub(super) RwLock<Table>);

pub(super) struct Table {
    pub(super) open: BTreeMap<PgId, Arc<DiskCollection>>,
    pub(super) removed: Vec<Arc<DiskCollection>>,
    /// The number of the next collection.
    pub(super) next_number: u32,
    /// Held by views of the newest snapshot.
    pub(super) guard: Arc<Guard>,
}

impl Collections {
    pub(super) fn new(next_number: u32) -> Self {
        let (open, removed, guard) = (BTreeMap::new(), Vec::new(), Arc::default());
        Self(RwLock::new(&COLLECTIONS, Table { open, removed, next_number, guard }))
    }

    pub(super) fn all(&self) -> Vec<Arc<DiskCollection>> {
        self.removed_and_open().1
    }

    /// Taken at one moment: each collection is either removed or open.
    fn removed_and_open(&self) -> (Vec<Arc<DiskCollection>>, Vec<Arc<DiskCollection>>) {
        let table = self.0.read();
        (table.removed.clone(), table.open.values().cloned().collect())
    }
}

pub(super) struct Checkpointer {
    core: Arc<Core>,
    /// The data file, for syncs. A separate handle: the kernel reports a failed write once to each handle.
    data: Arc<dyn BackendFile>,
    collections: Arc<Collections>,
    superblock: Superblock,
    notes: Notes,
    /// The number of checkpoints so far.
    count: u64,
    stored: Stored,
    /// Blocks that the map no longer refers to, with the guard of older views and the number of records
    /// that must be safe first.
    retired: VecDeque<(Arc<Guard>, u64, Runs)>,
    /// Rows of removed collections, and the journal position where the records about them end.
    tombstones: Vec<(PgId, u64)>,
    /// Its buffer is reused: new memory would have to be cleared.
    writer: Writer,
}

/// A collection, its objects, the number of its operation records, and the growth.
type FlushedCollection = (Arc<DiskCollection>, Vec<Flushed>, u64, Grown);

/// State that changes only when the checkpoint is safe.
struct Done {
    flushed: Vec<FlushedCollection>,
    freed: Runs,
    promised: Need,
    removed: Vec<Arc<DiskCollection>>,
    tail: u64,
}

impl Checkpointer {
    pub(super) fn new(
        core: Arc<Core>,
        data: Arc<dyn BackendFile>,
        collections: Arc<Collections>,
        (superblock, notes, count): (Superblock, Notes, u64),
        stored: Stored,
        tombstones: Vec<(PgId, u64)>,
    ) -> Self {
        Self {
            core,
            data,
            collections,
            superblock,
            notes,
            count,
            stored,
            retired: VecDeque::new(),
            tombstones,
            writer: Writer::default(),
        }
    }

    /// Runs until the store is closed, with a last checkpoint then, or until it stops.
    pub(super) fn run(mut self) {
        let mut last = Instant::now();
        loop {
            // Acquire: the committer ended before it set this.
            let closing = self.core.signals.drained.load(Ordering::Acquire);
            let wanted = self.core.signals.checkpoint_wanted.swap(false, Ordering::Acquire);
            if self.core.signals.why_stopped().is_some() {
                return;
            }
            if closing || wanted || self.is_due(last) {
                last = Instant::now();
                if let Err(e) = self.checkpoint() {
                    return self.core.stop(format!("a checkpoint: {e}"));
                }
                self.core.signals.wake();
            }
            if closing {
                return;
            }
            thread::park_timeout(LOOK);
        }
    }

    fn is_due(&self, last: Instant) -> bool {
        self.core.dirty.load(Ordering::Relaxed) > DIRTY_MAX
            || self.core.queue.large_bytes() > LARGE_BYTES_MAX
            || last.elapsed() > INTERVAL
    }

    /// Writes everything that has been submitted.
    pub(super) fn checkpoint(&mut self) -> Result<(), StoreError> {
        self.release();
        let mut batch = Batch::default();
        let done = self.write_down(&mut batch)?;
        let has_tail = self.core.marks.tail.load(Ordering::Relaxed) == done.tail;
        if has_tail && done.flushed.is_empty() && done.removed.is_empty() {
            return Ok(());
        }
        let failed = |e: io::Error| super::rows::bad(e.to_string());
        self.data.sync().map_err(failed)?;
        self.core.signals.check()?;
        self.core.io.kv().commit(batch).map_err(failed)?;
        self.count += 1;
        // Before any block is freed and any part of the journal is reused: an older map must not be taken
        // for this one.
        self.notes.store(CHECKPOINT, self.count).map_err(failed)?;
        self.finish(done);
        Ok(())
    }

    fn write_down(&mut self, batch: &mut Batch) -> Result<Done, StoreError> {
        // Before any cut: every group before this position is included in all cuts. Acquire: sees the
        // committer's writes.
        let tail = self.core.marks.head.load(Ordering::Acquire);
        self.core.queue.forget_large();
        self.core.let_in();
        let (removed, open) = self.collections.removed_and_open();
        let cuts: Vec<(Arc<DiskCollection>, Cut)> =
            removed.iter().chain(&open).filter_map(|of| Some((Arc::clone(of), of.cut()?))).collect();
        // Written data is cached for reads, but must not evict everything that is in the cache.
        self.core.io.keep_anew();
        let mut done =
            Done { flushed: Vec::new(), freed: Runs::new(), promised: Need::default(), removed, tail };
        self.bury(tail, batch);
        let mut lost = Runs::new();
        for (collection, mut cut) in cuts {
            done.promised += cut.promised;
            self.core.dirty.fetch_sub(cut.entries.len() as u64, Ordering::Relaxed);
            let number = collection.number;
            let (stored, writer) = (&mut self.stored, &mut self.writer);
            let mut flush = Flush::new(&self.core, stored, batch, number, writer);
            let (flushed, grown) = if cut.removed {
                flush.remove_all()?;
                (Vec::new(), Grown::default())
            } else {
                flush.entries(std::mem::take(&mut cut.entries))?
            };
            lost.extend(std::mem::take(&mut flush.lost));
            done.freed.append(&mut cut.dropped);
            self.put_collection(collection.pg, &mut cut, grown, batch);
            if !cut.removed {
                done.flushed.push((collection, flushed, cut.row.records, grown));
            }
        }
        self.writer.write_out(&self.core)?;
        // After all new references were counted: a clone may refer to blocks that its source no longer has.
        for run in lost {
            self.stored.release(run, &mut done.freed).map_err(|e| super::rows::bad(e.to_string()))?;
        }
        self.stored.save(batch);
        let Superblock { salt, journal_len, blocks, .. } = self.superblock;
        let row = StoreRow {
            fsid: self.superblock.fsid,
            journal_tail: tail,
            next_object: self.core.marks.next_object.load(Ordering::Relaxed),
            next_collection: self.collections.0.read().next_number,
            next_seq: self.core.marks.next_seq.load(Ordering::Relaxed),
            mark: Some(StoreMark { salt, journal_len, blocks, checkpoint: self.count + 1 }),
        };
        batch.set(keys::STORE, row.encode());
        Ok(done)
    }

    /// Removes the rows of removed collections whose records have left the journal.
    fn bury(&mut self, tail: u64, batch: &mut Batch) {
        let collections = self.collections.0.read();
        self.tombstones.retain(|(pg, until)| {
            let gone = *until <= tail;
            if gone && !collections.open.contains_key(pg) {
                batch.remove(keys::collection(*pg));
            }
            !gone
        });
    }

    fn put_collection(&self, pg: PgId, cut: &mut Cut, grown: Grown, batch: &mut Batch) {
        if cut.removed {
            // The row only marks which records are void. A collection created again has its own row, which
            // comes later.
            let row = CollectionRow { applied_seq: cut.row.applied_seq, ..CollectionRow::default() };
            batch.set(keys::collection(pg), row.encode());
            return;
        }
        grown.add_to(&mut cut.row.stats, cut.row.object_rows.get_or_insert_default());
        batch.set(keys::collection(pg), cut.row.encode());
        let number = cut.row.number;
        let first = cut.first_op / keys::RECORDS_PER_ROW;
        for (group, ops) in (first..).zip(cut.ops.chunks(keys::RECORDS_PER_ROW as usize)) {
            batch.set(keys::records(number, group), encode_ops(ops));
            if let Some(old) = group.checked_sub(RECORDS_KEPT / keys::RECORDS_PER_ROW) {
                batch.remove(keys::records(number, old));
            }
        }
    }

    /// Updates memory, journal and space when the map is safe.
    fn finish(&mut self, done: Done) {
        let disk = self.core.io.kv().snapshot();
        let (old, guard) = {
            let mut table = self.collections.0.write();
            let old = std::mem::take(&mut table.guard);
            (old, Arc::clone(&table.guard))
        };
        let mut flushed: BTreeMap<PgId, _> = done
            .flushed
            .into_iter()
            .map(|(c, flushed, records, grown)| (c.pg, (c, flushed, records, grown)))
            .collect();
        let all = self.collections.all();
        for collection in &all {
            let (entries, records, grown) = match flushed.remove(&collection.pg) {
                Some((of, entries, records, grown)) if Arc::ptr_eq(&of, collection) => {
                    (entries, records, grown)
                }
                _ => (Vec::new(), 0, Grown::default()),
            };
            collection.rebase(entries, records, grown, CLEAN_MAX / all.len(), &disk, &guard);
        }
        // The map's size first: the free space must never be overestimated.
        self.core.space.set_map_bytes(map_bytes(&all));
        self.core.space.release_promise(done.promised);
        self.retired.push_back((old, self.core.queue.pushed(), done.freed));
        // Release: the committer overwrites the journal before the tail only after the map is safe.
        self.core.marks.tail.store(done.tail, Ordering::Release);
        let end = self.core.marks.head.load(Ordering::Acquire);
        for removed in done.removed {
            self.tombstones.push((removed.pg, end));
            self.collections.0.write().removed.retain(|c| !Arc::ptr_eq(c, &removed));
        }
        self.release();
    }

    /// Frees blocks that no view uses any more.
    fn release(&mut self) {
        while let Some((guard, pushed, _)) = self.retired.front_mut()
            && self.core.queue.committer_is_past(*pushed)
            && Arc::get_mut(guard).is_some()
            && let Some((.., runs)) = self.retired.pop_front()
        {
            for run in &runs {
                // Only a hint to the file system; the result does not matter.
                if run.len >= DISCARD_BLOCKS_MIN {
                    let _ = self.data.discard(run.offset(), u64::from(run.len) * super::layout::BLOCK as u64);
                }
            }
            // No thread can add them again: no view is left, and the committer has finished with them.
            self.core.io.data_cache.forget(&runs);
            self.core.space.free(&runs);
        }
    }
}

/// The bytes of the capacity that the map takes.
pub(super) fn map_bytes(collections: &[Arc<DiskCollection>]) -> u64 {
    collections.iter().map(|collection| collection.map_bytes()).sum()
}

/// Shorter runs are not returned to the file system: they are reused soon.
const DISCARD_BLOCKS_MIN: u32 = 16;
