//! The data of one object.
//!
//! Data is kept in immutable buffers: a reader takes a reference, and a writer replaces the buffers that
//! it overwrites:
//!
//! - *Whole*: one buffer from offset 0 on. Used for an object that is written in one go, and for every
//!   object up to [`SMALL_MAX`], which is rewritten instead of split.
//! - *Chunks*: the object is split into chunks of [`CHUNK`] bytes, each a short sorted list of extents.
//!   An extent begins on a block boundary ([`BLOCK`]): a write that begins or ends inside a block
//!   rewrites that block. A chunk therefore has at most 16 extents, whatever the writes.
//!
//! An extent may be a slice of a larger buffer ("borrowed"): of a large write kept as it was received,
//! or of the remainder of a partly overwritten buffer. It pins that whole buffer. `lost` counts the
//! pinned bytes that are no longer in use. When they exceed half of the borrowed bytes still in use,
//! each write also moves a few borrowed extents into buffers of their own (`sweep`), until the old
//! buffers are free. Memory therefore stays within about twice the data, and no single write bears the
//! whole cost.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::Data;

/// Extents begin on multiples of this: the write size that block devices see most.
const BLOCK: u64 = 4096;
/// Bytes that one chunk covers: large enough that the overhead of a chunk is negligible, small enough
/// that moving its extents is cheap.
const CHUNK: u64 = 64 << 10;
/// Up to this size an object is one buffer, rewritten by each write: copying so little is cheaper than a
/// second allocation.
const SMALL_MAX: u64 = 8 << 10;
/// Writes of at least this size keep the buffer that they arrived in; smaller ones are copied. The
/// messenger receives into buffers of up to 256 KiB, or of a message's own size if that is larger, so a
/// kept write uses at least half of its buffer.
const KEEP_MIN: usize = 128 << 10;
/// The memory, in bytes, that one extent takes in addition to its bytes: its list entry and its buffer's
/// bookkeeping.
const EXTENT_COST: u64 = 72;
/// The memory that one chunk takes in addition to its extents.
const CHUNK_COST: u64 = 64;
/// The memory of a chunk's slot, used or not.
const CHUNK_SLOT: u64 = size_of::<Option<Arc<Chunk>>>() as u64;
/// A sweep moves at least this many bytes, so that it outpaces the writes that make it necessary.
const SWEEP_MIN: u64 = 16 << 10;
/// A sweep moves at most this many bytes, so that no write waits for long.
const SWEEP_MAX: u64 = 1 << 20;

static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];

/// The data of an object, without its size. Uncovered ranges read as zeros.
#[derive(Clone, Debug)]
pub(super) enum Contents {
    Whole(Bytes),
    Chunks(Box<ChunkMap>),
}

impl Default for Contents {
    fn default() -> Self {
        Self::Whole(Bytes::new())
    }
}

impl Contents {
    /// Contents that consist of `data`.
    pub(super) fn whole(data: &Bytes) -> Self {
        Self::Whole(if data.len() >= KEEP_MIN { data.clone() } else { Bytes::copy_from_slice(data) })
    }

    /// Writes `data` at `offset`.
    pub(super) fn write(&mut self, offset: u64, data: &Bytes) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        match self {
            Self::Whole(old) if offset == 0 && data.len() >= old.len() => *self = Self::whole(data),
            Self::Whole(old) if end.max(old.len() as u64) <= SMALL_MAX => {
                *old = rebuilt(old, offset as usize, data);
            }
            _ => self.chunks().write(offset, data),
        }
    }

    /// Returns the range before `offset` that a write of `offset..end` will cover with zeros, because
    /// the block, or the small object, is kept in one piece with the written bytes.
    pub(super) fn lead(&self, offset: u64, end: u64) -> Range<u64> {
        let block = offset / BLOCK * BLOCK;
        let covered = match self {
            Self::Whole(old) if end.max(old.len() as u64) <= SMALL_MAX => old.len() as u64,
            Self::Whole(old) => block.max(old.len() as u64),
            Self::Chunks(map) => block.max(map.covered_until(block)),
        };
        covered.min(offset)..offset
    }

    /// Whether [`punch`](Self::punch) may keep some of these bytes, as zeros.
    pub(super) fn keeps_zeros(&self, offset: u64, end: u64) -> bool {
        match self {
            Self::Whole(old) => offset < old.len() as u64,
            Self::Chunks(_) => !offset.is_multiple_of(BLOCK) || !end.is_multiple_of(BLOCK),
        }
    }

    /// Makes a range read as zeros.
    pub(super) fn punch(&mut self, offset: u64, end: u64) {
        match self {
            Self::Whole(old) => {
                let end = end.min(old.len() as u64);
                if offset >= end {
                    return;
                }
                if old.len() as u64 <= SMALL_MAX {
                    *old = rebuilt(old, offset as usize, &ZEROS[..(end - offset) as usize]);
                } else {
                    self.chunks().punch(offset, end);
                }
            }
            Self::Chunks(map) => map.punch(offset, end),
        }
    }

    /// Discards everything from `size` on.
    pub(super) fn cut(&mut self, size: u64) {
        match self {
            Self::Whole(old) if old.len() as u64 <= size => {}
            Self::Whole(old) if size <= SMALL_MAX => *old = Bytes::copy_from_slice(&old[..size as usize]),
            _ => self.chunks().cut(size),
        }
    }

    /// Appends the bytes of a range to `out`; uncovered bytes are zeros.
    pub(super) fn read(&self, range: Range<u64>, out: &mut Data) {
        match self {
            Self::Whole(all) => {
                let covered = range.start.min(all.len() as u64)..range.end.min(all.len() as u64);
                if covered.start < covered.end {
                    out.push(all.slice(covered.start as usize..covered.end as usize));
                }
                push_zeros(range.end.saturating_sub(covered.end.max(range.start)), out);
            }
            Self::Chunks(map) => map.read(range, out),
        }
    }

    /// Returns the covered parts of a range, adjacent ones joined.
    pub(super) fn extents(&self, range: Range<u64>) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        let mut add = |start: u64, end: u64| {
            let (start, end) = (start.max(range.start), end.min(range.end));
            match found.last_mut() {
                _ if start >= end => {}
                Some((offset, len)) if *offset + *len == start => *len += end - start,
                _ => found.push((start, end - start)),
            }
        };
        match self {
            Self::Whole(all) => add(0, all.len() as u64),
            Self::Chunks(map) => map.extents_of(range.clone()).for_each(|(at, e)| add(at, at + e.len())),
        }
        found
    }

    /// The number of covered bytes.
    pub(super) fn allocated(&self) -> u64 {
        match self {
            Self::Whole(all) => all.len() as u64,
            Self::Chunks(map) => map.tally.allocated,
        }
    }

    /// The memory used, in bytes, bookkeeping included.
    pub(super) fn footprint(&self) -> u64 {
        match self {
            Self::Whole(all) if all.is_empty() => 0,
            Self::Whole(all) => all.len() as u64 + EXTENT_COST,
            Self::Chunks(map) => map.footprint(),
        }
    }

    /// The most that a write adds to the footprint of an object of `size` bytes.
    pub(super) fn write_cost_max(size: u64, offset: u64, len: u64) -> u64 {
        // Both end blocks are rewritten, extents are split, and the object may have to be split into
        // chunks first.
        let chunks = size.max(offset + len) / CHUNK + 1;
        len + 2 * BLOCK + 6 * EXTENT_COST + chunks * (CHUNK_COST + EXTENT_COST + CHUNK_SLOT)
    }

    fn chunks(&mut self) -> &mut ChunkMap {
        if let Self::Whole(all) = self {
            *self = Self::Chunks(Box::new(ChunkMap::cut_up(all)));
        }
        match self {
            Self::Chunks(map) => map,
            Self::Whole(_) => unreachable!("just replaced"),
        }
    }
}

/// Returns `old` with `data` at `offset`, in a new buffer.
fn rebuilt(old: &Bytes, offset: usize, data: &[u8]) -> Bytes {
    let end = offset + data.len();
    let mut new = Vec::with_capacity(old.len().max(end));
    new.extend_from_slice(&old[..offset.min(old.len())]);
    new.resize(offset, 0);
    new.extend_from_slice(data);
    new.extend_from_slice(old.get(end..).unwrap_or_default());
    Bytes::from(new)
}

fn push_zeros(mut len: u64, out: &mut Data) {
    while len > 0 {
        let n = len.min(CHUNK);
        out.push(Bytes::from_static(&ZEROS[..n as usize]));
        len -= n;
    }
}

/// Data in chunks. Cloning shares the chunks until one of the clones changes them.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkMap {
    /// Chunk `i` covers `i * CHUNK ..`; absent if nothing of it is covered.
    chunks: Vec<Option<Arc<Chunk>>>,
    tally: Tally,
    /// The chunk where the next sweep continues.
    sweep_at: usize,
}

/// Sums over all extents of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// The sum of the extents' lengths.
    allocated: u64,
    /// The sum of the borrowed extents' lengths.
    borrowed: u64,
    /// An upper bound of the bytes that borrowed extents pin but no reader can reach; 0 if nothing is
    /// borrowed.
    lost: u64,
    /// The number of extents.
    extents: u64,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    /// In order, not overlapping, each beginning on a block boundary.
    extents: Vec<Extent>,
}

#[derive(Clone, Debug)]
struct Extent {
    /// The offset within the chunk.
    start: u32,
    /// Whether `bytes` is a part of a larger buffer.
    borrowed: bool,
    bytes: Bytes,
}

impl ChunkMap {
    fn cut_up(all: &Bytes) -> Self {
        let mut map = Self::default();
        let borrowed = all.len() as u64 > CHUNK;
        for range in by_chunk(0..all.len() as u64) {
            let bytes = all.slice(range.start as usize..range.end as usize);
            map.put(range.start, bytes, borrowed);
        }
        map
    }

    fn write(&mut self, offset: u64, data: &Bytes) {
        let lost_before = self.tally.lost;
        let within = |r: &Range<u64>| (r.start - offset) as usize..(r.end - offset) as usize;
        let kept = data.len() >= KEEP_MIN;
        let parts = Parts::of(offset..offset + data.len() as u64);
        self.rewrite(&parts.head, &data[within(&parts.head)]);
        for range in by_chunk(parts.middle) {
            let own = || Bytes::copy_from_slice(&data[within(&range)]);
            let bytes = if kept { data.slice(within(&range)) } else { own() };
            self.put(range.start, bytes, kept);
        }
        self.rewrite(&parts.tail, &data[within(&parts.tail)]);
        self.sweep_after(lost_before);
    }

    fn punch(&mut self, offset: u64, end: u64) {
        let end = end.min(self.reach());
        if offset >= end {
            return;
        }
        let lost_before = self.tally.lost;
        let parts = Parts::of(offset..end);
        self.overwrite_with_zeros(parts.head);
        by_chunk(parts.middle).for_each(|range| self.replace(range, None));
        if self.covered_until(parts.tail.start) > parts.tail.end {
            self.overwrite_with_zeros(parts.tail);
        } else if !parts.tail.is_empty() {
            self.replace(parts.tail, None);
        }
        self.sweep_after(lost_before);
    }

    fn cut(&mut self, size: u64) {
        let lost_before = self.tally.lost;
        by_chunk(size..self.reach()).for_each(|range| self.replace(range, None));
        self.chunks.truncate(size.div_ceil(CHUNK) as usize);
        if self.chunks.len() < self.chunks.capacity() / 2 {
            self.chunks.shrink_to_fit();
        }
        self.sweep_after(lost_before);
    }

    fn read(&self, range: Range<u64>, out: &mut Data) {
        let mut at = range.start;
        for (start, extent) in self.extents_of(range.clone()) {
            let from = start.max(range.start);
            let until = (start + extent.len()).min(range.end);
            push_zeros(from - at, out);
            out.push(extent.bytes.slice((from - start) as usize..(until - start) as usize));
            at = until;
        }
        push_zeros(range.end - at, out);
    }

    /// Returns the extents that touch a range, with their offsets in the object.
    fn extents_of(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Extent)> {
        by_chunk(range.start..range.end.min(self.reach())).flat_map(|range| {
            let base = range.start / CHUNK * CHUNK;
            let (start, end) = ((range.start - base) as u32, (range.end - base) as u32);
            let chunk = self.chunks[(base / CHUNK) as usize].as_ref();
            let touched = chunk.map_or(&[][..], |c| &c.extents[c.touched(start, end)]);
            touched.iter().map(move |e| (base + u64::from(e.start), e))
        })
    }

    fn footprint(&self) -> u64 {
        let Tally { allocated, lost, extents, .. } = self.tally;
        let chunks = self.chunks.len() as u64;
        allocated + lost + extents * EXTENT_COST + chunks * (CHUNK_COST + CHUNK_SLOT)
    }

    /// The offset from which nothing is covered.
    fn reach(&self) -> u64 {
        self.chunks.len() as u64 * CHUNK
    }

    /// Returns the end of the covered part of the block that contains `at`; 0 if nothing is covered.
    fn covered_until(&self, at: u64) -> u64 {
        let block = at / BLOCK * BLOCK;
        self.extents_of(block..block + BLOCK).map(|(start, e)| (start + e.len()).min(block + BLOCK)).sum()
    }

    /// Writes a range that lies within one block by replacing the block.
    fn rewrite(&mut self, range: &Range<u64>, data: &[u8]) {
        if range.is_empty() {
            return;
        }
        let block = range.start / BLOCK * BLOCK;
        let end = range.end.max(self.covered_until(block));
        let mut old = Data::new();
        self.read(block..end, &mut old);
        let mut new = Vec::with_capacity((end - block) as usize);
        old.iter().for_each(|piece| new.extend_from_slice(piece));
        new[(range.start - block) as usize..(range.end - block) as usize].copy_from_slice(data);
        self.put(block, Bytes::from(new), false);
    }

    /// Writes zeros to a range that lies within one block; uncovered bytes read as zeros already.
    fn overwrite_with_zeros(&mut self, range: Range<u64>) {
        let range = range.start..range.end.min(self.covered_until(range.start));
        if !range.is_empty() {
            self.rewrite(&range, &ZEROS[..(range.end - range.start) as usize]);
        }
    }

    /// Replaces the bytes at `offset` with `bytes`, which lie within one chunk and begin on a block boundary.
    fn put(&mut self, offset: u64, bytes: Bytes, borrowed: bool) {
        let range = offset..offset + bytes.len() as u64;
        self.replace(range, Some(Extent { start: (offset % CHUNK) as u32, borrowed, bytes }));
    }

    /// Uncovers a range that lies within one chunk, and covers it with `new` if given.
    fn replace(&mut self, range: Range<u64>, new: Option<Extent>) {
        let index = (range.start / CHUNK) as usize;
        if index >= self.chunks.len() {
            self.chunks.resize(index + 1, None);
        }
        let slot = &mut self.chunks[index];
        if slot.is_none() && new.is_none() {
            return;
        }
        let chunk = Arc::make_mut(slot.get_or_insert_default());
        let start = (range.start % CHUNK) as u32;
        chunk.replace(start..start + (range.end - range.start) as u32, new, &mut self.tally);
        if chunk.extents.is_empty() {
            *slot = None;
        }
    }

    /// Moves borrowed extents into buffers of their own if too many pinned bytes are unused. The amount
    /// moved is proportional to what was lost since `lost_before`.
    fn sweep_after(&mut self, lost_before: u64) {
        if self.tally.lost * 2 <= self.tally.borrowed {
            return;
        }
        let newly_lost = self.tally.lost.saturating_sub(lost_before);
        let mut left = (newly_lost * 2).clamp(SWEEP_MIN, SWEEP_MAX);
        while left > 0 && self.tally.borrowed > 0 {
            self.sweep_at %= self.chunks.len();
            let moved = match &mut self.chunks[self.sweep_at] {
                Some(chunk) if chunk.extents.iter().any(|e| e.borrowed) => {
                    Arc::make_mut(chunk).own_some(left, &mut self.tally)
                }
                _ => 0,
            };
            left = left.saturating_sub(moved);
            if moved == 0 {
                self.sweep_at += 1;
            }
        }
    }
}

impl Tally {
    /// Subtracts `overlap` bytes of an extent from the sums. The rest of it, if any, is borrowed from now on.
    fn uncover(&mut self, extent: &Extent, overlap: u64) {
        let rest = extent.len() - overlap;
        self.allocated -= overlap;
        if extent.borrowed {
            self.borrowed -= overlap;
            self.lost += overlap;
        } else if rest > 0 {
            self.borrowed += rest;
            self.lost += overlap;
        }
        self.settle();
    }

    fn cover(&mut self, extent: &Extent) {
        self.allocated += extent.len();
        self.borrowed += if extent.borrowed { extent.len() } else { 0 };
    }

    /// Resets `lost` if no borrowed extent is left: then nothing is pinned.
    fn settle(&mut self) {
        if self.borrowed == 0 {
            self.lost = 0;
        }
    }
}

impl Chunk {
    /// Returns the indices of the extents that touch a range.
    fn touched(&self, start: u32, end: u32) -> Range<usize> {
        let first = self.extents.partition_point(|e| e.end() <= start);
        let count = self.extents[first..].partition_point(|e| e.start < end);
        first..first + count
    }

    fn replace(&mut self, range: Range<u32>, new: Option<Extent>, tally: &mut Tally) {
        let touched = self.touched(range.start, range.end);
        let mut rest: [Option<Extent>; 2] = [None, None];
        for extent in &self.extents[touched.clone()] {
            let overlap = extent.start.max(range.start)..extent.end().min(range.end);
            tally.uncover(extent, u64::from(overlap.end - overlap.start));
            if extent.start < range.start {
                rest[0] = Some(extent.part(extent.start..range.start));
            }
            if extent.end() > range.end {
                rest[1] = Some(extent.part(range.end..extent.end()));
            }
        }
        if let Some(new) = &new {
            tally.cover(new);
        }
        let before = self.extents.len();
        match (rest, new) {
            ([None, None], Some(new)) if touched.len() == 1 => self.extents[touched.start] = new,
            ([None, None], Some(new)) if touched.is_empty() => self.extents.insert(touched.start, new),
            ([left, right], new) => {
                self.extents.splice(touched, [left, new, right].into_iter().flatten());
            }
        }
        tally.extents = tally.extents + self.extents.len() as u64 - before as u64;
    }

    /// Copies about `max` bytes of the first borrowed extent into a buffer of their own; returns how many.
    fn own_some(&mut self, max: u64, tally: &mut Tally) -> u64 {
        let Some(index) = self.extents.iter().position(|e| e.borrowed) else { return 0 };
        let extent = &self.extents[index];
        let len = extent.len().min(max.next_multiple_of(BLOCK));
        let (start, end) = (extent.start, extent.end());
        let middle = start + len as u32;
        let own =
            Extent { start, borrowed: false, bytes: Bytes::copy_from_slice(&extent.bytes[..len as usize]) };
        let rest = (middle < end).then(|| extent.part(middle..end));
        tally.extents += u64::from(rest.is_some());
        self.extents.splice(index..=index, [Some(own), rest].into_iter().flatten());
        tally.borrowed -= len;
        tally.settle();
        len
    }
}

impl Extent {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn end(&self) -> u32 {
        self.start + self.bytes.len() as u32
    }

    /// Returns the part of this extent in a range within the chunk.
    fn part(&self, range: Range<u32>) -> Self {
        let bytes = self.bytes.slice((range.start - self.start) as usize..(range.end - self.start) as usize);
        Self { start: range.start, borrowed: true, bytes }
    }
}

/// A range split at block boundaries: the partial block at its start, whole blocks, and the partial
/// block at its end. Each may be empty.
struct Parts {
    head: Range<u64>,
    middle: Range<u64>,
    tail: Range<u64>,
}

impl Parts {
    fn of(range: Range<u64>) -> Self {
        let head_end = range.start.next_multiple_of(BLOCK).min(range.end);
        let tail_start = (range.end / BLOCK * BLOCK).max(head_end);
        Self { head: range.start..head_end, middle: head_end..tail_start, tail: tail_start..range.end }
    }
}

/// Splits a range at chunk boundaries.
fn by_chunk(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let start = at;
        at = ((start / CHUNK + 1) * CHUNK).min(range.end);
        (start < range.end).then_some(start..at)
    })
}

#[cfg(test)]
mod tests {
    //! Random writes, holes and cuts against a plain vector; after each, the sums against a count.

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, usize),
        Punch(u64, u64),
        Cut(u64),
        Clone,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let offset = || prop_oneof![0..200_000u64, (0..50u64).prop_map(|b| b * BLOCK), 0..10_000u64];
        let len = || prop_oneof![0..10_000usize, (0..5usize).prop_map(|b| b * 4096), 0..300_000usize];
        let step = prop_oneof![
            4 => (offset(), len()).prop_map(|(o, l)| Step::Write(o, l)),
            2 => (offset(), len()).prop_map(|(o, l)| Step::Punch(o, o + l as u64)),
            1 => offset().prop_map(Step::Cut),
            1 => Just(Step::Clone),
        ];
        prop::collection::vec(step, 1..40)
    }

    fn bytes_of(contents: &Contents, len: usize) -> Vec<u8> {
        let mut out = Data::new();
        contents.read(0..len as u64, &mut out);
        out.concat()
    }

    fn apply(contents: &mut Contents, model: &mut Vec<u8>, step: &Step, fill: u8) {
        match *step {
            Step::Write(offset, len) => {
                let (from, to) = (offset as usize, offset as usize + len);
                model.resize(model.len().max(to), 0);
                model[from..to].fill(fill);
                contents.write(offset, &Bytes::from(vec![fill; len]));
            }
            Step::Punch(from, to) => {
                let reach = model.len();
                model[reach.min(from as usize)..reach.min(to as usize)].fill(0);
                contents.punch(from, to);
            }
            Step::Cut(size) => {
                model.truncate(size as usize);
                contents.cut(size);
            }
            Step::Clone => {}
        }
    }

    fn check(contents: &Contents, model: &[u8]) {
        assert!(bytes_of(contents, model.len() + 10_000) == [model, &[0; 10_000]].concat());
        let covered: u64 = contents.extents(0..u64::MAX / 2).iter().map(|(_, len)| len).sum();
        assert_eq!(contents.allocated(), covered);
        if let Contents::Chunks(map) = contents {
            check_map(map);
        }
    }

    fn check_map(map: &ChunkMap) {
        let mut sum = Tally { lost: map.tally.lost, ..Tally::default() };
        for (start, extent) in map.extents_of(0..map.reach()) {
            assert!(start % BLOCK == 0 && extent.len() > 0 && u64::from(extent.end()) <= CHUNK);
            sum.cover(extent);
            sum.extents += 1;
        }
        assert_eq!(map.tally, sum);
        for chunk in map.chunks.iter().flatten() {
            assert!(chunk.extents.is_sorted_by(|a, b| a.end() <= b.start));
            assert!((1..=16).contains(&chunk.extents.len()));
        }
        assert!(sum.borrowed > 0 || sum.lost == 0);
    }

    proptest! {
        #[test]
        fn contents_are_what_was_written(steps in steps()) {
            let (mut contents, mut model) = (Contents::default(), Vec::new());
            let mut clones = Vec::new();
            for (i, step) in steps.iter().enumerate() {
                if matches!(step, Step::Clone) {
                    clones.push((contents.clone(), model.clone()));
                }
                let before = (contents.footprint(), model.len() as u64);
                apply(&mut contents, &mut model, step, i as u8 + 1);
                check(&contents, &model);
                if let Step::Write(offset, len) = *step {
                    let most = Contents::write_cost_max(before.1, offset, len as u64);
                    prop_assert!(contents.footprint() <= before.0 + most);
                }
            }
            for (contents, model) in &clones {
                check(contents, model);
            }
        }
    }

    #[test]
    fn overwriting_a_large_buffer_bit_by_bit_frees_it() {
        let size = 4 << 20;
        let mut contents = Contents::whole(&Bytes::from(vec![1; size]));
        let block = Bytes::from(vec![2; BLOCK as usize]);
        let mut most = 0;
        for i in 0..size as u64 / BLOCK / 2 {
            contents.write(i * 2 * BLOCK, &block);
            most = most.max(contents.footprint());
        }
        let Contents::Chunks(map) = &contents else { panic!("a large object that was overwritten in part") };
        let Tally { borrowed, lost, .. } = map.tally;
        assert!(
            borrowed + lost < CHUNK,
            "half is overwritten, the rest was moved but for {borrowed} + {lost} bytes"
        );
        assert!(most < size as u64 * 2, "at most {most} bytes were pinned");
    }

    #[test]
    fn small_writes_are_copied_and_large_ones_kept() {
        let large = Bytes::from(vec![1; KEEP_MIN]);
        let small = large.slice(..KEEP_MIN / 2);
        let data = |c: &Contents| match c {
            Contents::Whole(b) => b.as_ptr(),
            Contents::Chunks(_) => panic!("written in one go"),
        };
        assert_eq!(data(&Contents::whole(&large)), large.as_ptr());
        assert_ne!(data(&Contents::whole(&small)), small.as_ptr());
    }
}
