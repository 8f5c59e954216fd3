//! Checks a store that is not open for damage, without changing it. `repair` repairs damage where possible.
//!
//! The checks, in this order: the superblocks, and whether each file belongs to them and has the right
//! length; every row of the map; whether the blocks marked as in use are those that rows refer to, with
//! the right reference counts; whether statistics are the sums of the objects; the journal, up to its
//! limit, with the blocks that its records name; and the checksum of every block in use.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use loligo_store::{CollectionStats, ObjectName};
use loligo_wire::{PgId, PoolId, Reader};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::backend::files::Files;
use super::backend::{Backend, BackendFile, Buffer, Snapshot};
use super::block::{Block, Chunk, Place};
use super::config::{OpenError, open_error};
use super::journal::Journal;
use super::keys;
use super::layout::{BLOCK, CHUNK_BLOCKS, Run, Runs, Superblock, VERSION_MARKED, block_crc};
use super::notes::LIMIT;
use super::onode::Edit;
use super::pair::{self, Found};
use super::record::{self, What};
use super::rows::{self, CollectionRow, StoreRow};
use super::space::{Bits, Stored};

mod lost;
mod repair;

use self::lost::Unreadable;
#[cfg(test)]
pub(super) use repair::repair_on;
pub use repair::{Listener, Repaired, repair};

/// The number of rows of the map read at once.
const PAGE: usize = 4096;
/// The length of a collection's key.
const COLLECTION_KEY_LEN: usize = 13;
/// The maximum number of blocks read at once.
const READ_BLOCKS_MAX: usize = 256;

/// A fault that was found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The object; `None` if the fault concerns the store as a whole.
    pub object: Option<(PgId, ObjectName)>,
    /// The offset in the object, in bytes.
    pub offset: Option<u64>,
    /// A description, for people.
    pub what: String,
}

/// The extent of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The number of objects in the map.
    pub objects: u64,
    /// The number of blocks whose checksums were compared.
    pub blocks: u64,
    /// The bytes of a block.
    pub block_bytes: u64,
    /// The number of records of the journal.
    pub records: u64,
    /// The number of faults found.
    pub errors: u64,
}

/// Checks the store in a directory. Reports each fault as it is found, and the number of blocks read, out
/// of the total.
///
/// The store is not changed, but the library under the map opens its own files as it does at each start.
pub fn check(
    dir: &Path,
    found: &mut dyn FnMut(&Finding),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Checked, OpenError> {
    if !Files::has_any(dir) {
        return Err(pair::no_store());
    }
    check_on(&Files::open(dir).map_err(open_error)?, found, progress)
}

pub(super) fn check_on(
    backend: &dyn Backend,
    found: &mut dyn FnMut(&Finding),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Checked, OpenError> {
    let mut errors = 0;
    let mut tell = |what: &str| {
        errors += 1;
        found(&Finding { object: None, offset: None, what: what.to_owned() });
    };
    let superblock = pair::whole(backend)?;
    if let Found::Wrong(wrong) = pair::find(backend)? {
        tell(&wrong.what);
    }
    let missing = pair::missing(backend)?;
    if superblock.version >= VERSION_MARKED && !missing.is_empty() {
        missing.iter().for_each(|(_, what)| tell(what));
        return Ok(Checked { errors, block_bytes: BLOCK as u64, ..Checked::default() });
    }
    let disk = backend.kv()?.snapshot();
    pair::faults(backend, &superblock, &*disk)?.iter().for_each(|(_, what)| tell(what));
    let mut checked = examine(backend, &superblock, &*disk, found, progress)?.checked;
    checked.errors += errors;
    Ok(checked)
}

fn examine<'a>(
    backend: &dyn Backend,
    superblock: &Superblock,
    disk: &'a dyn Snapshot,
    found: &'a mut dyn FnMut(&Finding),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Check<'a>, OpenError> {
    let mut check = Check {
        disk,
        blocks: superblock.blocks,
        used: Stored::new(superblock.blocks),
        named: Bits::new(superblock.blocks),
        in_use: 0,
        objects: FxHashMap::default(),
        collections: BTreeMap::new(),
        object_rows: BTreeMap::new(),
        applied: BTreeMap::new(),
        wrong: Vec::new(),
        hopeless: None,
        checked: Checked { block_bytes: BLOCK as u64, ..Checked::default() },
        found,
    };
    let data = backend.open("data")?;
    if data.len()? < superblock.blocks * BLOCK as u64 {
        check.wrong.push(Wrong::DataLen);
        check.error(format!(
            "the data file has {} bytes; it should have {} blocks",
            data.len()?,
            superblock.blocks
        ));
    }
    let row = check.store_row(superblock)?;
    let unreadable = check.collection_rows()?;
    let journal = || -> Result<Journal, OpenError> {
        Ok(Journal::new(backend.open("journal")?, superblock.salt, superblock.journal_len, row.journal_tail)?)
    };
    check.lost_collections(unreadable, &row, journal()?)?;
    check.each(b"O", b"P", Check::object_row)?;
    check.each(b"K", b"L", Check::chunk_row)?;
    check.each(b"P", b"Q", Check::omap_row)?;
    check.each(b"D", b"E", Check::operations_row)?;
    check.newest_operations();
    check.space()?;
    check.sums();
    let limit = LIMIT.newest(backend, superblock.salt)?;
    check.journal(journal()?, limit, &*data)?;
    check.data(&*data, progress)?;
    Ok(check)
}

/// A fault that may be repaired. Rows of counts are always computed again.
enum Wrong {
    /// A row that cannot be read, or that belongs to nothing.
    Row(Bytes),
    /// The row of a chunk that cannot be read, and how many of its blocks lie within the object.
    Chunk { row: Bytes, collection: u32, blocks: u64 },
    /// A block of the chunk in this row does not exist.
    Place { row: Bytes, index: usize, place: Place },
    /// The row of a collection, which is known from other rows.
    Collection(PgId),
    /// The newest operation records of a collection are missing.
    Operations(u32),
    /// The journal cannot be read from this position on, but continues later.
    Journal { head: u64, limit: Option<u64> },
    /// The data file is too short.
    DataLen,
}

struct Check<'a> {
    disk: &'a dyn Snapshot,
    /// The number of blocks of the data file.
    blocks: u64,
    /// The blocks that rows refer to, with their reference counts; `in_use` is the number of references.
    used: Stored,
    in_use: u64,
    /// The blocks that the journal names.
    named: Bits,
    /// By object number: the number of chunks with rows of their own, whether there may be an omap, and
    /// the collection.
    objects: FxHashMap<u64, (u32, bool, u32)>,
    /// By collection number, with the sums over its objects.
    collections: BTreeMap<u32, (PgId, CollectionRow, CollectionStats)>,
    /// By collection number: bytes of the rows of its objects.
    object_rows: BTreeMap<u32, u64>,
    /// The newest record of each collection up to which the map has all.
    applied: BTreeMap<PgId, u64>,
    wrong: Vec<Wrong>,
    /// Why nothing can be repaired.
    hopeless: Option<String>,
    checked: Checked,
    found: &'a mut dyn FnMut(&Finding),
}

/// An object as its rows describe it.
struct Object {
    id: (PgId, ObjectName),
    collection: u32,
    chunks: Vec<(u32, Chunk)>,
}

impl Object {
    /// Returns the places of its blocks, with their numbers in the object.
    fn places(&self) -> impl Iterator<Item = (u64, Place)> {
        self.chunks.iter().flat_map(|(index, chunk)| {
            let first = u64::from(*index) * CHUNK_BLOCKS;
            (first..).zip(&chunk.blocks).filter_map(|(at, block)| match block {
                Block::Disk(place) => Some((at, *place)),
                _ => None,
            })
        })
    }
}

impl Check<'_> {
    fn error(&mut self, what: String) {
        self.tell(Finding { object: None, offset: None, what });
    }

    /// Reports a fault after which it is unknown which other rows belong to nothing.
    fn hopeless(&mut self, what: String) {
        self.hopeless.get_or_insert_with(|| what.clone());
        self.error(what);
    }

    fn error_in(&mut self, object: &(PgId, ObjectName), offset: Option<u64>, what: String) {
        self.tell(Finding { object: Some(object.clone()), offset, what });
    }

    fn tell(&mut self, finding: Finding) {
        self.checked.errors += 1;
        (self.found)(&finding);
    }

    /// Calls `act` for each row of a kind. Rows after one that cannot be read are not visited.
    fn each(
        &mut self,
        from: &[u8],
        until: &[u8],
        mut act: impl FnMut(&mut Self, &[u8], &[u8]),
    ) -> Result<(), OpenError> {
        let mut start = from.to_vec();
        loop {
            let rows = match self.disk.range(&start, until, PAGE) {
                Ok(rows) => rows,
                Err(e) => {
                    self.hopeless(format!("the map from {} on: {e}", start.escape_ascii()));
                    return Ok(());
                }
            };
            rows.iter().for_each(|(key, value)| act(self, key, value));
            match rows.last() {
                Some((key, _)) if rows.len() == PAGE => start = [&key[..], &[0]].concat(),
                _ => return Ok(()),
            }
        }
    }

    fn store_row(&mut self, superblock: &Superblock) -> Result<StoreRow, OpenError> {
        let new = StoreRow::empty(superblock.fsid);
        let row = self.disk.get(keys::STORE)?.map_or(Ok(new), |row| StoreRow::decode(&row))?;
        if row.fsid != superblock.fsid {
            self.hopeless(format!("the map belongs to {}, the store to {}", row.fsid, superblock.fsid));
        }
        Ok(row)
    }

    /// Returns the rows that cannot be read.
    fn collection_rows(&mut self) -> Result<Vec<Unreadable>, OpenError> {
        let mut unreadable = Vec::new();
        self.each(b"C", b"D", |check, key, value| {
            let mut r = Reader::new(&key[1..]);
            let pg = r.array().and_then(|pool| {
                let pool = PoolId(i64::from_be_bytes(pool));
                Ok(PgId { pool, seed: u32::from_be_bytes(r.array()?) })
            });
            let pg = match pg {
                Ok(pg) if key.len() == COLLECTION_KEY_LEN => pg,
                _ => return check.hopeless(format!("the row {} of a collection", key.escape_ascii())),
            };
            let Ok(row) = CollectionRow::decode(value) else {
                return unreadable.push(Unreadable { pg, row: Bytes::copy_from_slice(value) });
            };
            check.applied.insert(pg, row.applied_seq);
            if row.number != 0
                && let Some((other, ..)) =
                    check.collections.insert(row.number, (pg, row, CollectionStats::default()))
            {
                check.hopeless(format!("the collections {pg} and {other} have the same number"));
            }
        })?;
        Ok(unreadable)
    }

    /// Reads an object with its chunks; reports faults if `tells`.
    fn object(&mut self, key: &[u8], value: &[u8], tells: bool) -> Option<(Object, rows::Stored, u64)> {
        let mut wrong = Vec::new();
        let mut error = |object: Option<(PgId, ObjectName)>, offset, what| {
            if tells {
                self.checked.errors += 1;
                (self.found)(&Finding { object, offset, what });
            }
        };
        let number = key.get(1..5).and_then(|n| n.try_into().ok()).map(u32::from_be_bytes);
        let known = number.and_then(|n| Some((n, self.collections.get(&n)?.0))).zip(keys::object_name(key));
        let Some(((collection, pg), name)) = known else {
            let what = format!("the row {} of an object belongs to no collection", key.escape_ascii());
            error(None, None, what.clone());
            self.hopeless.get_or_insert(what);
            return None;
        };
        let id = (pg, name);
        let (onode, stored, count) = match rows::decode_object(value) {
            Ok(decoded) => decoded,
            Err(e) => {
                error(Some(id), None, format!("its row: {e}"));
                if tells {
                    self.wrong.push(Wrong::Row(Bytes::copy_from_slice(key)));
                }
                return None;
            }
        };
        let mut chunks: Vec<(u32, Chunk)> = Vec::new();
        if let Some(Some(only)) = onode.chunks.first() {
            chunks.push((0, Chunk::clone(only)));
        }
        if !stored.inline && count > 0 {
            let until = keys::chunk(onode.number, count);
            match self.disk.range(&keys::chunk(onode.number, 0), &until, count as usize) {
                Ok(rows) => {
                    for (key, row) in rows {
                        let index = key.last_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                        match rows::decode_chunk(&row) {
                            Ok(chunk) => chunks.push((index, chunk)),
                            Err(e) => {
                                let offset = u64::from(index) * CHUNK_BLOCKS * BLOCK as u64;
                                error(Some(id.clone()), Some(offset), format!("the row of a chunk: {e}"));
                                let blocks = onode.size.saturating_sub(offset).div_ceil(BLOCK as u64);
                                let blocks = blocks.min(CHUNK_BLOCKS);
                                wrong.push(Wrong::Chunk { row: key, collection, blocks });
                            }
                        }
                    }
                }
                Err(e) => {
                    let what = format!("the rows of its chunks: {e}");
                    error(Some(id.clone()), None, what.clone());
                    self.hopeless.get_or_insert(what);
                }
            }
        }
        if tells {
            self.wrong.append(&mut wrong);
        }
        let mut stored = stored;
        stored.chunks = smallvec![Runs::new(); count as usize];
        Some((Object { id, collection, chunks }, stored, onode.size))
    }

    fn object_row(&mut self, key: &[u8], value: &[u8]) {
        let Some((object, stored, size)) = self.object(key, value, true) else { return };
        self.checked.objects += 1;
        *self.object_rows.entry(object.collection).or_default() += rows::row_bytes(key, value);
        let rows = if stored.inline { 0 } else { stored.chunks.len() as u32 };
        if self.objects.insert(stored.number, (rows, stored.omap, object.collection)).is_some() {
            let what = "it has the number of another object";
            self.hopeless.get_or_insert_with(|| what.to_owned());
            self.error_in(&object.id, None, what.to_owned());
        }
        let mut blocks = 0;
        for (at, place) in object.places() {
            blocks += 1;
            let offset = Some(at * BLOCK as u64);
            let wrong = || {
                let chunk = keys::chunk(stored.number, (at / CHUNK_BLOCKS) as u32);
                let row = if stored.inline { Bytes::copy_from_slice(key) } else { chunk };
                Wrong::Place { row, index: (at % CHUNK_BLOCKS) as usize, place }
            };
            if u64::from(place.block) >= self.blocks {
                self.error_in(&object.id, offset, format!("block {} is not in the data file", place.block));
                self.wrong.push(wrong());
            } else if self.used.refer_or_again(Run { start: place.block, len: 1 }).is_ok() {
                self.in_use += 1;
            }
        }
        if let Some((_, _, sums)) = self.collections.get_mut(&object.collection) {
            sums.objects += 1;
            sums.bytes += size;
            sums.bytes_allocated += blocks * BLOCK as u64;
        }
    }

    fn chunk_row(&mut self, key: &[u8], _: &[u8]) {
        let known = number_of(key).and_then(|number| self.objects.get(&number));
        let index = key.get(9..13).and_then(|n| n.try_into().ok()).map(u32::from_be_bytes);
        if !known.zip(index).is_some_and(|((chunks, ..), index)| key.len() == 13 && index < *chunks) {
            self.wrong.push(Wrong::Row(Bytes::copy_from_slice(key)));
            self.error(format!("the row {} of a chunk belongs to no object", key.escape_ascii()));
        }
    }

    fn omap_row(&mut self, key: &[u8], value: &[u8]) {
        let object = number_of(key).and_then(|number| self.objects.get(&number)).filter(|(_, omap, _)| *omap);
        let Some((.., collection)) = object else {
            self.wrong.push(Wrong::Row(Bytes::copy_from_slice(key)));
            return self.error(format!("the row {} of an omap belongs to no object", key.escape_ascii()));
        };
        if let Some((_, _, sums)) = self.collections.get_mut(collection) {
            sums.omap_keys += 1;
            sums.omap_bytes += (key.len() - keys::OMAP_PREFIX_LEN + value.len()) as u64;
        }
    }

    fn operations_row(&mut self, key: &[u8], value: &[u8]) {
        let collection = key.get(1..5).and_then(|n| n.try_into().ok()).map(u32::from_be_bytes);
        let what = if !collection.is_some_and(|number| self.collections.contains_key(&number)) {
            "belongs to no collection".to_owned()
        } else if let Err(e) = rows::decode_ops(value) {
            e.to_string()
        } else {
            return;
        };
        self.wrong.push(Wrong::Row(Bytes::copy_from_slice(key)));
        self.error(format!("the row {} of operations: {what}", key.escape_ascii()));
    }

    /// The newest records are needed to open the store, others only to recognise repetitions.
    fn newest_operations(&mut self) {
        let numbers: Vec<_> =
            self.collections.iter().map(|(n, (pg, row, _))| (*n, *pg, row.records)).collect();
        for (number, pg, records) in numbers {
            let newest = self.disk.get(&keys::records(number, records / keys::RECORDS_PER_ROW));
            let newest = newest.ok().flatten().and_then(|row| rows::decode_ops(&row).ok());
            let partial = records % keys::RECORDS_PER_ROW;
            if partial > 0 && newest.is_none_or(|ops| ops.len() as u64 != partial) {
                self.wrong.push(Wrong::Operations(number));
                self.error(format!("the newest operation records of {pg} are not there"));
            }
        }
    }

    /// Checks that the blocks marked as in use are those that rows refer to.
    fn space(&mut self) -> Result<(), OpenError> {
        let mut stored = Stored::new(self.blocks);
        self.each(b"S", b"T", |check, key, value| {
            let row = key.get(1..).and_then(|n| n.try_into().ok()).map(u32::from_be_bytes);
            match row.map(|row| stored.load(row, value)) {
                Some(Ok(())) => {}
                Some(Err(e)) => check.error(e.to_string()),
                None => check.error(format!("the row {} of the free space", key.escape_ascii())),
            }
        })?;
        self.each(b"R", b"S", |check, key, value| {
            let row = key.get(1..).and_then(|n| n.try_into().ok()).map(u32::from_be_bytes);
            match row.map(|row| stored.load_shared(row, value)) {
                Some(Ok(())) => {}
                Some(Err(e)) => check.error(e.to_string()),
                None => check.error(format!("the row {} of shared blocks", key.escape_ascii())),
            }
        })?;
        let differ = |used: bool| {
            let wrong =
                |block: &u64| self.used.bits().get(*block) == used && stored.bits().get(*block) != used;
            let mut blocks = (0..self.blocks).filter(wrong);
            blocks.next().map(|first| (first, 1 + blocks.count()))
        };
        let (lost, unsafe_ones) = (differ(false), differ(true));
        if let Some((first, count)) = lost {
            self.error(format!("{count} blocks, {first} the first, are in use and belong to no object"));
        }
        if let Some((first, count)) = unsafe_ones {
            self.error(format!(
                "{count} blocks, {first} the first, belong to objects and are marked as free"
            ));
        }
        if let Some((first, count)) = self.used.shares().difference(stored.shares()) {
            self.error(format!(
                "{count} blocks, {first} the first, belong to more or fewer objects than the map says"
            ));
        }
        Ok(())
    }

    fn sums(&mut self) {
        for (pg, row, sums) in std::mem::take(&mut self.collections).values() {
            let rows = self.object_rows.get(&row.number).copied().unwrap_or(0);
            if let Some(counted) = row.object_rows.filter(|counted| *counted != rows) {
                self.error(format!(
                    "the rows of the objects of {pg} are said to have {counted} bytes; they have {rows}"
                ));
            }
            if row.stats != *sums {
                self.error(format!("the statistics of {pg} are {:?}; its objects are {sums:?}", row.stats));
            }
            self.collections.insert(row.number, (*pg, *row, *sums));
        }
    }

    /// Checks that every record can be read, and that the blocks it names exist and belong to no object.
    fn journal(
        &mut self,
        mut journal: Journal,
        limit: Option<u64>,
        data: &dyn BackendFile,
    ) -> Result<(), OpenError> {
        while let Some(records) = journal.read()? {
            for bytes in records {
                self.checked.records += 1;
                self.record(&bytes, data)?;
            }
        }
        if journal.has_later(limit)? {
            let at = journal.head();
            self.wrong.push(Wrong::Journal { head: at, limit });
            self.error(format!("the journal is damaged at position {at}, and goes on behind that"));
        }
        Ok(())
    }

    fn record(&mut self, bytes: &Bytes, data: &dyn BackendFile) -> Result<(), OpenError> {
        let record = match record::decode(bytes) {
            Ok(record) => record,
            Err(e) => {
                self.error(format!("a record of the journal: {e}"));
                return Ok(());
            }
        };
        let What::Transaction(body) = record.what else { return Ok(()) };
        if record.seq <= self.applied.get(&record.pg).copied().unwrap_or(0) {
            return Ok(());
        }
        for edits in body.objects {
            let Ok(name) = ObjectName::new(edits.oid) else { continue };
            let id = (record.pg, name);
            for edit in edits.edits {
                let Edit::Large { at, large } = edit else { continue };
                let places: Vec<_> =
                    (0..large.crcs.len() as u32).map(|i| (at + u64::from(i), large.place(i))).collect();
                let wrong = |place: &Place| {
                    u64::from(place.block) >= self.blocks || self.used.bits().get(place.block.into())
                };
                for run in &large.runs {
                    for block in (run.start..).take(run.len as usize).filter(|b| u64::from(*b) < self.blocks)
                    {
                        // Two records may name the same block.
                        let _ = self.named.change(Run { start: block, len: 1 }, true);
                    }
                }
                if let Some((at, place)) = places.iter().find(|(_, place)| wrong(place)) {
                    let what =
                        format!("the journal names block {}, which is another's or not there", place.block);
                    self.error_in(&id, Some(at * BLOCK as u64), what);
                    continue;
                }
                self.blocks_of(&id, places.into_iter(), data)?;
            }
        }
        Ok(())
    }

    fn data(&mut self, data: &dyn BackendFile, progress: &mut dyn FnMut(u64, u64)) -> Result<(), OpenError> {
        let (before, total) = (self.checked.blocks, self.in_use);
        let mut failed = Ok(());
        self.each(b"O", b"P", |check, key, value| {
            let Some((object, ..)) = check.object(key, value, false) else { return };
            let last = check.blocks;
            let places = object.places().filter(|(_, place)| u64::from(place.block) < last);
            if let Err(e) = check.blocks_of(&object.id, places, data) {
                failed = Err(e);
            }
            progress(check.checked.blocks - before, total);
        })?;
        failed
    }

    /// Reads blocks, adjacent ones at once, and compares their checksums.
    fn blocks_of(
        &mut self,
        id: &(PgId, ObjectName),
        places: impl Iterator<Item = (u64, Place)>,
        data: &dyn BackendFile,
    ) -> Result<(), OpenError> {
        let mut places = places.peekable();
        let mut buffer = Buffer::default();
        while let Some(first) = places.next() {
            let mut run = vec![first];
            while let Some(next) = places
                .next_if(|(_, p)| run.len() < READ_BLOCKS_MAX && p.block == first.1.block + run.len() as u32)
            {
                run.push(next);
            }
            self.checked.blocks += run.len() as u64;
            buffer.reset(run.len() * BLOCK);
            let offset = u64::from(first.1.block) * BLOCK as u64;
            let whole = data.read(offset, &mut buffer).is_ok();
            for (i, (at, place)) in run.into_iter().enumerate() {
                let bytes = &mut buffer[i * BLOCK..(i + 1) * BLOCK];
                // If the whole run cannot be read, single blocks may be readable.
                let read = if whole { Ok(()) } else { data.read(offset + (i * BLOCK) as u64, bytes) };
                let what = match read {
                    Err(e) => format!("block {} of the data file: {e}", place.block),
                    Ok(()) if block_crc(bytes) != place.crc => {
                        let found = block_crc(bytes);
                        format!(
                            "block {} of the data file has the checksum {found:#010x}, not {:#010x}",
                            place.block, place.crc
                        )
                    }
                    Ok(()) => continue,
                };
                self.error_in(id, Some(at * BLOCK as u64), what);
            }
        }
        Ok(())
    }
}

/// Returns the object's number in a key of a chunk or of an omap.
fn number_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?))
}
