//! Blocks, where their bytes are, and chunks of blocks.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use smallvec::SmallVec;

use super::layout::{BLOCK, CHUNK_BLOCKS, LARGE, Runs};

/// A block of an object. Data without a place on disk is in memory until the next checkpoint writes it.
#[derive(Clone, Debug, Default)]
pub(super) enum Block {
    /// Not written: zeros.
    #[default]
    Hole,
    /// On disk.
    Disk(Place),
    /// Written since the last checkpoint.
    Fresh(Arc<Fresh>),
    /// Written in part since the last checkpoint, over a block on disk that has not been read.
    Patched(Arc<Patched>),
    /// A block of a large write that no checkpoint has captured yet, and its index in the write.
    Large(Arc<Large>, u32),
}

/// A block of the data file, with the checksum of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) block: u32,
    pub(super) crc: u32,
}

/// The bytes of a block, followed by zeros up to its end.
#[derive(Debug)]
pub(super) struct Fresh {
    pub(super) data: Bytes,
}

/// Bytes that replace parts of a block.
#[derive(Clone, Debug)]
pub(super) struct Patched {
    pub(super) base: Place,
    /// Offsets in the block and data; later patches win.
    pub(super) patches: Vec<(usize, Bytes)>,
}

/// The checksum of each block of a write.
pub(super) type Crcs = SmallVec<[u32; 4]>;

/// A write whose final place was allocated at once.
#[derive(Debug)]
pub(super) struct Large {
    pub(super) runs: Runs,
    /// The checksum of each block.
    pub(super) crcs: Crcs,
    data: Data,
    /// Whether a checkpoint has captured it: its blocks belong to the map on disk, or will. Changed under
    /// the collection's lock.
    captured: AtomicBool,
    /// How many other objects refer to each block; set once an object was cloned. Changed under the
    /// collection's lock.
    others: OnceLock<Box<[AtomicU32]>>,
    progress: AtomicU8,
}

/// The data of a write, and where it is.
#[derive(Debug)]
enum Data {
    /// In memory until a checkpoint has captured it.
    Kept(Bytes),
    /// In memory until the committer has made it safe; the committer's queue owns it.
    Passing(Weak<Bytes>),
    /// On disk only: the write was found in the journal at a restart.
    OnDisk,
}

/// A write that is not at its place yet.
#[derive(Clone, Debug)]
pub(super) struct Moving {
    pub(super) large: Arc<Large>,
    pub(super) data: Arc<Bytes>,
}

/// Where the bytes of a block are.
#[derive(Debug)]
pub(super) enum Content<'b> {
    /// In memory; zeros follow.
    Memory(Bytes),
    /// On disk, with patches to apply to it.
    Disk(Place, &'b [(usize, Bytes)]),
}

/// The progress of a large write to its place. The thread that changes `WAITING` to `BEGUN` writes it;
/// others wait.
const WAITING: u8 = 0;
const BEGUN: u8 = 1;
/// It is at its place, though perhaps not synced yet.
const WRITTEN: u8 = 2;
const FAILED: u8 = 3;
/// As `BEGUN`, and a thread waits for the end.
const AWAITED: u8 = 4;

/// The next step for a large write to reach its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Write it, and report the outcome.
    Write,
    /// Wait until another thread has written it.
    Wait,
    /// Nothing; it is at its place.
    Nothing,
    /// The write failed.
    Failed,
}

impl Fresh {
    pub(super) fn block(data: Bytes) -> Block {
        Block::Fresh(Arc::new(Self { data }))
    }
}

impl Large {
    /// Creates a new write. If it [is small](Self::is_small), its data stays in memory only as long as the
    /// caller holds `data`.
    pub(super) fn new(runs: Runs, crcs: Crcs, data: &Arc<Bytes>) -> Arc<Self> {
        let is_small = crcs.len() * BLOCK < LARGE;
        let data = if is_small { Data::Passing(Arc::downgrade(data)) } else { Data::Kept((**data).clone()) };
        Self::with(runs, crcs, data, WAITING)
    }

    /// Creates a write that was found in the journal.
    pub(super) fn found(runs: Runs, crcs: Crcs) -> Arc<Self> {
        Self::with(runs, crcs, Data::OnDisk, WRITTEN)
    }

    fn with(runs: Runs, crcs: Crcs, data: Data, progress: u8) -> Arc<Self> {
        let (captured, others) = (AtomicBool::new(false), OnceLock::new());
        Arc::new(Self { runs, crcs, data, captured, others, progress: AtomicU8::new(progress) })
    }

    pub(super) fn place(&self, mut index: u32) -> Place {
        let crc = self.crcs[index as usize];
        for run in &self.runs {
            if index < run.len {
                return Place { block: run.start + index, crc };
            }
            index -= run.len;
        }
        unreachable!("there are as many blocks as checksums");
    }

    /// Returns the places of its blocks, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let blocks = self.runs.iter().flat_map(|run| run.start..run.end());
        blocks.zip(&self.crcs).map(|(block, crc)| Place { block, crc: *crc })
    }

    /// Returns all data of the write, while it is in memory.
    pub(super) fn data(&self) -> Option<Bytes> {
        match &self.data {
            Data::Kept(data) => Some(data.clone()),
            Data::Passing(data) => data.upgrade().map(|data| Bytes::clone(&data)),
            Data::OnDisk => None,
        }
    }

    fn block(&self, index: u32) -> Option<Bytes> {
        let start = index as usize * BLOCK;
        self.data().map(|data| data.slice(start..start + BLOCK))
    }

    /// Whether the committer writes it, together with others. Any other write is written by its own thread of
    /// the pool.
    pub(super) fn is_small(&self) -> bool {
        matches!(self.data, Data::Passing(_))
    }

    pub(super) fn capture(&self) {
        // Relaxed: read and written under the collection's lock.
        self.captured.store(true, Ordering::Relaxed);
    }

    /// Returns what the caller has to do. Only one caller gets `Write`.
    pub(super) fn task(&self) -> Task {
        // Acquire: a thread that finds it written and then syncs the file makes it safe.
        let mut found = self.progress.load(Ordering::Acquire);
        loop {
            let (next, task) = match found {
                WAITING => (BEGUN, Task::Write),
                BEGUN => (AWAITED, Task::Wait),
                AWAITED => return Task::Wait,
                WRITTEN => return Task::Nothing,
                _ => return Task::Failed,
            };
            match self.progress.compare_exchange_weak(found, next, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return task,
                Err(other) => found = other,
            }
        }
    }

    /// Records whether the write succeeded. Returns `true` if a waiter must be woken.
    #[must_use]
    pub(super) fn done(&self, written: bool) -> bool {
        // Release: publishes the written data.
        self.progress.swap(if written { WRITTEN } else { FAILED }, Ordering::Release) == AWAITED
    }

    /// Counts a clone's reference to this block.
    pub(super) fn share(&self, index: u32) {
        let others = self.others.get_or_init(|| self.crcs.iter().map(|_| AtomicU32::new(0)).collect());
        others[index as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a clone of it was ever made.
    pub(super) fn is_shared(&self) -> bool {
        self.others.get().is_some()
    }

    /// Removes one object's reference to this block. Returns `true` if no object refers to it any more and
    /// no checkpoint has captured it: the block can be freed.
    pub(super) fn release(&self, index: u32) -> bool {
        if self.captured.load(Ordering::Relaxed) {
            return false;
        }
        let Some(others) = self.others.get().map(|others| &others[index as usize]) else { return true };
        // Only one thread at a time changes it.
        let count = others.load(Ordering::Relaxed);
        others.store(count.saturating_sub(1), Ordering::Relaxed);
        count == 0
    }
}

impl Block {
    pub(super) fn is_hole(&self) -> bool {
        matches!(self, Self::Hole)
    }

    /// Returns where the bytes are.
    pub(super) fn content(&self) -> Content<'_> {
        match self {
            Self::Hole => Content::Memory(Bytes::new()),
            Self::Fresh(fresh) => Content::Memory(fresh.data.clone()),
            Self::Disk(place) => Content::Disk(*place, &[]),
            Self::Patched(patched) => Content::Disk(patched.base, &patched.patches),
            Self::Large(large, index) => match large.block(*index) {
                Some(data) => Content::Memory(data),
                None => Content::Disk(large.place(*index), &[]),
            },
        }
    }

    /// Returns the block with `data` written at `offset`. Only the first `valid` bytes of the old block
    /// matter, the rest is zeros.
    pub(super) fn written(&self, offset: usize, data: &Bytes, valid: usize) -> Self {
        if offset == 0 && data.len() >= valid {
            return Fresh::block(data.clone());
        }
        let (base, patches) = match self.content() {
            Content::Memory(old) => {
                let mut new = Vec::with_capacity(old.len().max(offset + data.len()));
                new.extend_from_slice(&old);
                new.resize(new.len().max(offset + data.len()), 0);
                new[offset..offset + data.len()].copy_from_slice(data);
                return Fresh::block(Bytes::from(new));
            }
            Content::Disk(base, patches) => (base, patches),
        };
        let mut patches = patches.to_vec();
        match patches.last_mut() {
            // Consecutive appends are joined into one patch.
            Some((at, last)) if *at + last.len() == offset => *last = [&last[..], &data[..]].concat().into(),
            _ => patches.push((offset, data.clone())),
        }
        Self::Patched(Arc::new(Patched { base, patches }))
    }

    /// Returns the block with zeros from `keep` on, given that its first `valid` bytes matter.
    pub(super) fn cut(&self, keep: usize, valid: usize) -> Self {
        static ZEROS: [u8; BLOCK] = [0; BLOCK];
        match self.content() {
            Content::Memory(_) if self.is_hole() => Self::Hole,
            Content::Memory(old) => Fresh::block(old.slice(..keep.min(old.len()))),
            Content::Disk(..) if keep >= valid => self.clone(),
            Content::Disk(..) => self.written(keep, &Bytes::from_static(&ZEROS[..valid - keep]), valid),
        }
    }

    /// Returns the block for a clone of its object. A block with a place is shared; a block that a
    /// checkpoint still has to place gets one place for each object.
    pub(super) fn cloned(&self) -> Self {
        if let Self::Large(large, index) = self {
            large.share(*index);
        }
        self.clone()
    }

    /// Whether the next checkpoint has to allocate a place for it.
    pub(super) fn needs_place(&self) -> bool {
        matches!(self, Self::Fresh(_) | Self::Patched(_))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Hole, Self::Hole) => true,
            (Self::Disk(a), Self::Disk(b)) => a == b,
            (Self::Fresh(a), Self::Fresh(b)) => Arc::ptr_eq(a, b),
            (Self::Patched(a), Self::Patched(b)) => Arc::ptr_eq(a, b),
            (Self::Large(a, i), Self::Large(b, j)) => Arc::ptr_eq(a, b) && i == j,
            _ => false,
        }
    }
}

/// Applies patches to a block read from disk.
pub(super) fn patch(block: &mut [u8], patches: &[(usize, Bytes)]) {
    for (offset, data) in patches {
        block[*offset..offset + data.len()].copy_from_slice(data);
    }
}

/// A run of adjacent blocks of an object.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    /// The blocks from the chunk's start on; holes follow up to its end.
    pub(super) blocks: Vec<Block>,
    /// Whether it differs from its row in the map.
    pub(super) dirty: bool,
}

impl Chunk {
    pub(super) fn get(&self, index: u64) -> &Block {
        self.blocks.get(index as usize).unwrap_or(&Block::Hole)
    }

    /// Returns the chunk for a clone of its object.
    pub(super) fn cloned(&self) -> Self {
        Self { blocks: self.blocks.iter().map(Block::cloned).collect(), dirty: true }
    }

    /// Replaces a block and returns the old one.
    pub(super) fn set(&mut self, index: u64, block: Block) -> Block {
        debug_assert!(index < CHUNK_BLOCKS, "a chunk has no block {index}");
        if index as usize >= self.blocks.len() {
            self.blocks.resize(index as usize + 1, Block::Hole);
        }
        self.dirty = true;
        std::mem::replace(&mut self.blocks[index as usize], block)
    }

    /// Updates the chunk after a checkpoint that captured it as `cut` and left it as `clean` on disk. The
    /// chunk may have been changed since; its unchanged blocks refer to the new places afterwards.
    pub(super) fn rebase(&mut self, cut: &Self, clean: &Self) {
        for (i, block) in self.blocks.iter_mut().enumerate() {
            let (was, is) = (cut.get(i as u64), clean.get(i as u64));
            if block.is_same(was) {
                *block = is.clone();
                continue;
            }
            let (Block::Patched(new), Block::Patched(old), Block::Disk(place)) = (&*block, was, is) else {
                continue;
            };
            if new.base == old.base {
                // The block was patched again during the checkpoint. The new block on disk contains the
                // older patches already, so applying them again changes nothing.
                *block = Block::Patched(Arc::new(Patched { base: *place, patches: new.patches.clone() }));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Run;
    use super::*;

    fn in_memory(block: &Block) -> Bytes {
        match block.content() {
            Content::Memory(data) => data,
            Content::Disk(..) => panic!("not in memory: {block:?}"),
        }
    }

    fn on_disk(block: &Block) -> (Place, &[(usize, Bytes)]) {
        match block.content() {
            Content::Disk(place, patches) => (place, patches),
            Content::Memory(_) => panic!("in memory: {block:?}"),
        }
    }

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn writes_into_a_block() {
        let text = in_memory;
        let block = Block::Hole.written(2, &bytes("cd"), 0);
        assert_eq!(text(&block), "\0\0cd");
        let block = block.written(0, &bytes("ab"), 4);
        assert_eq!(text(&block), "abcd");
        assert_eq!(text(&block.cut(3, 4)), "abc");
        assert_eq!(text(&block.written(0, &bytes("x"), 1)), "x", "the rest does not matter");
        let stored = Block::Disk(Place { block: 9, crc: 1 });
        let block =
            stored.written(4, &bytes("e"), 10).written(5, &bytes("f"), 10).written(1, &bytes("b"), 10);
        let (place, patches) = on_disk(&block);
        assert_eq!((place.block, patches.len()), (9, 2));
        let mut all = *b"..........";
        patch(&mut all, patches);
        assert_eq!(&all, b".b..ef....");
        let cut = block.cut(5, 10);
        patch(&mut all, on_disk(&cut).1);
        assert_eq!(&all, b".b..e\0\0\0\0\0");
        assert_eq!(text(&stored.written(0, &bytes("0123456789"), 10)), "0123456789");
    }

    #[test]
    fn what_was_changed_during_a_checkpoint_refers_to_the_new_place() {
        let (old, new) = (Place { block: 1, crc: 1 }, Place { block: 2, crc: 2 });
        let patched = Block::Disk(old).written(1, &bytes("x"), 10);
        let fresh = Fresh::block(bytes("f"));
        let cut = Chunk { blocks: vec![patched.clone(), fresh.clone(), Block::Hole], dirty: true };
        let clean =
            Chunk { blocks: vec![Block::Disk(new), Block::Disk(Place { block: 3, crc: 3 })], dirty: false };
        let mut live =
            Chunk { blocks: vec![patched.written(5, &bytes("y"), 10), fresh, fresh_of("z")], dirty: true };
        live.rebase(&cut, &clean);
        let (base, patches) = on_disk(&live.blocks[0]);
        assert_eq!((base, patches.len()), (new, 2));
        assert!(matches!(live.blocks[1], Block::Disk(Place { block: 3, .. })));
        assert_eq!(in_memory(&live.blocks[2]), bytes("z"));
    }

    #[test]
    fn a_small_write_with_a_place_is_in_memory_until_it_is_safe() {
        let data = Arc::new(Bytes::from(vec![7; BLOCK]));
        let run = Run { start: 3, len: 1 };
        let large = Large::new(Runs::from_slice(&[run]), Crcs::from_slice(&[9]), &data);
        let block = Block::Large(Arc::clone(&large), 0);
        assert_eq!(in_memory(&block), *data);
        assert_eq!((large.task(), large.task(), large.done(true)), (Task::Write, Task::Wait, true));
        drop(data);
        let patched = block.written(1, &bytes("x"), BLOCK);
        let there = Place { block: 3, crc: 9 };
        assert_eq!((on_disk(&block).0, on_disk(&patched).0), (there, there));
        assert_eq!((large.task(), large.places().collect::<Vec<_>>()), (Task::Nothing, vec![there]));
    }

    fn fresh_of(text: &'static str) -> Block {
        Fresh::block(bytes(text))
    }
}
