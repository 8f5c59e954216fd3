//! The store's metadata of one object, and how changes affect it.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{Change, Info, is_own};
use smallvec::SmallVec;

use super::block::{Block, Chunk, Large};
use super::guard::Guard;
use super::layout::{BLOCK, CHUNK_BLOCKS, Runs, push_block};
use super::omap::Omap;

/// Bytes of an object that one chunk covers.
const CHUNK: u64 = CHUNK_BLOCKS * BLOCK as u64;

/// An object without its name. It is shared with its views, hence copied when it is changed while a view
/// exists.
#[derive(Clone, Debug, Default)]
pub(super) struct Onode {
    /// The number in the keys of its chunks and its omap in the map; never reused for another object.
    pub(super) number: u64,
    pub(super) info: Info,
    pub(super) size: u64,
    /// The CRC-32C of all the data, if it was recorded.
    pub(super) crc: Option<u32>,
    /// Chunk `i` covers `i * CHUNK ..`; absent if nothing of it is covered.
    pub(super) chunks: Vec<Option<Arc<Chunk>>>,
    /// The number of blocks that are not holes.
    pub(super) blocks: u64,
    /// In order of the names.
    pub(super) xattrs: Vec<(Bytes, Bytes)>,
    pub(super) omap_header: Bytes,
    pub(super) omap: Omap,
    /// In a clone: keeps the source's blocks that the clone has patched from being reused, until a
    /// checkpoint has copied them.
    pub(super) keep: Option<Arc<Guard>>,
}

/// An object as a checkpoint writes it.
#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub(super) onode: Arc<Onode>,
    /// The chunks that differ from their rows in the map, in order.
    pub(super) dirty: SmallVec<[u32; 2]>,
}

/// Data that a checkpoint has made superfluous, to be freed without locks.
#[derive(Debug)]
#[expect(dead_code, reason = "it is only kept until it is freed")]
pub(super) enum Replaced {
    Chunk(Arc<Chunk>),
    Object(Arc<Onode>),
}

/// A change. A write whose place is already allocated is a `Large`.
#[derive(Debug)]
pub(super) enum Edit<'a> {
    Change(Change<'a>),
    /// The blocks of `large`, beginning at block `at` of the object.
    Large {
        at: u64,
        large: Arc<Large>,
    },
}

impl Edit<'_> {
    /// Whether the change affects exactly one object and does not remove it.
    pub(super) fn concerns_object(&self) -> bool {
        match self {
            Self::Change(change) => change.concerns_object(),
            Self::Large { .. } => true,
        }
    }
}

/// Blocks that were allocated for a large write and became unused before any checkpoint captured them.
pub(super) type Dropped = Runs;

impl Onode {
    pub(super) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// Returns block number `at` of the object.
    pub(super) fn block(&self, at: u64) -> &Block {
        match self.chunks.get((at / CHUNK_BLOCKS) as usize) {
            Some(Some(chunk)) => chunk.get(at % CHUNK_BLOCKS),
            _ => &Block::Hole,
        }
    }

    /// Applies one change. `Remove` and `CloneFrom` concern the collection and do nothing here.
    pub(super) fn apply(&mut self, edit: Edit<'_>, dropped: &mut Dropped) {
        let change = match edit {
            Edit::Change(change) => change,
            Edit::Large { at, large } => return self.write_large(at, &large, dropped),
        };
        if change.concerns_data() {
            self.crc = None;
        }
        match change {
            Change::Create | Change::Remove | Change::CloneFrom { .. } => {}
            Change::NoteCrc { crc } => self.crc = Some(crc),
            Change::Write { offset, data } => {
                self.write(offset, &data, dropped);
                self.size = self.size.max(offset + data.len() as u64);
            }
            Change::WriteFull { data } => {
                self.cut(0, dropped);
                self.size = 0;
                self.write(0, &data, dropped);
                self.size = data.len() as u64;
            }
            Change::Zero { offset, len } => {
                self.zero(offset, offset.saturating_add(len).min(self.size), dropped)
            }
            Change::Truncate { size } => {
                if size < self.size {
                    self.cut(size, dropped);
                }
                self.size = size;
            }
            Change::SetXattr { name, value } => self.set_xattr(&name, &value),
            Change::RemoveXattr { name } => {
                if let Ok(i) = self.find_xattr(&name) {
                    self.xattrs.remove(i);
                }
            }
            Change::ClearXattrs => self.xattrs.retain(|(name, _)| is_own(name)),
            omap => self.change_omap(omap),
        }
    }

    fn change_omap(&mut self, change: Change<'_>) {
        match change {
            Change::SetOmap { pairs } => {
                let own = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
                let pairs = pairs.into_iter().map(|(key, value)| (own(key), Some(own(value))));
                self.omap.delta().keys.extend(pairs);
            }
            Change::RemoveOmap { keys } => {
                let delta = self.omap.delta();
                keys.into_iter().for_each(|key| drop(delta.keys.insert(Bytes::copy_from_slice(&key), None)));
            }
            Change::RemoveOmapRange { from, until } => self.omap.delta().remove_range(&from, &until),
            Change::ClearOmap => {
                self.omap.delta().clear();
                self.omap_header = Bytes::new();
            }
            Change::SetOmapHeader { header } => self.omap_header = Bytes::copy_from_slice(&header),
            _ => {}
        }
    }

    pub(super) fn find_xattr(&self, name: &[u8]) -> Result<usize, usize> {
        self.xattrs.binary_search_by(|(n, _)| n[..].cmp(name))
    }

    fn set_xattr(&mut self, name: &Bytes, value: &Bytes) {
        // Copied, because a reference would keep a whole journal record in memory.
        let value = Bytes::copy_from_slice(value);
        match self.find_xattr(name) {
            Ok(i) => self.xattrs[i].1 = value,
            Err(i) => self.xattrs.insert(i, (Bytes::copy_from_slice(name), value)),
        }
    }

    fn write(&mut self, offset: u64, data: &Bytes, dropped: &mut Dropped) {
        let mut at = offset;
        let mut rest = data.clone();
        while !rest.is_empty() {
            let start = (at % BLOCK as u64) as usize;
            let part = rest.split_to(rest.len().min(BLOCK - start));
            let valid = self.valid_in(at / BLOCK as u64);
            self.replace(at / BLOCK as u64, |old| old.written(start, &part, valid), dropped);
            at += part.len() as u64;
        }
    }

    fn write_large(&mut self, at: u64, large: &Arc<Large>, dropped: &mut Dropped) {
        self.crc = None;
        let blocks = large.crcs.len() as u64;
        for index in 0..blocks {
            self.replace(at + index, |_| Block::Large(Arc::clone(large), index as u32), dropped);
        }
        self.size = self.size.max((at + blocks) * BLOCK as u64);
    }

    /// Makes a range within the object read as zeros.
    fn zero(&mut self, offset: u64, end: u64, dropped: &mut Dropped) {
        static ZEROS: [u8; BLOCK] = [0; BLOCK];
        let mut at = offset;
        while at < end {
            let (block, start) = (at / BLOCK as u64, at % BLOCK as u64);
            let len = (end - at).min(BLOCK as u64 - start);
            let chunk = (block / CHUNK_BLOCKS) as usize;
            if !matches!(self.chunks.get(chunk), Some(Some(_))) {
                at = (chunk as u64 + 1) * CHUNK;
                continue;
            }
            let valid = self.valid_in(block);
            let all = start == 0 && len as usize >= valid;
            let zeros = Bytes::from_static(&ZEROS[..len as usize]);
            if !self.block(block).is_hole() {
                let zeroed =
                    |old: &Block| if all { Block::Hole } else { old.written(start as usize, &zeros, valid) };
                self.replace(block, zeroed, dropped);
            }
            at += len;
        }
    }

    /// Discards everything from `size` on, which is less than the object's size.
    fn cut(&mut self, size: u64, dropped: &mut Dropped) {
        let keep = (size % BLOCK as u64) as usize;
        let mut first_gone = size / BLOCK as u64;
        if keep > 0 {
            let valid = self.valid_in(first_gone);
            if !self.block(first_gone).is_hole() {
                self.replace(first_gone, |old| old.cut(keep, valid), dropped);
            }
            first_gone += 1;
        }
        for block in first_gone..(self.chunks.len() as u64 * CHUNK_BLOCKS) {
            if !self.block(block).is_hole() {
                self.replace(block, |_| Block::Hole, dropped);
            }
        }
        self.chunks.truncate(size.div_ceil(CHUNK) as usize);
    }

    /// The number of bytes of a block that lie within the object.
    fn valid_in(&self, block: u64) -> usize {
        self.size.saturating_sub(block * BLOCK as u64).min(BLOCK as u64) as usize
    }

    fn replace(&mut self, at: u64, new: impl FnOnce(&Block) -> Block, dropped: &mut Dropped) {
        let index = (at / CHUNK_BLOCKS) as usize;
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, None);
        }
        let chunk = Arc::make_mut(self.chunks[index].get_or_insert_default());
        let new = new(chunk.get(at % CHUNK_BLOCKS));
        self.blocks += u64::from(!new.is_hole());
        let old = chunk.set(at % CHUNK_BLOCKS, new);
        self.blocks -= u64::from(!old.is_hole());
        if let Block::Large(large, i) = old
            && large.release(i)
        {
            push_block(dropped, large.place(i).block);
        }
    }

    /// Adds to `dropped` the blocks that are unused once the object is gone, if no checkpoint has captured
    /// them.
    pub(super) fn drop_blocks(&self, dropped: &mut Dropped) {
        for block in self.chunks.iter().flatten().flat_map(|chunk| &chunk.blocks) {
            if let Block::Large(large, i) = block
                && large.release(*i)
            {
                push_block(dropped, large.place(*i).block);
            }
        }
    }

    /// Copies everything of another object, or of itself, except its number, its info and the OSD's own
    /// attributes. Blocks with a place are shared. The omap's rows on disk stay the source's: `omap` is
    /// the clone's view of them.
    pub(super) fn clone_from(&mut self, source: &Self, omap: Omap, guard: Arc<Guard>, dropped: &mut Dropped) {
        // Before its own blocks are released: they may be the same.
        let chunks = source.chunks.iter().map(|c| c.as_deref().map(|c| Arc::new(c.cloned()))).collect();
        self.cut(0, dropped);
        self.chunks = chunks;
        self.size = source.size;
        self.crc = source.crc;
        self.blocks = source.blocks;
        let theirs = source.xattrs.iter().filter(|(name, _)| !is_own(name)).cloned();
        let mut xattrs: Vec<_> = std::mem::take(&mut self.xattrs);
        xattrs.retain(|(name, _)| is_own(name));
        xattrs.extend(theirs);
        xattrs.sort_unstable();
        self.xattrs = xattrs;
        self.omap_header = source.omap_header.clone();
        self.omap = omap;
        // The map refers to whole blocks until the checkpoint that counts this reference. The bases of
        // patched blocks need the guard. If the source is a clone itself, its own guard is older and
        // protects them.
        self.keep = self.has_patched().then(|| source.keep.clone().unwrap_or(guard));
    }

    fn has_patched(&self) -> bool {
        let mut blocks = self.chunks.iter().flatten().flat_map(|chunk| &chunk.blocks);
        blocks.any(|block| matches!(block, Block::Patched(_)))
    }

    /// The number of blocks that the next checkpoint has to place.
    pub(super) fn blocks_without_place(&self) -> u64 {
        let blocks = self.chunks.iter().flatten().flat_map(|chunk| &chunk.blocks);
        blocks.filter(|block| block.needs_place()).count() as u64
    }

    /// Marks the changes for a checkpoint as captured and returns the object. The result is shared with
    /// this object until that is changed.
    pub(super) fn capture(self: &mut Arc<Self>) -> Captured {
        let onode = Arc::make_mut(self);
        onode.omap.capture();
        let mut dirty = SmallVec::new();
        for (index, chunk) in (0..).zip(&mut onode.chunks) {
            let Some(chunk) = chunk.as_mut().filter(|chunk| chunk.dirty) else { continue };
            chunk.blocks.iter().for_each(|block| {
                if let Block::Large(large, _) = block {
                    large.capture();
                }
            });
            Arc::make_mut(chunk).dirty = false;
            dirty.push(index);
        }
        Captured { onode: Arc::clone(self), dirty }
    }

    /// Called after a checkpoint that captured `cut` and wrote these chunks. This object, which may have
    /// been changed since, refers to the data on disk afterwards. Data that is no longer needed is added
    /// to `old`.
    pub(super) fn rebase(
        self: &mut Arc<Self>,
        cut: Arc<Self>,
        clean: Vec<(u32, Arc<Chunk>)>,
        old: &mut Vec<Replaced>,
    ) {
        let is_same = Arc::ptr_eq(self, &cut);
        // Dropping this reference avoids a copy, unless a view exists.
        let cut = if is_same { None } else { Some(cut) };
        let onode = Arc::make_mut(self);
        onode.omap.rebase();
        for (index, clean) in clean {
            let index = index as usize;
            let Some(Some(chunk)) = onode.chunks.get_mut(index) else { continue };
            match &cut {
                None => old.push(Replaced::Chunk(std::mem::replace(chunk, clean))),
                Some(cut) => {
                    if let Some(Some(cut)) = cut.chunks.get(index) {
                        Arc::make_mut(chunk).rebase(cut, &clean);
                    }
                }
            }
        }
        if onode.keep.is_some() && !onode.has_patched() {
            onode.keep = None;
        }
        old.extend(cut.map(Replaced::Object));
    }

    /// Returns the parts of a range that are not holes, adjacent ones joined.
    pub(super) fn extents(&self, offset: u64, end: u64) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        let mut at = offset;
        while at < end {
            let block = at / BLOCK as u64;
            let next = ((block + 1) * BLOCK as u64).min(end);
            if !matches!(self.chunks.get((block / CHUNK_BLOCKS) as usize), Some(Some(_))) {
                at = (block / CHUNK_BLOCKS + 1) * CHUNK;
                continue;
            }
            match found.last_mut() {
                _ if self.block(block).is_hole() => {}
                Some((offset, len)) if *offset + *len == at => *len += next - at,
                _ => found.push((at, next - at)),
            }
            at = next;
        }
        found
    }
}
