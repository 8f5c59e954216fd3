//! The objects of one placement group.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_store::{Change, CollectionStats, ObjectName, ObjectRef, ObjectView, OpRecord, StoreError};
use loligo_wire::{Eversion, PgId};
use smallvec::SmallVec;

use super::backend::{Closed, Snapshot};
use super::cache::{Cache, Entry};
use super::core::Core;
use super::cut::{Cut, CutEntry, Flushed, Grown};
use super::guard::Guard;
use super::keys;
use super::layout::{BLOCK, Runs};
use super::onode::{Dropped, Edit, Onode, Replaced};
use super::queue::{Audience, Larges, Pending, Pushed};
use super::record::{self, Body, Edits, What};
use super::rows::{self, CollectionRow, bad};
use super::space::Need;
use super::view::DiskView;

/// Normally uncontended: one thread at a time serves a placement group. Checkpoints, finished reads and
/// statistics also take it.
static COLLECTION: Class = Class::new("store.disk_collection");

pub(super) struct DiskCollection {
    pub(super) core: Arc<Core>,
    pub(super) pg: PgId,
    /// The number in the keys of its rows in the map.
    pub(super) number: u32,
    pub(super) inner: Mutex<Inner>,
    pub(super) audience: Arc<Audience>,
}

pub(super) struct Inner {
    pub(super) cache: Cache,
    /// The map as the last checkpoint left it; cached entries that it does not have are newer.
    pub(super) disk: Arc<dyn Snapshot>,
    pub(super) guard: Arc<Guard>,
    /// The sequence number of the newest record.
    pub(super) seq: u64,
    pub(super) version: Eversion,
    pub(super) stats: CollectionStats,
    /// The number of operation records so far.
    pub(super) records: u64,
    /// The newest of them: all that are not in complete rows of the map.
    pub(super) ops: Vec<OpRecord>,
    /// See [`Dropped`].
    pub(super) dropped: Dropped,
    /// The space reserved for writes since the last checkpoint.
    promised: Need,
    /// Bytes of the objects' rows at the last checkpoint.
    object_rows: u64,
    /// Whether the collection's row in the map is outdated.
    pub(super) dirty: bool,
    pub(super) removed: bool,
}

impl DiskCollection {
    /// Creates a collection from its row in the map.
    pub(super) fn new(
        core: Arc<Core>,
        pg: PgId,
        row: &CollectionRow,
        ops: Vec<OpRecord>,
        disk: Arc<dyn Snapshot>,
        guard: Arc<Guard>,
    ) -> Arc<Self> {
        let inner = Inner {
            cache: Cache::default(),
            disk,
            guard,
            seq: row.applied_seq,
            version: row.version,
            stats: row.stats,
            records: row.records,
            ops,
            dropped: Runs::new(),
            promised: Need::default(),
            object_rows: row.object_rows.unwrap_or(0),
            dirty: false,
            removed: false,
        };
        let inner = Mutex::new(&COLLECTION, inner);
        Arc::new(Self { core, pg, number: row.number, inner, audience: Audience::new() })
    }

    /// Releases the map, also the references of clones in the cache: the store is closed.
    pub(super) fn close(&self) {
        let closed: Arc<dyn Snapshot> = Arc::new(Closed);
        let mut inner = self.inner.lock();
        let old = (std::mem::replace(&mut inner.disk, closed), std::mem::take(&mut inner.cache));
        drop(inner);
        drop(old);
    }

    /// Returns how much the collection holds.
    pub(super) fn stats(&self) -> CollectionStats {
        self.inner.lock().stats
    }

    /// Removes the collection: it is empty from now on. The caller must pass the first value to
    /// [`Core::wake_committer`] and drop the second, both without holding locks.
    pub(super) fn remove(&self) -> (Pushed, Forgotten) {
        let mut inner = self.inner.lock();
        let seq = self.core.marks.next_seq.fetch_add(1, Ordering::Relaxed);
        let record = record::encode_remove(seq, self.pg);
        let forgotten = inner.forget(seq);
        let pending =
            Pending { record, larges: Larges::new(), audience: Arc::clone(&self.audience), version: None };
        (self.core.queue.push(pending), forgotten)
    }

    /// Applies a record of the journal at a restart.
    pub(super) fn replay(&self, seq: u64, what: What<'_>) -> Result<(), StoreError> {
        match what {
            What::Remove => drop(self.inner.lock().forget(seq)),
            What::Transaction(body) => {
                for edits in &body.objects {
                    for edit in &edits.edits {
                        if let Edit::Large { large, .. } = edit
                            && !large.runs.iter().all(|run| self.core.space.take_exactly(*run))
                        {
                            return Err(bad(format!(
                                "record {seq} of the journal names blocks that are in use"
                            )));
                        }
                    }
                }
                let need = self.prepare(&body.objects)?;
                self.core.space.promise_again(need);
                self.inner.lock().apply(self, seq, body, need);
            }
        }
        Ok(())
    }

    /// The bytes of its objects in the map at the last checkpoint: keys and values of omaps, names and
    /// attributes.
    pub(super) fn map_bytes(&self) -> u64 {
        let inner = self.inner.lock();
        let stats = &inner.stats;
        stats.omap_bytes + stats.omap_keys * keys::OMAP_PREFIX_LEN as u64 + inner.object_rows
    }

    /// Loads all objects of a transaction into the cache. Returns the space that the transaction needs
    /// until the next checkpoint.
    fn prepare(&self, objects: &[Edits<'_>]) -> Result<Need, StoreError> {
        let sources: SmallVec<[ObjectRef<'_>; 2]> =
            objects.iter().flat_map(|o| &o.edits).filter_map(source_of).collect();
        let oids: SmallVec<[ObjectRef<'_>; 2]> =
            objects.iter().map(|o| o.oid).chain(sources.iter().copied()).collect();
        while let Some((oid, disk)) = self.missing(&oids)? {
            self.load(oid, &disk)?;
        }
        let need = Need { blocks: blocks_later(objects), bytes: map_bytes(objects) };
        Ok(self.with_clones(&oids, need, sources.len() as u64))
    }

    /// Returns the most that the next checkpoint has to write if these objects are written to and cloned:
    /// a clone has no more than all of them together.
    fn with_clones(&self, oids: &[ObjectRef<'_>], written: Need, clones: u64) -> Need {
        if clones == 0 {
            return written;
        }
        let mut inner = self.inner.lock();
        let mut each = written;
        for (i, oid) in oids.iter().enumerate() {
            let Some(entry) = inner.cache.get(*oid).filter(|_| !oids[..i].contains(oid)) else { continue };
            let blocks = entry.live.as_ref().map_or(0, |onode| onode.blocks_without_place());
            each += Need { blocks, bytes: entry.clone_bytes_max() };
        }
        let all = |written: u64, each: u64| written.saturating_add(clones.saturating_mul(each));
        Need { blocks: all(written.blocks, each.blocks), bytes: all(written.bytes, each.bytes) }
    }

    /// Returns the first of these objects that is not in the cache; adds entries for those that do not exist.
    #[expect(clippy::type_complexity, reason = "an object and where to look for it")]
    fn missing<'a>(
        &self,
        oids: &[ObjectRef<'a>],
    ) -> Result<Option<(ObjectRef<'a>, Arc<dyn Snapshot>)>, StoreError> {
        let mut inner = self.inner.lock();
        if inner.removed {
            return Err(StoreError::NoCollection(self.pg));
        }
        for oid in oids {
            if inner.cache.get(*oid).is_some() {
                continue;
            }
            if self.core.filter.may_exist(self.number, *oid) {
                return Ok(Some((*oid, Arc::clone(&inner.disk))));
            }
            inner.cache.insert(Entry::new(Arc::new(ObjectName::new(*oid)?), None, None));
        }
        Ok(None)
    }

    /// Loads an object from the map into the cache.
    pub(super) fn load(&self, oid: ObjectRef<'_>, disk: &Arc<dyn Snapshot>) -> Result<(), StoreError> {
        let name = Arc::new(ObjectName::new(oid)?);
        let loaded = rows::load(&**disk, self.number, oid)?;
        let (live, stored) = loaded.map(|(onode, stored)| (Arc::new(onode), Arc::new(stored))).unzip();
        let mut inner = self.inner.lock();
        // If a checkpoint has ended meanwhile, the loaded object may be outdated; the caller looks again.
        if Arc::ptr_eq(&inner.disk, disk) {
            inner.cache.insert(Entry::new(name, live, stored));
        }
        Ok(())
    }

    pub(super) fn look(&self, oid: ObjectRef<'_>) -> Look {
        let mut inner = self.inner.lock();
        if inner.removed {
            return Look::Found(None);
        }
        let (disk, guard) = (Arc::clone(&inner.disk), Arc::clone(&inner.guard));
        match inner.cache.get(oid) {
            Some(entry) => Look::Found(entry.live.clone().map(|onode| {
                let (io, name) = (Arc::clone(&self.core.io), Arc::clone(&entry.name));
                Arc::new(DiskView { io, name, onode, disk, guard }) as Arc<dyn ObjectView>
            })),
            None if self.core.filter.may_exist(self.number, oid) => Look::OnDisk(disk),
            None => Look::Found(None),
        }
    }

    /// Applies a transaction and queues its record: both use the same bytes.
    pub(super) fn apply_and_queue(&self, mut body: Body<'_>, larges: Larges) -> Result<(), StoreError> {
        let seq = self.core.marks.next_seq.fetch_add(1, Ordering::Relaxed);
        let record = record::encode(seq, self.pg, &mut body);
        let version = Some(body.version);
        let need = self.prepare(&body.objects)?;
        let mut inner = self.inner.lock();
        if inner.removed {
            return Err(StoreError::NoCollection(self.pg));
        }
        self.core.space.promise(need)?;
        inner.apply(self, seq, body, need);
        let pending = Pending { record, larges, audience: Arc::clone(&self.audience), version };
        let pushed = self.core.queue.push(pending);
        drop(inner);
        self.core.wake_committer(pushed)
    }
}

fn source_of<'a>(edit: &Edit<'a>) -> Option<ObjectRef<'a>> {
    match edit {
        Edit::Change(Change::CloneFrom { source }) => Some(*source),
        _ => None,
    }
}

/// The state of a removed collection.
pub(super) type Forgotten = (Cache, Arc<dyn Snapshot>, Arc<Guard>);

/// The result of looking up an object in memory.
pub(super) enum Look {
    Found(Option<Arc<dyn ObjectView>>),
    OnDisk(Arc<dyn Snapshot>),
}

/// The approximate bytes of an object's row besides its name and attributes.
const ROW_BYTES: usize = 200;

/// The most that objects, keys, values and attributes take in the map. What they replace counts until the
/// next checkpoint. Changes that only make something smaller need nothing.
fn map_bytes(objects: &[Edits<'_>]) -> u64 {
    let pairs = |pairs: &[(Bytes, Bytes)]| {
        pairs.iter().map(|(k, v)| keys::OMAP_PREFIX_LEN + k.len() + v.len()).sum::<usize>()
    };
    let of = |edit: &Edit<'_>| match edit {
        Edit::Change(Change::SetOmap { pairs: set }) => pairs(set),
        Edit::Change(Change::SetXattr { name, value }) => name.len() + value.len(),
        Edit::Change(Change::SetOmapHeader { header }) => header.len(),
        _ => 0,
    };
    let grows = |edit: &Edit<'_>| match edit {
        Edit::Large { .. } => true,
        Edit::Change(change) => matches!(
            change,
            Change::Create
                | Change::Write { .. }
                | Change::WriteFull { .. }
                | Change::CloneFrom { .. }
                | Change::SetOmap { .. }
                | Change::SetXattr { .. }
                | Change::SetOmapHeader { .. }
        ),
    };
    let row = |object: &Edits<'_>| match object.edits.last() {
        Some(Edit::Change(Change::Remove)) => 0,
        _ if object.edits.iter().any(grows) => {
            ROW_BYTES + object.oid.name.len() + object.oid.nspace.len() + object.oid.key.len()
        }
        _ => 0,
    };
    objects.iter().map(|object| row(object) + object.edits.iter().map(of).sum::<usize>()).sum::<usize>()
        as u64
}

/// The most blocks that small writes will need at the next checkpoint.
fn blocks_later(objects: &[Edits<'_>]) -> u64 {
    let blocks = |len: usize| len as u64 / BLOCK as u64 + 2;
    let of = |edit: &Edit<'_>| match edit {
        Edit::Change(Change::Write { data, .. } | Change::WriteFull { data }) if data.len() <= BLOCK => 2,
        Edit::Change(Change::Write { data, .. } | Change::WriteFull { data }) => blocks(data.len()),
        Edit::Change(Change::Zero { .. }) => 2,
        Edit::Change(Change::Truncate { size }) if size % BLOCK as u64 != 0 => 1,
        _ => 0,
    };
    objects.iter().flat_map(|o| &o.edits).map(of).sum()
}

impl Inner {
    /// Removes everything, and returns it to be freed without the lock. Remaining references to the
    /// collection keep neither the map nor blocks alive.
    fn forget(&mut self, seq: u64) -> Forgotten {
        self.seq = seq;
        self.removed = true;
        self.stats = CollectionStats::default();
        let cache = std::mem::take(&mut self.cache);
        for entry in cache.unstored() {
            if let Some(onode) = &entry.live {
                onode.drop_blocks(&mut self.dropped);
            }
        }
        (cache, std::mem::replace(&mut self.disk, Arc::new(Closed)), std::mem::take(&mut self.guard))
    }

    /// Applies a transaction. All its objects are in the cache.
    fn apply(&mut self, of: &DiskCollection, seq: u64, body: Body<'_>, need: Need) {
        self.seq = seq;
        self.version = body.version;
        self.dirty = true;
        self.promised += need;
        if let Some(op) = body.op {
            self.ops.push(op);
            self.records += 1;
        }
        body.objects.into_iter().for_each(|object| self.change(of, object));
    }

    fn change(&mut self, of: &DiskCollection, object: Edits<'_>) {
        let Edits { oid, info, edits } = object;
        let mut edits = edits.into_iter().peekable();
        while let Some(next) = edits.next() {
            match next {
                Edit::Change(Change::Remove) => self.remove(of, oid),
                Edit::Change(Change::CloneFrom { source }) => {
                    let Some(entry) = self.cache.get(source) else { continue };
                    let Some(source) = entry.live.clone() else { continue };
                    let omap = source.omap.cloned(source.number, &self.disk, entry.omap_bytes());
                    let guard = Arc::clone(&self.guard);
                    self.with_object(of, oid, |onode, dropped| {
                        onode.clone_from(&source, omap, guard, dropped);
                        onode.info = info;
                    });
                }
                first => self.with_object(of, oid, |onode, dropped| {
                    onode.apply(first, dropped);
                    while let Some(edit) = edits.next_if(Edit::concerns_object) {
                        onode.apply(edit, dropped);
                    }
                    onode.info = info;
                }),
            }
        }
    }

    /// Changes an object, or creates it.
    fn with_object(
        &mut self,
        of: &DiskCollection,
        oid: ObjectRef<'_>,
        change: impl FnOnce(&mut Onode, &mut Dropped),
    ) {
        let Some(entry) = self.cache.get(oid) else { unreachable!("the caller has put it into the cache") };
        if entry.live.is_none() {
            of.core.filter.insert(of.number, oid);
            self.stats.objects += 1;
        }
        let new = || Arc::new(Onode::new(of.core.marks.next_object.fetch_add(1, Ordering::Relaxed)));
        let onode = Arc::make_mut(entry.live.get_or_insert_with(new));
        let (size, blocks) = (onode.size, onode.blocks);
        change(onode, &mut self.dropped);
        self.stats.bytes = self.stats.bytes + onode.size - size;
        self.stats.bytes_allocated =
            self.stats.bytes_allocated + onode.blocks * BLOCK as u64 - blocks * BLOCK as u64;
        mark_dirty(entry, &of.core);
    }

    fn remove(&mut self, of: &DiskCollection, oid: ObjectRef<'_>) {
        let Some(entry) = self.cache.get(oid) else { return };
        let Some(onode) = entry.live.take() else { return };
        onode.drop_blocks(&mut self.dropped);
        self.stats.objects -= 1;
        self.stats.bytes -= onode.size;
        self.stats.bytes_allocated -= onode.blocks * BLOCK as u64;
        mark_dirty(entry, &of.core);
    }
}

fn mark_dirty(entry: &mut Entry, core: &Core) {
    if !std::mem::replace(&mut entry.dirty, true) {
        core.one_more_dirty();
    }
}

impl DiskCollection {
    /// Captures the changes for a checkpoint to write; `None` if there are none.
    pub(super) fn cut(&self) -> Option<Cut> {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        if !inner.dirty && !inner.removed && inner.dropped.is_empty() {
            return None;
        }
        inner.dirty = false;
        let mut entries = Vec::new();
        for entry in inner.cache.iter_mut().filter(|entry| entry.dirty) {
            entry.dirty = false;
            entry.flushing = true;
            let live = entry.live.as_mut().map(Onode::capture);
            entries.push(CutEntry { name: Arc::clone(&entry.name), live, stored: entry.stored.clone() });
        }
        Some(Cut {
            row: CollectionRow {
                number: self.number,
                applied_seq: inner.seq,
                version: inner.version,
                records: inner.records,
                stats: inner.stats,
                object_rows: Some(inner.object_rows),
            },
            entries,
            ops: inner.ops.clone(),
            first_op: inner.records - inner.ops.len() as u64,
            dropped: std::mem::take(&mut inner.dropped),
            promised: std::mem::take(&mut inner.promised),
            removed: inner.removed,
        })
    }

    /// Called when the checkpoint is safe: what it wrote need no longer be in memory. `records` is the
    /// number of operation records in the map. Up to `clean_max` objects stay in memory nevertheless.
    pub(super) fn rebase(
        &self,
        flushed: Vec<Flushed>,
        records: u64,
        grown: Grown,
        clean_max: usize,
        disk: &Arc<dyn Snapshot>,
        guard: &Arc<Guard>,
    ) {
        let mut old = Vec::with_capacity(flushed.len());
        let mut inner = self.inner.lock();
        if inner.removed {
            return;
        }
        inner.disk = Arc::clone(disk);
        inner.guard = Arc::clone(guard);
        let Inner { stats, object_rows, .. } = &mut *inner;
        grown.add_to(stats, object_rows);
        let first = inner.records - inner.ops.len() as u64;
        let complete = records - records % keys::RECORDS_PER_ROW;
        inner.ops.drain(..complete.saturating_sub(first) as usize);
        for Flushed { name, live: cut, stored, clean } in flushed {
            let Some(entry) = inner.cache.get(name.as_ref().as_ref()) else { continue };
            entry.flushing = false;
            entry.stored = stored;
            if let (Some(live), Some(cut)) = (&mut entry.live, cut) {
                if live.number == cut.number {
                    live.rebase(cut, clean, &mut old);
                } else {
                    old.push(Replaced::Object(cut));
                }
            }
        }
        let gone = inner.cache.shrink(clean_max);
        drop(inner);
        drop((old, gone));
    }
}
