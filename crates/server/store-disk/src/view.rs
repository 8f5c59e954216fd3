//! A view of one object at one moment, and its reads.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{
    Completer, Data, Fetch, Info, KeyValues, Later, ObjectName, ObjectView, OmapPage, OmapRange, StoreError,
};
use smallvec::SmallVec;

use super::backend::{Buffer, Part, Parts, Snapshot};
use super::block::{Content, Place, patch};
use super::guard::Guard;
use super::io::Io;
use super::layout::{BLOCK, block_crc};
use super::onode::Onode;
use super::reader::Reading;

/// The memory, in bytes, that a pair takes in addition to its bytes, which clones share.
const PAIR_BYTES: usize = 128;

/// The maximum number of blocks in one read.
const READ_BLOCKS_MAX: usize = 1024;
/// A read longer than this looks for its blocks in the data cache only up to the first miss, since one disk
/// read fetches the rest. It puts no blocks into the cache, because it would evict many blocks that are read
/// individually.
const CACHED_READ_MAX: usize = 64 << 10;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(super) struct DiskView {
    pub(super) io: Arc<Io>,
    pub(super) name: Arc<ObjectName>,
    pub(super) onode: Arc<Onode>,
    /// The map under the onode's changes.
    pub(super) disk: Arc<dyn Snapshot>,
    /// While it is held, the blocks of the onode are not reused.
    pub(super) guard: Arc<Guard>,
}

/// The purpose of a read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// To use the data: cached data suffices, and short reads are cached.
    ToUse,
    /// To check that the data can be read: it is read from the disk and not cached.
    ToVerify,
}

/// A part of the data that is read.
enum Piece {
    Memory(Bytes),
    Zeros(usize),
    Disk(OnDisk),
}

/// A part of a block on disk.
struct OnDisk {
    place: Place,
    /// To apply to the data from disk.
    patches: Vec<(usize, Bytes)>,
    from: usize,
    until: usize,
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Memory(data) => data.len(),
            Self::Zeros(len) => *len,
            Self::Disk(on_disk) => on_disk.until - on_disk.from,
        }
    }

    fn place(&self) -> Option<Place> {
        match self {
            Self::Disk(on_disk) => Some(on_disk.place),
            Self::Memory(_) | Self::Zeros(_) => None,
        }
    }
}

impl DiskView {
    fn end(&self, offset: u64, len: u64) -> u64 {
        offset.saturating_add(len).min(self.onode.size)
    }

    /// Returns the pieces of a range, and whether all of them are in memory.
    fn pieces(&self, offset: u64, end: u64, ask: Ask) -> (Vec<Piece>, bool) {
        let mut pieces = Vec::new();
        let mut in_memory = true;
        let mut at = offset;
        let is_long = end - offset.min(end) > CACHED_READ_MAX as u64;
        let mut look = ask == Ask::ToUse;
        while at < end {
            let from = (at % BLOCK as u64) as usize;
            let until = BLOCK.min(from + (end - at) as usize);
            at += (until - from) as u64;
            let block = self.onode.block((at - 1) / BLOCK as u64);
            let data = match block.content() {
                Content::Memory(data) => data,
                Content::Disk(place, patches) => {
                    let kept = if look { self.io.data_cache.get(place) } else { None };
                    let Some(data) = kept else {
                        in_memory = false;
                        look &= !is_long;
                        pieces.push(Piece::Disk(OnDisk { place, patches: patches.to_vec(), from, until }));
                        continue;
                    };
                    patched(data, patches)
                }
            };
            let there = data.slice(from.min(data.len())..until.min(data.len()));
            let missing = until - from - there.len();
            if !there.is_empty() {
                pieces.push(Piece::Memory(there));
            }
            match pieces.last_mut() {
                _ if missing == 0 => {}
                Some(Piece::Zeros(len)) => *len += missing,
                _ => pieces.push(Piece::Zeros(missing)),
            }
        }
        (pieces, in_memory)
    }

    fn fetch(&self, offset: u64, len: u64, ask: Ask) -> Fetch<Data> {
        let end = self.end(offset, len);
        let (pieces, in_memory) = self.pieces(offset, end, ask);
        if in_memory {
            return Fetch::Now(join(pieces));
        }
        let len = (end - offset) as usize;
        let (later, completer) = Later::new();
        self.io.read(Box::new(DataRead {
            io: Arc::clone(&self.io),
            name: Arc::clone(&self.name),
            offset,
            len,
            runs: runs(offset, &pieces),
            pieces,
            ask,
            completer,
            _guard: Arc::clone(&self.guard),
        }));
        Fetch::Later(later)
    }

    /// Runs a read in the pool.
    fn later<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Fetch<T> {
        let (later, completer) = Later::new();
        let view = self.clone();
        self.io.pool.push(move || {
            let value = read(&view);
            // Released before the result is delivered, so that its receiver finds that no view is held.
            drop(view);
            completer.complete(value);
        });
        Fetch::Later(later)
    }

    fn failed(&self, what: &str, error: &io::Error) -> StoreError {
        StoreError::BadData { offset: 0, what: format!("{what} of {:?}: {error}", self.name) }
    }
}

impl Clone for DiskView {
    fn clone(&self) -> Self {
        Self {
            io: Arc::clone(&self.io),
            name: Arc::clone(&self.name),
            onode: Arc::clone(&self.onode),
            disk: Arc::clone(&self.disk),
            guard: Arc::clone(&self.guard),
        }
    }
}

/// Returns a block that is in memory, with patches applied.
fn patched(data: Bytes, patches: &[(usize, Bytes)]) -> Bytes {
    if patches.is_empty() {
        return data;
    }
    let mut whole = vec![0; BLOCK];
    whole[..data.len()].copy_from_slice(&data);
    patch(&mut whole, patches);
    whole.into()
}

/// Joins pieces that are in memory, without copying.
fn join(pieces: Vec<Piece>) -> Data {
    let mut out = Data::new();
    for piece in pieces {
        match piece {
            Piece::Memory(data) => out.push(data),
            Piece::Zeros(len) => {
                out.extend((0..len / ZEROS.len()).map(|_| Bytes::from_static(&ZEROS)));
                out.push(Bytes::from_static(&ZEROS[..len % ZEROS.len()]));
            }
            Piece::Disk(_) => unreachable!("the caller has looked"),
        }
    }
    out
}

/// A read of data that is not all in memory.
struct DataRead {
    io: Arc<Io>,
    name: Arc<ObjectName>,
    offset: u64,
    len: usize,
    pieces: Vec<Piece>,
    runs: SmallVec<[ReadRun; 1]>,
    ask: Ask,
    completer: Completer<Data>,
    /// While it is held, the blocks are not reused.
    _guard: Arc<Guard>,
}

/// Pieces whose blocks are adjacent on disk, read in one go. Each block of the object is one block of the
/// buffer and belongs to one piece.
struct ReadRun {
    pieces: Range<usize>,
    /// The start on disk, and in the buffer, in blocks.
    first: u32,
    at: usize,
}

impl ReadRun {
    fn bytes(&self) -> Range<usize> {
        self.at * BLOCK..(self.at + self.pieces.len()) * BLOCK
    }
}

/// Returns the runs that must be read from disk.
fn runs(offset: u64, pieces: &[Piece]) -> SmallVec<[ReadRun; 1]> {
    let mut runs: SmallVec<[ReadRun; 1]> = SmallVec::new();
    let mut at = (offset % BLOCK as u64) as usize;
    for (index, piece) in pieces.iter().enumerate() {
        if let Piece::Disk(OnDisk { place, .. }) = piece {
            match runs.last_mut() {
                Some(run)
                    if run.pieces.end == index
                        && place.block.checked_sub(run.first) == Some(run.pieces.len() as u32)
                        && run.pieces.len() < READ_BLOCKS_MAX =>
                {
                    run.pieces.end += 1;
                }
                _ => runs.push(ReadRun { pieces: index..index + 1, first: place.block, at: at / BLOCK }),
            }
        }
        at += piece.len();
    }
    runs
}

impl Reading for DataRead {
    fn buffer(&self) -> Buffer {
        self.io.buffers.take((self.offset % BLOCK as u64) as usize + self.len)
    }

    fn parts(&self) -> Parts {
        let part = |run: &ReadRun| Part { offset: u64::from(run.first) * BLOCK as u64, range: run.bytes() };
        self.runs.iter().map(part).collect()
    }

    fn done(self: Box<Self>, mut buffer: Buffer, read: Result<(), (usize, io::Error)>) {
        let read = match read {
            Ok(()) => Ok(()),
            Err((run, source)) => {
                let ReadRun { pieces, first, .. } = &self.runs[run];
                Err((pieces.start, ReadError::Io { first: *first, source }))
            }
        };
        if let Err((index, error)) = read.and_then(|()| self.check(&buffer)) {
            let before: usize = self.pieces.iter().take(index).map(Piece::len).sum();
            let what = format!("object {:?}: {error}", self.name);
            return self
                .completer
                .complete(Err(StoreError::BadData { offset: self.offset + before as u64, what }));
        }
        if self.len > CACHED_READ_MAX || self.ask == Ask::ToVerify {
            let start = (self.offset % BLOCK as u64) as usize;
            self.put_together(&mut buffer);
            let Self { io, len, completer, _guard: guard, .. } = *self;
            drop(guard);
            let all = io.buffers.lend(buffer).slice(start..start + len);
            return completer.complete(Ok(Data::from_iter([all])));
        }
        let Self { io, pieces, runs, completer, _guard: guard, .. } = *self;
        let pieces = kept(&io, pieces, &runs, &buffer);
        io.buffers.give_back(buffer);
        drop(guard);
        completer.complete(Ok(join(pieces)));
    }
}

impl DataRead {
    /// Checks all blocks that were read; an error names the damaged piece.
    fn check(&self, buffer: &[u8]) -> Result<(), (usize, ReadError)> {
        for run in &self.runs {
            let places = self.pieces[run.pieces.clone()].iter().filter_map(Piece::place);
            check(places, &buffer[run.bytes()]).map_err(|(index, e)| (run.pieces.start + index, e))?;
        }
        Ok(())
    }

    /// Copies the pieces that are not from disk into the buffer, and applies the patches to those from disk.
    fn put_together(&self, buffer: &mut [u8]) {
        let mut at = (self.offset % BLOCK as u64) as usize;
        for piece in &self.pieces {
            match piece {
                Piece::Memory(data) => buffer[at..at + data.len()].copy_from_slice(data),
                Piece::Zeros(len) => buffer[at..at + len].fill(0),
                Piece::Disk(on_disk) => {
                    let block = at - at % BLOCK;
                    patch(&mut buffer[block..block + BLOCK], &on_disk.patches);
                }
            }
            at += piece.len();
        }
    }
}

/// Copies the blocks that were read out of the buffer, one by one, and puts them into the data cache.
fn kept(io: &Io, mut pieces: Vec<Piece>, runs: &[ReadRun], buffer: &[u8]) -> Vec<Piece> {
    for run in runs {
        let blocks = buffer[run.bytes()].chunks_exact(BLOCK);
        for (piece, block) in pieces[run.pieces.clone()].iter_mut().zip(blocks) {
            let Piece::Disk(OnDisk { place, patches, from, until }) = piece else { continue };
            let block = Bytes::copy_from_slice(block);
            io.data_cache.put(*place, block.clone());
            *piece = Piece::Memory(patched(block, patches).slice(*from..*until));
        }
    }
    pieces
}

/// Why blocks could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("block {first} of the data file and those behind it: {source}")]
    Io { first: u32, source: io::Error },
    #[error("block {block} of the data file has the checksum {found:#010x}, not {expected:#010x}")]
    Checksum { block: u32, found: u32, expected: u32 },
}

/// Reads adjacent blocks and checks them.
pub(super) fn read_blocks(io: &Io, places: &[Place]) -> Result<Buffer, ReadError> {
    let mut buffer = Buffer::zeroed(places.len() * BLOCK);
    let first = places.first().map_or(0, |place| place.block);
    let read = io.data.read(u64::from(first) * BLOCK as u64, &mut buffer);
    read.map_err(|source| ReadError::Io { first, source })?;
    check(places.iter().copied(), &buffer).map_err(|(_, error)| error)?;
    Ok(buffer)
}

/// Checks blocks; an error names the damaged block.
fn check(places: impl Iterator<Item = Place>, blocks: &[u8]) -> Result<(), (usize, ReadError)> {
    for (index, (block, place)) in blocks.chunks_exact(BLOCK).zip(places).enumerate() {
        let found = block_crc(block);
        if found != place.crc {
            return Err((index, ReadError::Checksum { block: place.block, found, expected: place.crc }));
        }
    }
    Ok(())
}

impl ObjectView for DiskView {
    fn size(&self) -> u64 {
        self.onode.size
    }

    fn info(&self) -> Info {
        self.onode.info
    }

    fn read(&self, offset: u64, len: u64) -> Fetch<Data> {
        self.fetch(offset, len, Ask::ToUse)
    }

    fn verify(&self, offset: u64, len: u64) -> Fetch<Data> {
        self.fetch(offset, len, Ask::ToVerify)
    }

    fn crc(&self) -> Option<u32> {
        self.onode.crc
    }

    fn extents(&self, offset: u64, len: u64) -> Fetch<Vec<(u64, u64)>> {
        Fetch::Now(self.onode.extents(offset, self.end(offset, len)))
    }

    fn xattr(&self, name: &[u8]) -> Fetch<Option<Bytes>> {
        Fetch::Now(self.onode.find_xattr(name).ok().map(|i| self.onode.xattrs[i].1.clone()))
    }

    fn xattrs(&self) -> Fetch<KeyValues> {
        Fetch::Now(self.onode.xattrs.clone())
    }

    fn xattr_bytes(&self) -> u64 {
        self.onode.xattrs.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum()
    }

    fn cloned_bytes(&self) -> u64 {
        let pairs = self.onode.xattrs.len() + self.onode.omap.changed_keys();
        (pairs * PAIR_BYTES) as u64
    }

    fn omap_header(&self) -> Fetch<Bytes> {
        Fetch::Now(self.onode.omap_header.clone())
    }

    fn omap_page(&self, range: OmapRange<'_>) -> Fetch<OmapPage> {
        let onode = &self.onode;
        if onode.omap.is_in_memory()
            && let Ok(page) = onode.omap.page(onode.number, None, range)
        {
            return Fetch::Now(page);
        }
        let (after, prefix) = (range.after.map(<[u8]>::to_vec), range.prefix.to_vec());
        let (keys_max, bytes_max) = (range.keys_max, range.bytes_max);
        self.later(move |view| {
            let range = OmapRange { after: after.as_deref(), prefix: &prefix, keys_max, bytes_max };
            let onode = &view.onode;
            let page = onode.omap.page(onode.number, Some(&*view.disk), range);
            page.map_err(|e| view.failed("the omap", &e))
        })
    }

    fn omap_values(&self, keys: &[Bytes]) -> Fetch<KeyValues> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let values = |view: &Self, disk: Option<&dyn Snapshot>| {
            let value = |key: &Bytes| {
                let value = view.onode.omap.value(view.onode.number, disk, key)?;
                Ok(value.map(|value| (key.clone(), value)))
            };
            keys.iter().filter_map(|key| value(key).transpose()).collect::<io::Result<KeyValues>>()
        };
        if self.onode.omap.is_in_memory()
            && let Ok(values) = values(self, None)
        {
            return Fetch::Now(values);
        }
        let keys = keys.clone();
        self.later(move |view| {
            let value = |key: &Bytes| {
                let value = view.onode.omap.value(view.onode.number, Some(&*view.disk), key)?;
                Ok(value.map(|value| (key.clone(), value)))
            };
            let values =
                keys.iter().filter_map(|key| value(key).transpose()).collect::<io::Result<KeyValues>>();
            values.map_err(|e| view.failed("the omap", &e))
        })
    }
}
