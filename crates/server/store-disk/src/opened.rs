//! The interface of a collection: looks up objects, and checks submitted transactions and allocates their
//! blocks before the [`collection`](super::collection) applies them.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_store::{
    Change, Collection, CollectionStats, Commit, Fetch, Later, OBJECT_BYTES_MAX, ObjectName, ObjectRef,
    ObjectView, OpRecord, StoreError, Transaction,
};
use loligo_wire::Eversion;

use super::collection::{DiskCollection, Look};
use super::layout::{BLOCK, LARGE, Runs};
use super::placing::write_ahead;
use super::queue::Larges;
use super::record::{Body, Placed, Whole};
use super::{journal, keys, layout, list, rows};

/// The number of operation records returned to a restarted OSD.
const RECORDS_MAX: u64 = 3000;

/// The interface of a collection.
pub(super) struct Opened(pub(super) Arc<DiskCollection>);

impl Collection for Opened {
    fn object(&self, oid: ObjectRef<'_>) -> Fetch<Option<Arc<dyn ObjectView>>> {
        let name = match self.0.look(oid) {
            Look::Found(view) => return Fetch::Now(view),
            // No object has a name that cannot be stored.
            Look::OnDisk(_) => match ObjectName::new(oid) {
                Ok(name) => name,
                Err(_) => return Fetch::Now(None),
            },
        };
        let (later, completer) = Later::new();
        let collection = Arc::clone(&self.0);
        self.0.core.io.look(move || {
            let oid = name.as_ref();
            completer.complete(loop {
                match collection.look(oid) {
                    Look::Found(view) => break Ok(view),
                    Look::OnDisk(disk) => {
                        if let Err(e) = collection.core.io.looks.look(|| collection.load(oid, &disk)) {
                            break Err(e);
                        }
                    }
                }
            });
        });
        Fetch::Later(later)
    }

    fn room(&self) -> Fetch<()> {
        self.0.core.room()
    }

    fn submit(&self, txn: Transaction<'_>) -> Result<Commit, StoreError> {
        let core = &self.0.core;
        core.signals.check()?;
        check(&txn, core.marks.journal_len)?;
        let placed = self.place(&txn)?;
        let larges: Larges = placed.iter().map(|(_, moving)| moving.clone()).collect();
        let body = Body::new(txn, placed);
        let large_bytes: usize = larges.iter().filter(|m| !m.large.is_small()).map(|m| m.data.len()).sum();
        if let Err(e) = self.0.apply_and_queue(body, larges.clone()) {
            // Nothing refers to the blocks, unless the store has stopped. In that case something may, and
            // the space no longer matters.
            if core.signals.check().is_ok() {
                larges.iter().for_each(|moving| core.space.free(&moving.large.runs));
            }
            if matches!(e, StoreError::Full { .. }) {
                core.signals.want_checkpoint();
            }
            return Err(e);
        }
        if large_bytes > 0 {
            write_ahead(core, &larges);
            core.queue.add_large(large_bytes as u64);
        }
        Ok(Commit::Pending)
    }

    fn list(&self, from: ObjectRef<'_>, max: usize) -> Fetch<Vec<ObjectName>> {
        let inner = self.0.inner.lock();
        if inner.removed {
            return Fetch::Now(Vec::new());
        }
        let newer: BTreeMap<ObjectName, bool> = inner
            .cache
            .unstored()
            .filter(|entry| entry.name.as_ref().as_ref() >= from)
            .map(|entry| (ObjectName::clone(&entry.name), entry.live.is_some()))
            .collect();
        let disk = Arc::clone(&inner.disk);
        drop(inner);
        let (start, number) = (keys::object(self.0.number, from), self.0.number);
        let (later, completer) = Later::new();
        self.0.core.io.pool.push(move || completer.complete(list::merge(&*disk, start, number, newer, max)));
        Fetch::Later(later)
    }

    fn stats(&self) -> CollectionStats {
        self.0.stats()
    }

    fn version(&self) -> Eversion {
        self.0.inner.lock().version
    }

    fn records(&self) -> Vec<OpRecord> {
        let inner = self.0.inner.lock();
        let (disk, newest) = (Arc::clone(&inner.disk), inner.ops.clone());
        let first = inner.records - newest.len() as u64;
        drop(inner);
        let group = first.saturating_sub(RECORDS_MAX) / keys::RECORDS_PER_ROW;
        let until = keys::records(self.0.number, first / keys::RECORDS_PER_ROW);
        // A record that cannot be read only makes a repetition look like a new operation, as an old record
        // does.
        let rows = disk.range(&keys::records(self.0.number, group), &until, usize::MAX).unwrap_or_default();
        let stored = rows.iter().flat_map(|(_, row)| rows::decode_ops(row).unwrap_or_default());
        stored.chain(newest).collect()
    }

    fn verify(&self, oid: ObjectRef<'_>) -> Fetch<()> {
        // No object has a name that cannot be stored.
        let Ok(name) = ObjectName::new(oid) else { return Fetch::Now(()) };
        let (number, inner) = (self.0.number, self.0.inner.lock());
        let disk = Arc::clone(&inner.disk);
        drop(inner);
        let (later, completer) = Later::new();
        self.0.core.io.pool.push(move || {
            completer.complete(rows::load(&*disk, number, name.as_ref()).map(|_| ()));
        });
        Fetch::Later(later)
    }
}

impl Opened {
    /// Allocates places for large writes, and for small ones if that is preferable.
    fn place(&self, txn: &Transaction<'_>) -> Result<Placed, StoreError> {
        let mut placed = Placed::new();
        for (number, change) in txn.objects.iter().flat_map(|o| &o.changes).enumerate() {
            let Some(whole) = Whole::of(change) else { continue };
            match self.place_of(&whole) {
                Ok(Some(runs)) => placed.push((number, whole.placed(runs))),
                Ok(None) => {}
                Err(e) => {
                    placed.iter().for_each(|(_, moving)| self.0.core.space.free(&moving.large.runs));
                    // A checkpoint frees the blocks of removed objects.
                    self.0.core.signals.want_checkpoint();
                    return Err(e);
                }
            }
        }
        Ok(placed)
    }

    fn place_of(&self, whole: &Whole<'_>) -> Result<Option<Runs>, StoreError> {
        if whole.write_len() >= LARGE {
            return self.0.core.space.allocate(whole.blocks(), 0).map(Some);
        }
        // The parts before and after the whole blocks go to the journal all the same.
        let is_mostly_whole = whole.blocks() as usize * BLOCK * 2 > whole.write_len();
        let run = if is_mostly_whole && self.0.core.writes_small_to_place() {
            self.0.core.space.allocate_small(whole.blocks())
        } else {
            None
        };
        Ok(run.map(|run| Runs::from_slice(&[run])))
    }
}

/// Rejects transactions beyond the limits of names and objects, and those whose record may be too large
/// for the journal.
fn check(txn: &Transaction<'_>, journal_len: u64) -> Result<(), StoreError> {
    let mut bytes = 256;
    for object in &txn.objects {
        ObjectName::fits(&object.oid)?;
        bytes += 128 + object.oid.name.len() + object.oid.nspace.len() + object.oid.key.len();
        for change in &object.changes {
            let size = match change {
                Change::Write { offset, data } => offset.saturating_add(data.len() as u64),
                Change::WriteFull { data } => data.len() as u64,
                Change::Truncate { size } => *size,
                _ => 0,
            };
            if size > OBJECT_BYTES_MAX {
                return Err(StoreError::TooLarge { size });
            }
            bytes += match change {
                Change::Write { data, .. } | Change::WriteFull { data } if data.len() < LARGE => {
                    16 + data.len()
                }
                Change::Write { data, .. } | Change::WriteFull { data } => {
                    2 * BLOCK + data.len() / BLOCK * 12
                }
                Change::SetXattr { name, value } => 16 + name.len() + value.len(),
                Change::SetOmap { pairs } => {
                    16 + pairs.iter().map(|(k, v)| 8 + k.len() + v.len()).sum::<usize>()
                }
                Change::RemoveOmap { keys } => 16 + keys.iter().map(|k| 4 + k.len()).sum::<usize>(),
                Change::SetOmapHeader { header } => 16 + header.len(),
                Change::RemoveOmapRange { from, until } => 16 + from.len() + until.len(),
                _ => 64,
            };
        }
    }
    let max = journal::record_max(journal_len);
    if bytes as u64 > max {
        return Err(StoreError::TooLarge { size: bytes as u64 });
    }
    Ok(())
}

const _: () = assert!(LARGE.is_multiple_of(BLOCK) && layout::CHUNK_BLOCKS <= u8::MAX as u64);
