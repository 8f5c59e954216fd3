//! One object at one moment, and how it is read.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use super::backend::{Buffer, Snapshot};
use super::block::{Block, Place, patch};
use super::collection::Guard;
use super::core::Core;
use super::layout::{BLOCK, block_crc};
use super::onode::Onode;
use crate::store::{OmapPage, OmapRange};
use crate::{Data, Fetch, Info, KeyValues, Later, ObjectName, ObjectView, StoreError};

/// Read in one go at most.
const READ_BLOCKS_MAX: usize = 1024;
/// A read that is longer neither looks for its blocks in the data cache nor leaves them there: it would throw out many that are
/// read alone, and the disk reads it in one go.
const CACHED_READ_MAX: usize = 64 << 10;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

pub(super) struct DiskView {
    pub(super) core: Arc<Core>,
    pub(super) name: Arc<ObjectName>,
    pub(super) onode: Arc<Onode>,
    /// The map that the onode's changes are put over.
    pub(super) disk: Arc<dyn Snapshot>,
    /// As long as it is held, the blocks that the onode names are not used again.
    pub(super) guard: Arc<Guard>,
}

/// A part of what is read.
enum Piece {
    Memory(Bytes),
    Zeros(usize),
    Disk(OnDisk),
}

/// A part of a block on disk.
struct OnDisk {
    place: Place,
    /// Put over what is on disk.
    patches: Vec<(usize, Bytes)>,
    from: usize,
    until: usize,
}

impl DiskView {
    fn end(&self, offset: u64, len: u64) -> u64 {
        offset.saturating_add(len).min(self.onode.size)
    }

    /// What a range consists of, and whether all of it is in memory.
    fn pieces(&self, offset: u64, end: u64) -> (Vec<Piece>, bool) {
        let mut pieces = Vec::new();
        let mut in_memory = true;
        let mut at = offset;
        let cached = end - offset.min(end) <= CACHED_READ_MAX as u64;
        while at < end {
            let from = (at % BLOCK as u64) as usize;
            let until = BLOCK.min(from + (end - at) as usize);
            at += (until - from) as u64;
            let block = self.onode.block((at - 1) / BLOCK as u64);
            let data = match (block, block.on_disk()) {
                (Block::Hole, _) => Bytes::new(),
                (block, None) => block.in_memory().unwrap_or_default(),
                (_, Some((place, patches))) => {
                    let kept = if cached { self.core.data_cache.get(place) } else { None };
                    let Some(data) = kept else {
                        in_memory = false;
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

    /// Has a read done by the pool.
    fn later<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Fetch<T> {
        let (later, completer) = Later::new();
        let view = self.clone();
        self.core.pool.push(move || completer.complete(read(&view)));
        Fetch::Later(later)
    }

    fn failed(&self, what: &str, error: &io::Error) -> StoreError {
        StoreError::BadData { offset: 0, what: format!("{what} of {:?}: {error}", self.name) }
    }
}

impl Clone for DiskView {
    fn clone(&self) -> Self {
        Self {
            core: Arc::clone(&self.core),
            name: Arc::clone(&self.name),
            onode: Arc::clone(&self.onode),
            disk: Arc::clone(&self.disk),
            guard: Arc::clone(&self.guard),
        }
    }
}

/// A block that is in memory, with what is put over it.
fn patched(data: Bytes, patches: &[(usize, Bytes)]) -> Bytes {
    if patches.is_empty() {
        return data;
    }
    let mut whole = vec![0; BLOCK];
    whole[..data.len()].copy_from_slice(&data);
    patch(&mut whole, patches);
    whole.into()
}

/// Puts pieces together that are in memory, without copying.
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

/// Reads the pieces that are on disk, and puts all of them together in one buffer; what lies side by side on disk is read in
/// one go.
fn gather(
    core: &Core,
    name: &ObjectName,
    offset: u64,
    len: usize,
    pieces: Vec<Piece>,
) -> Result<Bytes, StoreError> {
    let start = (offset % BLOCK as u64) as usize;
    let mut buffer = core.buffers.take(start + len);
    let mut at = start;
    let mut rest = pieces.into_iter().peekable();
    while let Some(piece) = rest.next() {
        match piece {
            Piece::Memory(data) => {
                buffer[at..at + data.len()].copy_from_slice(&data);
                at += data.len();
            }
            Piece::Zeros(len) => {
                buffer[at..at + len].fill(0);
                at += len;
            }
            Piece::Disk(piece) => {
                let first = piece.place.block;
                let mut run = vec![piece];
                while let Some(Piece::Disk(next)) = rest.peek()
                    && next.place.block == first + run.len() as u32
                    && run.len() < READ_BLOCKS_MAX
                    && let Some(Piece::Disk(next)) = rest.next()
                {
                    run.push(next);
                }
                // Blocks of an object are blocks of the buffer, and no other piece is in the same.
                let blocks = &mut buffer[at - at % BLOCK..][..run.len() * BLOCK];
                let read = read_run(core, &run, blocks, len <= CACHED_READ_MAX);
                if let Err(error) = read {
                    let index = if let ReadError::Checksum { index, .. } = error { index } else { 0 };
                    let before: usize = run.iter().take(index).map(|piece| piece.until - piece.from).sum();
                    let offset = offset + (at - start + before) as u64;
                    return Err(StoreError::BadData { offset, what: format!("object {name:?}: {error}") });
                }
                at += run.iter().map(|piece| piece.until - piece.from).sum::<usize>();
            }
        }
    }
    if len <= CACHED_READ_MAX {
        let bytes = Bytes::copy_from_slice(&buffer[start..start + len]);
        core.buffers.give_back(buffer);
        return Ok(bytes);
    }
    Ok(core.buffers.lend(buffer).slice(start..start + len))
}

/// Reads blocks that lie side by side, perhaps keeps them in memory, and puts over them what is to be put there.
fn read_run(core: &Core, run: &[OnDisk], blocks: &mut [u8], keep: bool) -> Result<(), ReadError> {
    let places: SmallVec<[Place; 16]> = run.iter().map(|piece| piece.place).collect();
    read_into(core, &places, blocks)?;
    for (block, piece) in blocks.chunks_exact_mut(BLOCK).zip(run) {
        if keep {
            core.data_cache.put(piece.place, Bytes::copy_from_slice(block));
        }
        patch(block, &piece.patches);
    }
    Ok(())
}

/// Why blocks could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("block {first} of the data file and those behind it: {source}")]
    Io { first: u32, source: io::Error },
    #[error("block {block} of the data file has the checksum {found:#010x}, not {expected:#010x}")]
    Checksum { index: usize, block: u32, found: u32, expected: u32 },
}

/// Reads blocks that lie side by side and checks them.
pub(super) fn read_blocks(core: &Core, places: &[Place]) -> Result<Buffer, ReadError> {
    let mut buffer = Buffer::zeroed(places.len() * BLOCK);
    read_into(core, places, &mut buffer)?;
    Ok(buffer)
}

fn read_into(core: &Core, places: &[Place], blocks: &mut [u8]) -> Result<(), ReadError> {
    let first = places.first().map_or(0, |place| place.block);
    let read = core.data.read(u64::from(first) * BLOCK as u64, blocks);
    read.map_err(|source| ReadError::Io { first, source })?;
    for (index, (block, place)) in blocks.chunks_exact(BLOCK).zip(places).enumerate() {
        let found = block_crc(block);
        if found != place.crc {
            return Err(ReadError::Checksum { index, block: place.block, found, expected: place.crc });
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
        let end = self.end(offset, len);
        let (pieces, in_memory) = self.pieces(offset, end);
        if in_memory {
            return Fetch::Now(join(pieces));
        }
        let len = (end - offset) as usize;
        self.later(move |view| {
            let data = gather(&view.core, &view.name, offset, len, pieces)?;
            Ok(Data::from_iter([data]))
        })
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
