//! Entry point for fuzzing: parses bytes as every format that a store keeps on disk, and encodes the
//! result again. A corpus file is one record of the journal, one value or key of the map, a superblock
//! with its limit, or the beginning of a journal, as a store on disk wrote it. Each file is parsed as all
//! of them.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::Uuid;

use super::backend::{ALIGN, BackendFile, Batch};
use super::block::{Block, Chunk};
use super::journal::Journal;
use super::layout::{Run, Superblock};
use super::notes::LIMIT;
use super::space::Stored;
use super::{keys, record, rows};

/// The length of the journal for which the bytes are parsed.
const JOURNAL_LEN: u64 = 64 << 10;
const BLOCKS: u64 = 10_000;

/// Parses `data` as a record, a key, each kind of row, a superblock with its limit, and a journal.
/// Whatever parses must be the same after it is encoded and parsed again. Returns the number of formats
/// that `data` is valid in.
pub fn store(data: &[u8]) -> usize {
    let bytes = Bytes::copy_from_slice(data);
    let rows = [read_name(&bytes), read_numbers(&bytes), read_chunk(&bytes), read_object(&bytes)];
    let file: Arc<dyn BackendFile> = Arc::new(Fixed(bytes.clone()));
    let superblock = Superblock::load(&*file).ok().flatten();
    let salt = superblock.map_or(Uuid::default(), |superblock| superblock.salt);
    let limit = LIMIT.load(&*file, salt).ok().flatten();
    let others = [read_record(&bytes), read_space(&bytes), read_journal(file, limit)];
    rows.into_iter().chain(others).chain([superblock.is_some()]).filter(|read| *read).count()
}

fn read_journal(file: Arc<dyn BackendFile>, limit: Option<u64>) -> bool {
    let Ok(mut journal) = Journal::new(file, Uuid::default(), JOURNAL_LEN, 0) else { return false };
    let mut groups = 0;
    while let Ok(Some(_)) = journal.read() {
        groups += 1;
        assert!(groups <= JOURNAL_LEN / ALIGN as u64, "more groups than fit");
    }
    let _ = journal.has_later(limit);
    groups > 0
}

fn read_record(bytes: &Bytes) -> bool {
    let Ok(record) = record::decode(bytes) else { return false };
    if let record::What::Transaction(body) = record.what {
        let edits: usize = body.objects.iter().map(|object| object.edits.len()).sum();
        assert!(edits <= bytes.len(), "each edit has a byte at least");
    }
    true
}

fn read_name(bytes: &Bytes) -> bool {
    let Some(name) = keys::object_name(bytes) else { return false };
    let collection = u32::from_be_bytes(bytes[1..5].try_into().expect("a name's key has them"));
    let again = keys::object_name(&keys::object(collection, name.as_ref()));
    assert_eq!(again.as_ref(), Some(&name));
    true
}

fn read_numbers(bytes: &Bytes) -> bool {
    let store = rows::StoreRow::decode(bytes).ok();
    if let Some(row) = store {
        assert_eq!(rows::StoreRow::decode(&row.encode()).ok(), Some(row));
    }
    let collection = rows::CollectionRow::decode(bytes).ok();
    if let Some(row) = collection {
        assert_eq!(rows::CollectionRow::decode(&row.encode()).ok(), Some(row));
    }
    let ops = rows::decode_ops(bytes).ok();
    if let Some(ops) = &ops {
        assert_eq!(rows::encode_ops(ops).len(), bytes.len());
    }
    store.is_some() || collection.is_some() || ops.is_some()
}

fn read_chunk(bytes: &Bytes) -> bool {
    let Ok(chunk) = rows::decode_chunk(bytes) else { return false };
    assert!(chunk.blocks.len() <= 32, "a chunk has no more");
    let again = rows::decode_chunk(&rows::encode_chunk(&chunk)).expect("our own");
    let places = |chunk: &Chunk| {
        let place = |block: &Block| if let Block::Disk(place) = block { Some(*place) } else { None };
        chunk.blocks.iter().map(place).collect::<Vec<_>>()
    };
    assert_eq!(places(&again), places(&chunk));
    true
}

fn read_object(bytes: &Bytes) -> bool {
    let Ok((onode, stored, chunks)) = rows::decode_object(bytes) else { return false };
    assert!(chunks <= 32 << 10 && onode.chunks.len() <= 1 && onode.xattrs.len() <= bytes.len());
    let only = onode.chunks.first().and_then(Option::as_deref);
    if stored.inline || chunks == 0 {
        let again = rows::encode_object(&onode, &stored, only);
        let (again, ..) = rows::decode_object(&again).expect("our own");
        assert_eq!((again.number, again.size, again.crc), (onode.number, onode.size, onode.crc));
        assert_eq!((again.info, again.xattrs), (onode.info, onode.xattrs));
    }
    true
}

/// Parses bits and shared blocks: a refused row must leave the counts usable all the same.
fn read_space(bytes: &Bytes) -> bool {
    let mut stored = Stored::new(BLOCKS);
    let read = [stored.load(1, bytes).is_ok(), stored.load_shared(2, bytes).is_ok()];
    let _ = stored.shared_but_free();
    for run in [Run { start: 8190, len: 20 }, Run { start: 0, len: 3 }] {
        let _ = (stored.refer(run), stored.refer_again(run), stored.refer_or_again(run));
        let _ = stored.release(run, &mut super::layout::Runs::new());
    }
    stored.save(&mut Batch::default());
    read.contains(&true)
}

/// A file of these bytes, with zeros up to a multiple of the read size. It is read-only.
#[derive(Debug)]
struct Fixed(Bytes);

fn refused() -> io::Error {
    io::Error::from(io::ErrorKind::Unsupported)
}

impl BackendFile for Fixed {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len().next_multiple_of(ALIGN) as u64)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if offset + buffer.len() as u64 > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let there = self.0.get(offset as usize..).unwrap_or_default();
        let there = &there[..there.len().min(buffer.len())];
        buffer[..there.len()].copy_from_slice(there);
        buffer[there.len()..].fill(0);
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Err(refused())
    }
}
