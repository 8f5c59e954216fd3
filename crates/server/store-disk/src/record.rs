//! The journal's records of transactions.
//!
//! A transaction becomes a [`Body`], which is encoded and then applied. Its data for objects then refers
//! to the record's bytes, so that it is in memory once. A restart decodes the same body from the record.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{Change, Info, ObjectChanges, ObjectRef, OpRecord, Transaction};
use loligo_wire::{DecodeError, Eversion, Incarnation, PgId, PoolId, Reader, SnapId, Tid, Writer};
use smallvec::SmallVec;

use super::block::{Crcs, Large, Moving};
use super::layout::{BLOCK, Run, Runs, block_crc};
use super::onode::Edit;

/// A record of the journal.
#[derive(Debug)]
pub(super) struct Record<'a> {
    /// Increases with each record of the store.
    pub(super) seq: u64,
    pub(super) pg: PgId,
    pub(super) what: What<'a>,
}

#[derive(Debug)]
pub(super) enum What<'a> {
    Transaction(Body<'a>),
    /// The collection is removed with all its objects.
    Remove,
}

/// A transaction.
#[derive(Debug)]
pub(super) struct Body<'a> {
    pub(super) version: Eversion,
    pub(super) op: Option<OpRecord>,
    pub(super) objects: Vec<Edits<'a>>,
}

/// The changes of one object.
#[derive(Debug)]
pub(super) struct Edits<'a> {
    pub(super) oid: ObjectRef<'a>,
    pub(super) info: Info,
    pub(super) edits: SmallVec<[Edit<'a>; 2]>,
}

const TRANSACTION: u8 = 1;
const REMOVE: u8 = 2;

/// The whole blocks of a write, at least one. They are the part that can get a place of its own.
pub(super) struct Whole<'c> {
    /// The object's block where they begin.
    at: u64,
    /// All written bytes; those before and after the blocks go through the journal.
    data: &'c Bytes,
    head: usize,
    len: usize,
}

impl<'c> Whole<'c> {
    pub(super) fn of(change: &'c Change<'_>) -> Option<Self> {
        let (offset, data) = match change {
            Change::Write { offset, data } => (*offset, data),
            Change::WriteFull { data } => (0, data),
            _ => return None,
        };
        let head = (BLOCK - (offset % BLOCK as u64) as usize) % BLOCK;
        let len = data.len().checked_sub(head)? / BLOCK * BLOCK;
        (len > 0).then_some(Self { at: (offset + head as u64) / BLOCK as u64, data, head, len })
    }

    /// The length of the whole write in bytes.
    pub(super) fn write_len(&self) -> usize {
        self.data.len()
    }

    pub(super) fn blocks(&self) -> u64 {
        (self.len / BLOCK) as u64
    }

    /// Returns the blocks with the given place and their checksums.
    pub(super) fn placed(&self, runs: Runs) -> Moving {
        let data = Arc::new(self.data.slice(self.head..self.head + self.len));
        let crcs = data.chunks_exact(BLOCK).map(block_crc).collect();
        Moving { large: Large::new(runs, crcs, &data), data }
    }
}

/// Writes with a place, each with its number among all changes of the transaction, in order.
pub(super) type Placed = SmallVec<[(usize, Moving); 1]>;

impl<'a> Body<'a> {
    /// Creates the body of a transaction in which these writes have a place.
    pub(super) fn new(txn: Transaction<'a>, placed: Placed) -> Self {
        let mut placed = placed.into_iter().peekable();
        let mut number = 0;
        let mut objects = Vec::with_capacity(txn.objects.len());
        for ObjectChanges { oid, info, changes } in txn.objects {
            let mut edits = SmallVec::new();
            for change in changes {
                let large = placed.next_if(|(of, _)| *of == number).map(|(_, moving)| moving.large);
                push_edits(&mut edits, change, large);
                number += 1;
            }
            objects.push(Edits { oid, info, edits });
        }
        Self { version: txn.version, op: txn.record, objects }
    }
}

/// Adds a change as one or more edits.
fn push_edits<'a>(edits: &mut SmallVec<[Edit<'a>; 2]>, change: Change<'a>, large: Option<Arc<Large>>) {
    let Some((whole, large)) = Whole::of(&change).zip(large) else {
        return edits.push(Edit::Change(change));
    };
    let begin = match &change {
        Change::Write { offset, .. } => *offset,
        _ => {
            edits.push(Edit::Change(Change::Truncate { size: 0 }));
            0
        }
    };
    // The whole blocks as a `Large`; the parts before and after them as ordinary writes.
    let behind = whole.head + whole.len;
    if whole.head > 0 {
        edits.push(Edit::Change(Change::Write { offset: begin, data: whole.data.slice(..whole.head) }));
    }
    edits.push(Edit::Large { at: whole.at, large });
    if behind < whole.data.len() {
        let data = whole.data.slice(behind..);
        edits.push(Edit::Change(Change::Write { offset: begin + behind as u64, data }));
    }
}

/// Encodes a transaction. Its data for objects refers to the returned record afterwards.
pub(super) fn encode(seq: u64, pg: PgId, body: &mut Body<'_>) -> Bytes {
    let len = |edit: &Edit<'_>| match edit {
        Edit::Change(Change::Write { data, .. } | Change::WriteFull { data }) => 16 + data.len(),
        Edit::Large { large, .. } => 32 + 12 * large.crcs.len(),
        Edit::Change(_) => 64,
    };
    let edits = || body.objects.iter().flat_map(|object| &object.edits);
    let mut w = Writer::with_capacity(256 + edits().map(len).sum::<usize>());
    head(&mut w, TRANSACTION, seq, pg);
    w.put(&body.version);
    w.bool(body.op.is_some());
    if let Some(record) = &body.op {
        put_op(&mut w, record);
    }
    w.count(body.objects.len());
    let mut written: SmallVec<[Range<usize>; 4]> = SmallVec::new();
    for object in &body.objects {
        put_oid(&mut w, object.oid);
        put_info(&mut w, &object.info);
        w.count(object.edits.len());
        object.edits.iter().for_each(|edit| written.extend(put_edit(&mut w, edit)));
    }
    let bytes = w.into_bytes();
    let mut written = written.into_iter();
    for edit in body.objects.iter_mut().flat_map(|object| &mut object.edits) {
        if let Edit::Change(Change::Write { data, .. } | Change::WriteFull { data }) = edit
            && let Some(range) = written.next()
        {
            *data = bytes.slice(range);
        }
    }
    bytes
}

/// Encodes the removal of a collection.
pub(super) fn encode_remove(seq: u64, pg: PgId) -> Bytes {
    let mut w = Writer::with_capacity(32);
    head(&mut w, REMOVE, seq, pg);
    w.into_bytes()
}

fn head(w: &mut Writer, kind: u8, seq: u64, pg: PgId) {
    w.u8(kind);
    w.u64(seq);
    w.i64(pg.pool.0);
    w.u32(pg.seed);
}

/// Decodes a record.
pub(super) fn decode(bytes: &Bytes) -> Result<Record<'_>, DecodeError> {
    let mut r = Reader::new(bytes);
    let kind = r.u8()?;
    let seq = r.u64()?;
    let pg = PgId { pool: PoolId(r.i64()?), seed: r.u32()? };
    let what = match kind {
        TRANSACTION => What::Transaction(take_body(bytes, &mut r)?),
        REMOVE => What::Remove,
        kind => return Err(DecodeError::Invalid { what: "record", value: kind.into() }),
    };
    match r.remaining() {
        0 => Ok(Record { seq, pg, what }),
        left => Err(DecodeError::Trailing { what: "record", left }),
    }
}

fn take_body<'a>(bytes: &'a Bytes, r: &mut Reader<'a>) -> Result<Body<'a>, DecodeError> {
    let version = r.get()?;
    let op = r.bool()?.then(|| take_op(r)).transpose()?;
    let objects = r.count(OID_LEN_MIN)?;
    let mut body = Body { version, op, objects: Vec::with_capacity(objects) };
    for _ in 0..objects {
        let oid = take_oid(r)?;
        let info = take_info(r)?;
        let count = r.count(1)?;
        let mut edits = SmallVec::new();
        for _ in 0..count {
            edits.push(take_edit(bytes, r)?);
        }
        body.objects.push(Edits { oid, info, edits });
    }
    Ok(body)
}

pub(super) fn put_op(w: &mut Writer, op: &OpRecord) {
    w.u64(op.client);
    w.i32(op.incarnation.0);
    w.u64(op.tid.0);
    w.put(&op.version);
    w.u64(op.user_version);
    w.i32(op.result);
}

pub(super) fn take_op(r: &mut Reader<'_>) -> Result<OpRecord, DecodeError> {
    Ok(OpRecord {
        client: r.u64()?,
        incarnation: Incarnation(r.i32()?),
        tid: Tid(r.u64()?),
        version: r.get()?,
        user_version: r.u64()?,
        result: r.i32()?,
    })
}

const OID_LEN_MIN: usize = 24;

fn put_oid(w: &mut Writer, oid: ObjectRef<'_>) {
    w.u32(oid.hash);
    w.u64(oid.snap.0);
    w.blob(oid.nspace);
    w.blob(oid.key);
    w.blob(oid.name);
}

fn take_oid<'a>(r: &mut Reader<'a>) -> Result<ObjectRef<'a>, DecodeError> {
    let (hash, snap) = (r.u32()?, SnapId(r.u64()?));
    let oid = ObjectRef { hash, snap, nspace: r.blob()?, key: r.blob()?, name: r.blob()? };
    let too_long =
        |e: loligo_store::NameTooLong| DecodeError::Invalid { what: "length of a name", value: e.len as u64 };
    loligo_store::ObjectName::fits(&oid).map_err(too_long)?;
    Ok(oid)
}

pub(super) fn put_info(w: &mut Writer, info: &Info) {
    w.put(&info.version);
    w.u64(info.user_version);
    w.put(&info.mtime);
    w.u32(info.truncate_seq);
    let flags = [
        (info.has_omap, flag::OMAP),
        (info.whiteout, flag::WHITEOUT),
        (info.has_snaps, flag::SNAPS),
        (info.watched, flag::WATCHED),
    ];
    w.u8(flags.into_iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
    w.u64(info.truncate_size);
}

pub(super) fn take_info(r: &mut Reader<'_>) -> Result<Info, DecodeError> {
    let (version, user_version, mtime, truncate_seq) = (r.get()?, r.u64()?, r.get()?, r.u32()?);
    let flags = r.u8()?;
    let has = |flag: u8| flags & flag != 0;
    Ok(Info {
        version,
        user_version,
        mtime,
        truncate_seq,
        has_omap: has(flag::OMAP),
        whiteout: has(flag::WHITEOUT),
        has_snaps: has(flag::SNAPS),
        watched: has(flag::WATCHED),
        truncate_size: r.u64()?,
    })
}

/// Bits of an object's info.
mod flag {
    pub(super) const OMAP: u8 = 1;
    pub(super) const WHITEOUT: u8 = 2;
    pub(super) const SNAPS: u8 = 4;
    pub(super) const WATCHED: u8 = 8;
}

/// Kinds of edits.
mod tag {
    pub(super) const CREATE: u8 = 1;
    pub(super) const REMOVE: u8 = 2;
    pub(super) const WRITE: u8 = 3;
    pub(super) const WRITE_FULL: u8 = 4;
    pub(super) const LARGE: u8 = 5;
    pub(super) const NOTE_CRC: u8 = 6;
    pub(super) const ZERO: u8 = 7;
    pub(super) const TRUNCATE: u8 = 8;
    pub(super) const CLONE_FROM: u8 = 9;
    pub(super) const SET_XATTR: u8 = 10;
    pub(super) const REMOVE_XATTR: u8 = 11;
    pub(super) const CLEAR_XATTRS: u8 = 12;
    pub(super) const SET_OMAP: u8 = 13;
    pub(super) const REMOVE_OMAP: u8 = 14;
    pub(super) const REMOVE_OMAP_RANGE: u8 = 15;
    pub(super) const CLEAR_OMAP: u8 = 16;
    pub(super) const SET_OMAP_HEADER: u8 = 17;
}

/// Encodes an edit; returns the range of its data in the record, if it has any.
fn put_edit(w: &mut Writer, edit: &Edit<'_>) -> Option<Range<usize>> {
    let change = match edit {
        Edit::Change(change) => change,
        Edit::Large { at, large } => {
            put_large(w, *at, large);
            return None;
        }
    };
    match change {
        Change::Create => w.u8(tag::CREATE),
        Change::Remove => w.u8(tag::REMOVE),
        Change::Write { offset, data } => {
            w.u8(tag::WRITE);
            w.u64(*offset);
            w.blob(data);
            return Some(w.len() - data.len()..w.len());
        }
        Change::WriteFull { data } => {
            w.u8(tag::WRITE_FULL);
            w.blob(data);
            return Some(w.len() - data.len()..w.len());
        }
        Change::NoteCrc { crc } => {
            w.u8(tag::NOTE_CRC);
            w.u32(*crc);
        }
        Change::Zero { offset, len } => {
            w.u8(tag::ZERO);
            w.u64(*offset);
            w.u64(*len);
        }
        Change::Truncate { size } => {
            w.u8(tag::TRUNCATE);
            w.u64(*size);
        }
        Change::CloneFrom { source } => {
            w.u8(tag::CLONE_FROM);
            put_oid(w, *source);
        }
        Change::SetXattr { name, value } => put_blobs(w, tag::SET_XATTR, &[name, value]),
        Change::RemoveXattr { name } => put_blobs(w, tag::REMOVE_XATTR, &[name]),
        Change::ClearXattrs => w.u8(tag::CLEAR_XATTRS),
        Change::SetOmap { pairs } => {
            w.u8(tag::SET_OMAP);
            w.put(pairs);
        }
        Change::RemoveOmap { keys } => {
            w.u8(tag::REMOVE_OMAP);
            w.put(keys);
        }
        Change::RemoveOmapRange { from, until } => put_blobs(w, tag::REMOVE_OMAP_RANGE, &[from, until]),
        Change::ClearOmap => w.u8(tag::CLEAR_OMAP),
        Change::SetOmapHeader { header } => put_blobs(w, tag::SET_OMAP_HEADER, &[header]),
    }
    None
}

fn put_blobs(w: &mut Writer, tag: u8, blobs: &[&Bytes]) {
    w.u8(tag);
    blobs.iter().for_each(|blob| w.blob(blob));
}

fn put_large(w: &mut Writer, at: u64, large: &Large) {
    w.u8(tag::LARGE);
    w.u64(at);
    w.count(large.runs.len());
    for run in &large.runs {
        w.u32(run.start);
        w.u32(run.len);
    }
    w.count(large.crcs.len());
    large.crcs.iter().for_each(|crc| w.u32(*crc));
}

fn take_edit<'a>(bytes: &'a Bytes, r: &mut Reader<'a>) -> Result<Edit<'a>, DecodeError> {
    let blob = |r: &mut Reader<'a>| Ok::<_, DecodeError>(bytes.slice_ref(r.blob()?));
    let change = match r.u8()? {
        tag::CREATE => Change::Create,
        tag::REMOVE => Change::Remove,
        tag::WRITE => {
            let (offset, data) = (r.u64()?, blob(r)?);
            within_object(offset, data.len() as u64)?;
            Change::Write { offset, data }
        }
        tag::WRITE_FULL => Change::WriteFull { data: blob(r)? },
        tag::LARGE => return take_large(r),
        tag::NOTE_CRC => Change::NoteCrc { crc: r.u32()? },
        tag::ZERO => Change::Zero { offset: r.u64()?, len: r.u64()? },
        tag::TRUNCATE => {
            let size = r.u64()?;
            within_object(size, 0)?;
            Change::Truncate { size }
        }
        tag::CLONE_FROM => Change::CloneFrom { source: take_oid(r)? },
        tag::SET_XATTR => Change::SetXattr { name: blob(r)?, value: blob(r)? },
        tag::REMOVE_XATTR => Change::RemoveXattr { name: blob(r)? },
        tag::CLEAR_XATTRS => Change::ClearXattrs,
        tag::SET_OMAP => Change::SetOmap { pairs: r.get()? },
        tag::REMOVE_OMAP => Change::RemoveOmap { keys: r.get()? },
        tag::REMOVE_OMAP_RANGE => Change::RemoveOmapRange { from: blob(r)?, until: blob(r)? },
        tag::CLEAR_OMAP => Change::ClearOmap,
        tag::SET_OMAP_HEADER => Change::SetOmapHeader { header: blob(r)? },
        tag => return Err(DecodeError::Invalid { what: "edit", value: tag.into() }),
    };
    Ok(Edit::Change(change))
}

fn take_large<'a>(r: &mut Reader<'_>) -> Result<Edit<'a>, DecodeError> {
    let at = r.u64()?;
    let count = r.count(8)?;
    let mut runs = Runs::with_capacity(count);
    let mut blocks = 0u64;
    for _ in 0..count {
        let run = Run { start: r.u32()?, len: r.u32()? };
        if run.len == 0 || run.start.checked_add(run.len).is_none() {
            return Err(DecodeError::Invalid { what: "run of blocks", value: run.start.into() });
        }
        blocks += u64::from(run.len);
        runs.push(run);
    }
    let count = r.count(4)?;
    if count as u64 != blocks {
        return Err(DecodeError::Invalid { what: "number of checksums", value: count as u64 });
    }
    within_object(at.saturating_mul(BLOCK as u64), blocks * BLOCK as u64)?;
    let crcs = (0..count).map(|_| r.u32()).collect::<Result<Crcs, _>>()?;
    Ok(Edit::Large { at, large: Large::found(runs, crcs) })
}

fn within_object(offset: u64, len: u64) -> Result<(), DecodeError> {
    match offset.checked_add(len) {
        Some(end) if end <= loligo_store::OBJECT_BYTES_MAX => Ok(()),
        _ => Err(DecodeError::Invalid { what: "end of a write", value: offset }),
    }
}

#[cfg(test)]
mod tests {
    use loligo_store::conformance::transactions;
    use loligo_wire::Epoch;
    use proptest::prelude::*;

    use super::*;

    /// Allocates places for all writes that have whole blocks.
    fn all_placed(txn: &Transaction<'_>) -> Placed {
        let changes = txn.objects.iter().flat_map(|object| &object.changes).enumerate();
        let placed = changes.filter_map(|(number, change)| {
            let whole = Whole::of(change)?;
            let run = Run { start: number as u32 * 100, len: whole.blocks() as u32 };
            Some((number, whole.placed(Runs::from_slice(&[run]))))
        });
        placed.collect()
    }

    /// Describes a body as text; for large writes only what a record contains.
    fn said(body: &Body<'_>) -> Vec<String> {
        let edit = |edit: &Edit<'_>| match edit {
            Edit::Large { at, large } => format!("large at {at}: {:?} {:?}", large.runs, large.crcs),
            other => format!("{other:?}"),
        };
        let object = |o: &Edits<'_>| {
            format!("{:?} {:?} {:?}", o.oid, o.info, o.edits.iter().map(edit).collect::<Vec<_>>())
        };
        let start = format!("{:?} {:?}", body.version, body.op);
        std::iter::once(start).chain(body.objects.iter().map(object)).collect()
    }

    proptest! {
        #[test]
        fn what_is_done_is_what_a_restart_reads(txns in transactions(), places in any::<bool>()) {
            for (n, mut txn) in (1..).zip(txns) {
                txn.version = Eversion { epoch: Epoch(1), version: n };
                txn.record = (n % 2 == 0).then(|| OpRecord { tid: Tid(n), ..OpRecord::default() });
                let placed = if places { all_placed(&txn) } else { Placed::new() };
                let mut body = Body::new(txn, placed);
                let before = said(&body);
                let bytes = encode(n, PgId { pool: PoolId(1), seed: 2 }, &mut body);
                prop_assert_eq!(&before, &said(&body), "only where the bytes are has changed");
                let record = decode(&bytes).expect("our own");
                prop_assert_eq!(record.seq, n);
                let What::Transaction(read) = record.what else { panic!("another kind") };
                prop_assert_eq!(before, said(&read));
                for edit in body.objects.iter().flat_map(|object| &object.edits) {
                    if let Edit::Change(Change::Write { data, .. } | Change::WriteFull { data }) = edit {
                        let all = bytes.as_ptr_range();
                        prop_assert!(data.is_empty() || all.contains(&data.as_ptr()), "memory has it once");
                    }
                }
            }
        }
    }
}
