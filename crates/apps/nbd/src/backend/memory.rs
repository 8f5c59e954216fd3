//! A device in memory. Its data are lost with the device. Ranges never written occupy no memory.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{BufMut as _, BytesMut};
use loligo_lockstat::{Class, RwLock};
use rustc_hash::FxHashMap;

use super::{Backend, BackendError, Done, Started, Work, add_extent};
use crate::proto::{Can, EXTENTS_MAX, Extent, Fault, Io, Piece};

/// Guards one shard of the chunks. Held to copy at most one chunk, some tens of microseconds; readers do
/// not exclude each other.
static SHARD: Class = Class::new("nbd.memory");

/// Unit of allocation in bytes, and the number of pages in a chunk.
const PAGE: u64 = 4096;
const PAGES: u64 = 64;
/// Bytes covered by one table entry, so that long reads need few lookups.
const CHUNK: u64 = PAGE * PAGES;
/// Number of tables; adjacent chunks lie in different ones.
const SHARDS: u64 = 64;
/// Maximum bytes read, or zeros allocated, on the thread of the request; longer requests run on another
/// thread, so that other requests do not wait behind them.
const INLINE_MAX: u64 = 1 << 20;
/// Maximum number of chunks examined for one answer about extents.
const LOOKS_MAX: u64 = 1 << 14;

/// A sparse device in memory.
pub struct Memory(Arc<Inner>);

struct Inner {
    shards: Vec<RwLock<Table>>,
    size: AtomicU64,
    read_only: bool,
}

type Table = FxHashMap<u64, Box<Chunk>>;
type Page = Box<[u8; PAGE as usize]>;

struct Chunk {
    pages: [Option<Page>; PAGES as usize],
}

impl Memory {
    /// Creates an empty device.
    pub fn new(size: u64, read_only: bool) -> Self {
        let shards =
            iter::repeat_with(|| RwLock::new(&SHARD, Table::default())).take(SHARDS as usize).collect();
        Self(Arc::new(Inner { shards, size: size.into(), read_only }))
    }
}

impl Backend for Memory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn size(&self) -> u64 {
        self.0.size.load(Ordering::Relaxed)
    }

    fn can(&self) -> Can {
        Can { write: !self.0.read_only, trim: true, fast_zero: true, multi_conn: true }
    }

    fn start(&self, io: Io) -> Started {
        let inner = &self.0;
        match io {
            Io::Read { offset, len, .. } => {
                let inner = Arc::clone(inner);
                Started::later(elsewhere(move || {
                    let mut data = BytesMut::with_capacity(len as usize);
                    inner.read(offset, len.into(), &mut data);
                    Done::Data(vec![Piece::Data(data.freeze())])
                }))
            }
            Io::Write { offset, data, .. } => {
                inner.write(offset, &data);
                Started::Now(Ok(Done::Nothing))
            }
            Io::WriteZeroes { no_hole: true, fast: true, .. } => Started::Now(Err(Fault::NotSupported)),
            Io::WriteZeroes { offset, len, no_hole: true, .. } if len > INLINE_MAX => {
                let inner = Arc::clone(inner);
                Started::later(elsewhere(move || {
                    inner.fill(offset, len);
                    Done::Nothing
                }))
            }
            Io::WriteZeroes { offset, len, no_hole: true, .. } => {
                inner.fill(offset, len);
                Started::Now(Ok(Done::Nothing))
            }
            Io::WriteZeroes { offset, len, .. } | Io::Trim { offset, len, .. } => {
                inner.punch(offset, offset + len);
                Started::Now(Ok(Done::Nothing))
            }
            Io::Status { offset, len, one } => {
                Started::Now(Ok(Done::Extents(inner.extents(offset, len, one))))
            }
            Io::Flush | Io::Cache { .. } => Started::Now(Ok(Done::Nothing)),
        }
    }

    fn read_now(&self, offset: u64, len: u32, out: &mut BytesMut) -> bool {
        let is_short = u64::from(len) <= INLINE_MAX;
        if is_short {
            self.0.read(offset, len.into(), out);
        }
        is_short
    }

    fn resize(&self, size: u64) -> Work {
        let inner = Arc::clone(&self.0);
        Box::pin(async move {
            let from = inner.size.swap(size, Ordering::Relaxed);
            if size < from {
                inner.punch(size, from);
            }
            Ok(())
        })
    }

    fn close(&self) -> Work {
        Box::pin(async { Ok::<(), BackendError>(()) })
    }
}

/// Runs long work on a thread of the blocking pool.
async fn elsewhere(work: impl FnOnce() -> Done + Send + 'static) -> Result<Done, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Fault::Io)
}

/// The part of a range that lies in one chunk.
#[derive(Clone, Copy)]
struct Part {
    chunk: u64,
    /// Within the chunk.
    offset: u64,
    len: u64,
}

fn parts(offset: u64, end: u64) -> impl Iterator<Item = Part> {
    let mut at = offset;
    iter::from_fn(move || {
        let len = (CHUNK - at % CHUNK).min(end.checked_sub(at).filter(|left| *left > 0)?);
        let part = Part { chunk: at / CHUNK, offset: at % CHUNK, len };
        at += len;
        Some(part)
    })
}

/// The pages of a part of a chunk: page number, first byte within the page, length.
fn pages(part: Part) -> impl Iterator<Item = (usize, usize, usize)> {
    let (mut at, end) = (part.offset, part.offset + part.len);
    iter::from_fn(move || {
        let len = (PAGE - at % PAGE).min(end.checked_sub(at).filter(|left| *left > 0)?);
        let page = ((at / PAGE) as usize, (at % PAGE) as usize, len as usize);
        at += len;
        Some(page)
    })
}

impl Inner {
    fn shard(&self, chunk: u64) -> &RwLock<Table> {
        &self.shards[(chunk % SHARDS) as usize]
    }

    fn read(&self, offset: u64, len: u64, out: &mut BytesMut) {
        out.reserve(len as usize);
        for part in parts(offset, offset + len) {
            let shard = self.shard(part.chunk).read();
            match shard.get(&part.chunk) {
                None => out.put_bytes(0, part.len as usize),
                Some(chunk) => {
                    for (number, from, len) in pages(part) {
                        match &chunk.pages[number] {
                            None => out.put_bytes(0, len),
                            Some(page) => out.put_slice(&page[from..from + len]),
                        }
                    }
                }
            }
        }
    }

    fn write(&self, offset: u64, mut data: &[u8]) {
        for part in parts(offset, offset + data.len() as u64) {
            let mut shard = self.shard(part.chunk).write();
            let chunk = shard.entry(part.chunk).or_insert_with(Chunk::empty);
            for (number, from, len) in pages(part) {
                let (these, rest) = data.split_at(len);
                chunk.page(number)[from..from + len].copy_from_slice(these);
                data = rest;
            }
        }
    }

    /// Writes zeros, allocated.
    fn fill(&self, offset: u64, len: u64) {
        for part in parts(offset, offset + len) {
            let mut shard = self.shard(part.chunk).write();
            let chunk = shard.entry(part.chunk).or_insert_with(Chunk::empty);
            for (number, from, len) in pages(part) {
                chunk.page(number)[from..from + len].fill(0);
            }
        }
    }

    /// Makes a range read as zeros and frees its whole pages.
    fn punch(&self, offset: u64, end: u64) {
        let (first, last) = (offset.div_ceil(CHUNK), end / CHUNK);
        // Whole chunks are removed by a scan of the existing ones, since a range may span far more
        // chunks than exist.
        if last.saturating_sub(first) > SHARDS {
            for shard in &self.shards {
                let removed: Vec<_> =
                    shard.write().extract_if(|chunk, _| (first..last).contains(chunk)).collect();
                drop(removed);
            }
            parts(offset, first * CHUNK).chain(parts(last * CHUNK, end)).for_each(|part| self.clear(part));
        } else {
            parts(offset, end).for_each(|part| self.clear(part));
        }
    }

    fn clear(&self, part: Part) {
        let mut shard = self.shard(part.chunk).write();
        if part.len == CHUNK {
            let removed = shard.remove(&part.chunk);
            drop(shard);
            drop(removed);
            return;
        }
        let Some(chunk) = shard.get_mut(&part.chunk) else { return };
        for (number, from, len) in pages(part) {
            match &mut chunk.pages[number] {
                page if len == PAGE as usize => *page = None,
                Some(page) => page[from..from + len].fill(0),
                None => {}
            }
        }
    }

    /// Returns at least one extent, and as many as one answer allows.
    fn extents(&self, offset: u64, len: u64, one: bool) -> Vec<Extent> {
        let mut extents = Vec::new();
        for part in parts(offset, offset + len).take(LOOKS_MAX as usize) {
            let shard = self.shard(part.chunk).read();
            match shard.get(&part.chunk) {
                None => add_extent(&mut extents, part.len, true),
                Some(chunk) => {
                    for (number, _, len) in pages(part) {
                        add_extent(&mut extents, len as u64, chunk.pages[number].is_none());
                    }
                }
            }
            drop(shard);
            if extents.len() > if one { 1 } else { EXTENTS_MAX } {
                break;
            }
        }
        extents.truncate(if one { 1 } else { EXTENTS_MAX });
        extents
    }
}

impl Chunk {
    fn empty() -> Box<Self> {
        Box::new(Self { pages: [const { None }; PAGES as usize] })
    }

    fn page(&mut self, number: usize) -> &mut [u8; PAGE as usize] {
        self.pages[number].get_or_insert_with(|| Box::new([0; PAGE as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(memory: &Memory, offset: u64, len: u64) -> Vec<u8> {
        let mut out = BytesMut::new();
        memory.0.read(offset, len, &mut out);
        out.to_vec()
    }

    /// Random writes, zeros and reads, some across chunks, compared with a plain array.
    #[test]
    fn it_is_an_array_of_bytes() {
        const SIZE: u64 = 100 * CHUNK;
        let memory = Memory::new(SIZE, false);
        let mut model = vec![0u8; SIZE as usize];
        let mut rng = fastrand::Rng::with_seed(7);
        for round in 0..400 {
            let longest = if round % 50 == 0 { SIZE } else { 3 * CHUNK };
            let offset = rng.u64(..SIZE);
            let len = rng.u64(1..=longest.min(SIZE - offset));
            let range = offset as usize..(offset + len) as usize;
            match rng.u8(..4) {
                0 | 1 => {
                    let byte = rng.u8(1..);
                    memory.0.write(offset, &vec![byte; len as usize]);
                    model[range].fill(byte);
                }
                2 => {
                    memory.0.punch(offset, offset + len);
                    model[range].fill(0);
                }
                _ => assert_eq!(read(&memory, offset, len), &model[range], "round {round}"),
            }
        }
        assert!(read(&memory, 0, SIZE) == model);
        let extents = memory.0.extents(0, SIZE, false);
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), SIZE);
        let mut at = 0;
        for extent in extents {
            let these = &model[at..at + extent.len as usize];
            assert!(!extent.hole || these.iter().all(|byte| *byte == 0), "a hole of zeros at {at}");
            at += extent.len as usize;
        }
    }

    #[test]
    fn what_is_huge_is_not_walked_through() {
        let memory = Memory::new(u64::MAX / 2, false);
        memory.0.write(1 << 60, b"here");
        memory.0.punch(5, u64::MAX / 2);
        assert!(memory.0.shards.iter().all(|shard| shard.read().is_empty()));
        let extents = memory.0.extents(0, u64::MAX / 2, false);
        assert_eq!(extents, [Extent { len: LOOKS_MAX * CHUNK, hole: true }]);
    }
}
