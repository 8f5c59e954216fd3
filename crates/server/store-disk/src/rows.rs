//! The values of the map.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{CollectionStats, OBJECT_BYTES_MAX, ObjectRef, OpRecord, StoreError};
use loligo_wire::{DecodeError, Eversion, Reader, Uuid, Writer};
use smallvec::SmallVec;

use super::backend::Snapshot;
use super::block::{Block, Chunk, Place};
use super::keys;
use super::layout::{CHUNK_BLOCKS, Run, Runs, push_block};
use super::onode::Onode;
use super::record::{put_info, put_op, take_info, take_op};

/// The maximum number of chunks of an object.
const CHUNKS_MAX: u64 = OBJECT_BYTES_MAX / (CHUNK_BLOCKS * super::layout::BLOCK as u64);

/// The maximum size of a store in bytes.
const STORE_BYTES_MAX: u64 = super::layout::BLOCK as u64 * u32::MAX as u64;

/// The row of the whole store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreRow {
    pub(super) fsid: Uuid,
    /// The journal position where a restart begins.
    pub(super) journal_tail: u64,
    /// Object numbers from here on are unused.
    pub(super) next_object: u64,
    pub(super) next_collection: u32,
    /// All records before the journal's tail have smaller sequence numbers.
    pub(super) next_seq: u64,
    /// Absent in stores from before marks existed.
    pub(super) mark: Option<StoreMark>,
}

/// The store that the map belongs to, its age, and the superblock's values in case both copies of it are
/// lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreMark {
    pub(super) salt: Uuid,
    pub(super) journal_len: u64,
    pub(super) blocks: u64,
    /// The number of checkpoints so far.
    pub(super) checkpoint: u64,
}

impl StoreRow {
    /// The row of a store without data.
    pub(super) fn empty(fsid: Uuid) -> Self {
        Self { fsid, journal_tail: 0, next_object: 1, next_collection: 1, next_seq: 1, mark: None }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.raw(&self.fsid.0);
        w.u64(self.journal_tail);
        w.u64(self.next_object);
        w.u32(self.next_collection);
        w.u64(self.next_seq);
        if let Some(mark) = &self.mark {
            w.raw(&mark.salt.0);
            w.u64(mark.journal_len);
            w.u64(mark.blocks);
            w.u64(mark.checkpoint);
        }
        w.into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(Self {
            fsid: Uuid(r.array()?),
            journal_tail: r.u64()?,
            next_object: r.u64()?,
            next_collection: r.u32()?,
            next_seq: r.u64()?,
            mark: if r.is_empty() { None } else { Some(StoreMark::decode(&mut r)?) },
        })
    }
}

impl StoreMark {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { salt: Uuid(r.array()?), journal_len: r.u64()?, blocks: r.u64()?, checkpoint: r.u64()? })
    }
}

/// The row of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CollectionRow {
    /// The number in its objects' keys; 0 if the collection was removed, and this row only marks which
    /// records of the journal are void.
    pub(super) number: u32,
    /// All records of the journal up to this one are in the map.
    pub(super) applied_seq: u64,
    pub(super) version: Eversion,
    /// The number of operation records ever added.
    pub(super) records: u64,
    pub(super) stats: CollectionStats,
    /// Bytes of its objects' rows with their keys: names and attributes. Absent if they were not counted
    /// yet, as in older stores.
    pub(super) object_rows: Option<u64>,
}

impl CollectionRow {
    pub(super) fn encode(&self) -> Bytes {
        let mut w = Writer::new();
        w.u32(self.number);
        w.u64(self.applied_seq);
        w.put(&self.version);
        w.u64(self.records);
        w.u64(self.stats.objects);
        w.u64(self.stats.bytes);
        w.u64(self.stats.bytes_allocated);
        w.u64(self.stats.omap_bytes);
        w.u64(self.stats.omap_keys);
        if let Some(bytes) = self.object_rows {
            w.u64(bytes);
        }
        w.into_bytes()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(Self {
            number: r.u32()?,
            applied_seq: r.u64()?,
            version: r.get()?,
            records: r.u64()?,
            stats: CollectionStats {
                objects: r.u64()?,
                bytes: r.u64()?,
                bytes_allocated: r.u64()?,
                omap_bytes: r.u64()?,
                omap_keys: r.u64()?,
            },
            object_rows: if r.is_empty() { None } else { Some(r.u64()?) },
        })
    }
}

pub(super) fn encode_ops(ops: &[OpRecord]) -> Bytes {
    let mut w = Writer::with_capacity(ops.len() * 44);
    ops.iter().for_each(|op| put_op(&mut w, op));
    w.into_bytes()
}

pub(super) fn decode_ops(bytes: &[u8]) -> Result<Vec<OpRecord>, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut ops = Vec::new();
    while !r.is_empty() {
        ops.push(take_op(&mut r)?);
    }
    Ok(ops)
}

/// An object's state in the map: what a checkpoint must replace or remove.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored {
    pub(super) number: u64,
    /// Whether the only chunk is in the object's own row.
    pub(super) inline: bool,
    /// Whether there may be rows of an omap.
    pub(super) omap: bool,
    /// The capacity that these take. Absent in rows from before it was counted.
    pub(super) omap_bytes: Option<u64>,
    /// Bytes of the object's own row, with its key.
    pub(super) row_bytes: u64,
    /// The blocks of each chunk.
    pub(super) chunks: SmallVec<[Runs; 1]>,
}

/// Encodes an object's row.
pub(super) fn encode_object(onode: &Onode, stored: &Stored, inline: Option<&Chunk>) -> Bytes {
    let mut w = Writer::with_capacity(160);
    w.u64(onode.number);
    put_info(&mut w, &onode.info);
    w.u64(onode.size);
    w.bool(onode.crc.is_some());
    w.u32(onode.crc.unwrap_or(0));
    w.bool(stored.omap);
    w.blob(&onode.omap_header);
    w.put(&onode.xattrs);
    w.count(onode.chunks.len());
    w.bool(inline.is_some());
    if let Some(chunk) = inline {
        put_chunk(&mut w, chunk);
    }
    // Older programs ignore it.
    if let Some(bytes) = stored.omap_bytes.filter(|_| stored.omap) {
        w.u64(bytes);
    }
    w.into_bytes()
}

/// Encodes a chunk's row. All its blocks must be on disk, or holes.
pub(super) fn encode_chunk(chunk: &Chunk) -> Bytes {
    let mut w = Writer::with_capacity(160);
    put_chunk(&mut w, chunk);
    w.into_bytes()
}

fn put_chunk(w: &mut Writer, chunk: &Chunk) {
    let places = chunk.blocks.iter().enumerate().filter_map(|(i, block)| match block {
        Block::Disk(place) => Some((i, *place)),
        _ => None,
    });
    // First block in the chunk, run.
    let mut runs: Vec<(usize, Run)> = Vec::new();
    for (i, place) in places.clone() {
        match runs.last_mut() {
            Some((first, run)) if *first + run.len as usize == i && run.end() == place.block => run.len += 1,
            _ => runs.push((i, Run { start: place.block, len: 1 })),
        }
    }
    w.u8(runs.len() as u8);
    for (first, run) in runs {
        w.u8(first as u8);
        w.u8(run.len as u8);
        w.u32(run.start);
    }
    places.for_each(|(_, place)| w.u32(place.crc));
}

fn take_chunk(r: &mut Reader<'_>) -> Result<Chunk, DecodeError> {
    let mut chunk = Chunk::default();
    let runs = r.u8()?;
    for _ in 0..runs {
        let (first, len, start) = (usize::from(r.u8()?), usize::from(r.u8()?), r.u32()?);
        let sane = first >= chunk.blocks.len()
            && len > 0
            && first + len <= CHUNK_BLOCKS as usize
            && start.checked_add(len as u32).is_some();
        if !sane {
            return Err(DecodeError::Invalid { what: "run of a chunk", value: first as u64 });
        }
        chunk.blocks.resize(first, Block::Hole);
        chunk.blocks.extend((start..).take(len).map(|block| Block::Disk(Place { block, crc: 0 })));
    }
    for block in &mut chunk.blocks {
        if let Block::Disk(place) = block {
            place.crc = r.u32()?;
        }
    }
    Ok(chunk)
}

/// Decodes a chunk's row.
pub(super) fn decode_chunk(row: &[u8]) -> Result<Chunk, DecodeError> {
    take_chunk(&mut Reader::new(row))
}

/// Returns the blocks of the data file that a chunk occupies.
pub(super) fn runs_of(chunk: &Chunk) -> Runs {
    let mut runs = Runs::new();
    for block in &chunk.blocks {
        if let Block::Disk(place) = block {
            push_block(&mut runs, place.block);
        }
    }
    runs
}

/// Reads an object from the map.
pub(super) fn load(
    disk: &dyn Snapshot,
    collection: u32,
    oid: ObjectRef<'_>,
) -> Result<Option<(Onode, Stored)>, StoreError> {
    let failed = |e: io::Error| bad(format!("reading {oid:?}: {e}"));
    let key = keys::object(collection, oid);
    let Some(row) = disk.get(&key).map_err(failed)? else { return Ok(None) };
    let damaged = |e: DecodeError| bad(format!("the record of {oid:?}: {e}"));
    let (mut onode, mut stored, count) = decode_object(&row).map_err(damaged)?;
    if !stored.inline && count > 0 {
        let until = keys::chunk(onode.number, count);
        let mut chunks = vec![None; count as usize];
        for (key, value) in
            disk.range(&keys::chunk(onode.number, 0), &until, count as usize).map_err(failed)?
        {
            let index = key.last_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            let chunk = decode_chunk(&value).map_err(damaged)?;
            if let Some(place) = chunks.get_mut(index as usize) {
                *place = Some(Arc::new(chunk));
            }
        }
        onode.chunks = chunks;
    }
    stored.row_bytes = row_bytes(&key, &row);
    stored.chunks = onode.chunks.iter().map(|c| c.as_deref().map(runs_of).unwrap_or_default()).collect();
    onode.blocks = stored.chunks.iter().flatten().map(|run| u64::from(run.len)).sum();
    Ok(Some((onode, stored)))
}

/// Decodes an object's row, without its chunks if they have rows of their own; also returns their number.
pub(super) fn decode_object(row: &[u8]) -> Result<(Onode, Stored, u32), DecodeError> {
    let mut r = Reader::new(row);
    let mut onode = Onode::new(r.u64()?);
    onode.info = take_info(&mut r)?;
    onode.size = r.u64()?;
    let has_crc = r.bool()?;
    onode.crc = Some(r.u32()?).filter(|_| has_crc);
    onode.omap.stored = r.bool()?;
    onode.omap_header = Bytes::copy_from_slice(r.blob()?);
    let xattrs: Vec<(Bytes, Bytes)> = r.get()?;
    let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
    onode.xattrs = xattrs.into_iter().map(|(name, value)| (own(name), own(value))).collect();
    let count = r.u32()?;
    let inline = r.bool()?;
    if u64::from(count) > CHUNKS_MAX || (inline && count != 1) || onode.size > OBJECT_BYTES_MAX {
        return Err(DecodeError::Invalid { what: "number of chunks", value: count.into() });
    }
    if inline {
        onode.chunks = vec![Some(Arc::new(take_chunk(&mut r)?))];
    }
    let omap = onode.omap.stored;
    let omap_bytes = match omap {
        true if r.is_empty() => None,
        true => Some(r.u64()?),
        false => Some(0),
    };
    if let Some(bytes) = omap_bytes.filter(|bytes| *bytes > STORE_BYTES_MAX) {
        return Err(DecodeError::Invalid { what: "bytes of an omap", value: bytes });
    }
    let stored =
        Stored { number: onode.number, inline, omap, omap_bytes, row_bytes: 0, chunks: SmallVec::new() };
    Ok((onode, stored, count))
}

/// The capacity that a row takes.
pub(super) fn row_bytes(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64
}

/// Computes [`CollectionRow::object_rows`].
pub(super) fn count_object_rows(disk: &dyn Snapshot, collection: u32) -> io::Result<u64> {
    const PAGE: usize = 1024;
    let until = collection.checked_add(1).map_or_else(|| Bytes::from_static(b"P"), keys::objects);
    let mut from = keys::objects(collection);
    let mut bytes = 0;
    loop {
        let rows = disk.range(&from, &until, PAGE)?;
        bytes += rows.iter().map(|(key, value)| row_bytes(key, value)).sum::<u64>();
        match rows.last() {
            Some((last, _)) if rows.len() == PAGE => from = [&last[..], &[0]].concat().into(),
            _ => return Ok(bytes),
        }
    }
}

/// The error for a part of the map that is invalid or cannot be read.
pub(super) fn bad(what: String) -> StoreError {
    StoreError::BadData { offset: 0, what }
}
