//! One object at one moment, and how it is read.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::backend::{Buffer, Snapshot};
use super::block::{Block, Place, patch};
use super::collection::Guard;
use super::core::Core;
use super::layout::{BLOCK, block_crc};
use super::onode::Onode;
use crate::store::{OmapPage, OmapRange};
use crate::{Data, Fetch, Info, KeyValues, Later, ObjectName, ObjectView, StoreError};

/// Read in one go at most.
const READ_BLOCKS_MAX: usize = 256;

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
    /// A part (from, until) of a block on disk, with what is put over it.
    Disk(Place, Vec<(usize, Bytes)>, (usize, usize)),
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
        while at < end {
            let from = (at % BLOCK as u64) as usize;
            let until = BLOCK.min(from + (end - at) as usize);
            at += (until - from) as u64;
            let block = self.onode.block((at - 1) / BLOCK as u64);
            if let Some((place, patches)) = block.on_disk() {
                in_memory = false;
                pieces.push(Piece::Disk(place, patches.to_vec(), (from, until)));
                continue;
            }
            let data = match block {
                Block::Hole => Bytes::new(),
                block => block.in_memory().unwrap_or_default(),
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

/// Puts the pieces together; blocks that lie side by side on disk are read in one go.
fn gather(core: &Core, name: &ObjectName, offset: u64, pieces: Vec<Piece>) -> Result<Data, StoreError> {
    let mut out = Data::new();
    let mut at = offset;
    let mut rest = pieces.into_iter().peekable();
    while let Some(piece) = rest.next() {
        match piece {
            Piece::Memory(data) => {
                at += data.len() as u64;
                out.push(data);
            }
            Piece::Zeros(len) => {
                at += len as u64;
                let full = (0..len / ZEROS.len()).map(|_| Bytes::from_static(&ZEROS));
                out.extend(full);
                out.push(Bytes::from_static(&ZEROS[..len % ZEROS.len()]));
            }
            Piece::Disk(place, patches, range) => {
                let first = place.block;
                let mut run = vec![(place, patches, range)];
                while let Some(Piece::Disk(place, _, _)) = rest.peek()
                    && place.block == first + run.len() as u32
                    && run.len() < READ_BLOCKS_MAX
                    && let Some(Piece::Disk(place, patches, range)) = rest.next()
                {
                    run.push((place, patches, range));
                }
                at = read_run(core, name, at, run, &mut out)?;
            }
        }
    }
    Ok(out)
}

type DiskPiece = (Place, Vec<(usize, Bytes)>, (usize, usize));

/// Reads blocks that lie side by side; gives the offset behind them.
fn read_run(
    core: &Core,
    name: &ObjectName,
    mut at: u64,
    run: Vec<DiskPiece>,
    out: &mut Data,
) -> Result<u64, StoreError> {
    let places: Vec<Place> = run.iter().map(|(place, ..)| *place).collect();
    let mut buffer = read_blocks(core, &places).map_err(|error| {
        let index = if let ReadError::Checksum { index, .. } = error { index } else { 0 };
        let before: usize = run.iter().take(index).map(|(_, _, (from, until))| until - from).sum();
        StoreError::BadData { offset: at + before as u64, what: format!("object {name:?}: {error}") }
    })?;
    for (i, (_, patches, _)) in run.iter().enumerate() {
        patch(&mut buffer[i * BLOCK..(i + 1) * BLOCK], patches);
    }
    let bytes = Bytes::from_owner(buffer);
    // Only the first and the last block of a read are taken in part, so the parts lie side by side.
    let from = run.first().map_or(0, |(_, _, (from, _))| *from);
    let until = (run.len() - 1) * BLOCK + run.last().map_or(0, |(_, _, (_, until))| *until);
    at += (until - from) as u64;
    out.push(bytes.slice(from..until));
    Ok(at)
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
    let first = places.first().map_or(0, |place| place.block);
    let read = core.data.read(u64::from(first) * BLOCK as u64, &mut buffer);
    read.map_err(|source| ReadError::Io { first, source })?;
    for (index, (block, place)) in buffer.chunks_exact(BLOCK).zip(places).enumerate() {
        let found = block_crc(block);
        if found != place.crc {
            return Err(ReadError::Checksum { index, block: place.block, found, expected: place.crc });
        }
    }
    Ok(buffer)
}

impl ObjectView for DiskView {
    fn size(&self) -> u64 {
        self.onode.size
    }

    fn info(&self) -> Info {
        self.onode.info
    }

    fn read(&self, offset: u64, len: u64) -> Fetch<Data> {
        let (pieces, in_memory) = self.pieces(offset, self.end(offset, len));
        if !in_memory {
            return self.later(move |view| gather(&view.core, &view.name, offset, pieces));
        }
        match gather(&self.core, &self.name, offset, pieces) {
            Ok(data) => Fetch::Now(data),
            Err(_) => Fetch::Now(Data::new()), // nothing of it is read from disk, so nothing fails
        }
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
