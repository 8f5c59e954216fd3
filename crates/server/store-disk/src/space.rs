//! The allocation of blocks of the data file.
//!
//! One bit for each block, in memory. The bits on disk always match the references in the rest of the map
//! on disk; they are part of each checkpoint ([`Stored`]). In memory more blocks are in use: those of
//! large writes that no checkpoint has captured yet, and those that are free on disk but may still be read
//! through a view or be named by the journal.

use std::io;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_store::StoreError;

use super::backend::Batch;
use super::keys;
use super::layout::{BLOCK, ROW_BLOCKS, Run, Runs};
use super::shares::Shares;

/// Held to find free blocks, in memory.
static SPACE: Class = Class::new("store.space");

const WORD: u64 = u64::BITS as u64;
/// The maximum number of adjacent blocks set aside for small writes: 4 MiB.
const STRIP_BLOCKS_MAX: u64 = 16 * WORD;
/// The number of words that a search for a strip examines before it gives up: some microseconds, under the
/// lock.
const STRIP_LOOK_WORDS: u64 = 4096;

/// One bit for each block.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    words: Vec<u64>,
    blocks: u64,
}

impl Bits {
    pub(super) fn new(blocks: u64) -> Self {
        Self { words: vec![0; blocks.div_ceil(WORD) as usize], blocks }
    }

    pub(super) fn get(&self, block: u64) -> bool {
        self.words[(block / WORD) as usize] >> (block % WORD) & 1 != 0
    }

    /// Changes all bits of a run. Returns `false`, and changes nothing, if one of them already has that
    /// value or does not exist.
    #[must_use]
    pub(super) fn change(&mut self, run: Run, to: bool) -> bool {
        let range = u64::from(run.start)..u64::from(run.start) + u64::from(run.len);
        if range.end > self.blocks || range.clone().any(|block| self.get(block) == to) {
            return false;
        }
        range.for_each(|block| self.words[(block / WORD) as usize] ^= 1 << (block % WORD));
        true
    }

    /// Returns the first free blocks from `from` on, up to `max` adjacent ones.
    fn free_run(&self, from: u64, until: u64, max: u64) -> Option<Run> {
        let mut start = from;
        while start < until {
            let word = self.words[(start / WORD) as usize] >> (start % WORD);
            if word & 1 == 0 {
                let end = (start + max).min(until);
                let len = (start..end).take_while(|block| !self.get(*block)).count();
                return Some(Run { start: start as u32, len: len as u32 });
            }
            // The rest of the word that is in use. Zeros were shifted in, so this stops within the word or
            // at its end.
            start += u64::from(word.trailing_ones()).min(WORD - start % WORD);
        }
        None
    }
}

/// The most that a transaction needs besides the blocks allocated for it: blocks for its small writes at
/// the next checkpoint, and bytes of the map for names, keys, values and attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl std::ops::AddAssign for Need {
    fn add_assign(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// The allocator of blocks.
#[derive(Debug)]
pub(super) struct Space(Mutex<State>);

#[derive(Debug)]
struct State {
    used: Bits,
    free: u64,
    /// An upper bound of the blocks needed by writes that are only in the journal yet.
    reserved: u64,
    /// Bytes of the capacity that the map takes: names, keys, values and attributes.
    map_bytes: u64,
    /// An upper bound of the bytes written to the map since the last checkpoint.
    pending_bytes: u64,
    /// The block where the last search ended.
    hint: u64,
    /// The blocks set aside for small writes, marked in `used`; may be empty.
    strip: Run,
    /// The word where the next search for a strip begins.
    strip_hint: u64,
}

impl Space {
    /// Creates an allocator in which all blocks not used by `stored` are free.
    pub(super) fn new(stored: &Stored) -> Self {
        let used = stored.bits.clone();
        let in_use: u64 = used.words.iter().map(|w| u64::from(w.count_ones())).sum();
        let free = used.blocks - in_use;
        Self(Mutex::new(
            &SPACE,
            State {
                used,
                free,
                reserved: 0,
                map_bytes: 0,
                pending_bytes: 0,
                hint: 0,
                strip: Run { start: 0, len: 0 },
                strip_hint: 0,
            },
        ))
    }

    /// Allocates `blocks` blocks, in as few runs as possible, and reserves `later` more.
    pub(super) fn allocate(&self, blocks: u64, later: u64) -> Result<Runs, StoreError> {
        let mut state = self.0.lock();
        state.has_room(blocks + later)?;
        state.reserved += later;
        Ok(state.take(blocks))
    }

    /// Reserves blocks and bytes of the map if there is room for both. An empty need is never refused.
    pub(super) fn promise(&self, need: Need) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        state.has_room(need.blocks + need.bytes.div_ceil(BLOCK as u64))?;
        state.promise(need);
        Ok(())
    }

    /// Renews a reservation made before the restart, whether there is room or not.
    pub(super) fn promise_again(&self, need: Need) {
        self.0.lock().promise(need);
    }

    /// Sets the bytes of the capacity that the map takes.
    pub(super) fn set_map_bytes(&self, bytes: u64) {
        self.0.lock().map_bytes = bytes;
    }

    /// Allocates `blocks` adjacent blocks, following the previous allocation while its strip of free
    /// blocks lasts. Returns `None` if there is no strip: each allocation would then be a separate write,
    /// which the journal avoids.
    pub(super) fn allocate_small(&self, blocks: u64) -> Option<Run> {
        let mut state = self.0.lock();
        if u64::from(state.strip.len) < blocks {
            state.give_up_strip();
            state.strip = state.find_strip()?;
        }
        let run = Run { start: state.strip.start, len: blocks as u32 };
        state.strip = Run { start: run.end(), len: state.strip.len - run.len };
        Some(run)
    }

    /// Allocates up to `blocks` adjacent blocks out of the reserved ones; `None` if no block is free.
    pub(super) fn take_promised(&self, blocks: u64) -> Option<Run> {
        self.0.lock().take_run(blocks)
    }

    /// Ends a reservation.
    pub(super) fn release_promise(&self, need: Need) {
        let mut state = self.0.lock();
        state.reserved -= need.blocks;
        state.pending_bytes -= need.bytes;
    }

    /// Allocates the blocks that the journal names; returns `false` if they are not free.
    #[must_use]
    pub(super) fn take_exactly(&self, run: Run) -> bool {
        let mut state = self.0.lock();
        let done = state.used.change(run, true);
        if done {
            state.free -= u64::from(run.len);
        }
        done
    }

    /// Frees blocks.
    pub(super) fn free(&self, runs: &[Run]) {
        let mut state = self.0.lock();
        for run in runs {
            let was_used = state.used.change(*run, false);
            assert!(was_used, "blocks {run:?} are freed twice");
            state.free += u64::from(run.len);
        }
    }

    /// Returns the total number of blocks, and the number that can still be allocated.
    pub(super) fn figures(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.used.blocks, state.available() + u64::from(state.strip.len))
    }

    /// The blocks allocated or reserved for data, without those the map takes.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> u64 {
        let state = self.0.lock();
        state.used.blocks - state.free - u64::from(state.strip.len) + state.reserved
    }
}

impl State {
    fn available(&self) -> u64 {
        let of_map = (self.map_bytes + self.pending_bytes).div_ceil(BLOCK as u64);
        self.free.saturating_sub(self.reserved).saturating_sub(of_map)
    }

    fn promise(&mut self, need: Need) {
        self.reserved += need.blocks;
        self.pending_bytes += need.bytes;
    }

    fn has_room(&mut self, blocks: u64) -> Result<(), StoreError> {
        if blocks > self.available() {
            self.give_up_strip();
        }
        let available = self.available();
        if blocks <= available {
            return Ok(());
        }
        let capacity = self.used.blocks * BLOCK as u64;
        let (needed, free) = (blocks * BLOCK as u64, available * BLOCK as u64);
        Err(StoreError::Full { needed, free, capacity })
    }

    fn give_up_strip(&mut self) {
        let strip = std::mem::replace(&mut self.strip, Run { start: 0, len: 0 });
        if strip.len > 0 {
            let was_used = self.used.change(strip, false);
            debug_assert!(was_used, "a strip is in use");
            self.free += u64::from(strip.len);
        }
    }

    /// Returns whole words of free blocks, if there are some near the last ones found. Uses no more than a
    /// small part of the free space.
    fn find_strip(&mut self) -> Option<Run> {
        let words_max = (self.available() / 8).min(STRIP_BLOCKS_MAX) / WORD;
        // The last word may have bits beyond the end.
        let words = self.used.blocks / WORD;
        if words_max == 0 || words == 0 {
            return None;
        }
        let look = |from: u64, until: u64| (from..until).find(|word| self.used.words[*word as usize] == 0);
        let from = self.strip_hint.min(words);
        let until = words.min(from + STRIP_LOOK_WORDS);
        let Some(first) = look(from, until) else {
            self.strip_hint = if until == words { 0 } else { until };
            return None;
        };
        let last = words.min(first + words_max);
        let count = (first..last).take_while(|word| self.used.words[*word as usize] == 0).count() as u64;
        let strip = Run { start: (first * WORD) as u32, len: (count * WORD) as u32 };
        let was_free = self.used.change(strip, true);
        debug_assert!(was_free, "just found free");
        self.free -= u64::from(strip.len);
        self.strip_hint = first + count;
        Some(strip)
    }

    fn take(&mut self, mut blocks: u64) -> Runs {
        let mut runs = Runs::new();
        while blocks > 0
            && let Some(run) = self.take_run(blocks)
        {
            blocks -= u64::from(run.len);
            runs.push(run);
        }
        runs
    }

    fn take_run(&mut self, max: u64) -> Option<Run> {
        let found = self.used.free_run(self.hint, self.used.blocks, max);
        let run = found.or_else(|| self.used.free_run(0, self.hint, max))?;
        let was_free = self.used.change(run, true);
        debug_assert!(was_free, "just found free");
        self.hint = u64::from(run.end());
        self.free -= u64::from(run.len);
        Some(run)
    }
}

/// The references of the map on disk: the blocks in use, and their reference counts. Detects a new block
/// that is referenced already, and a freed one that was not in use.
#[derive(Debug)]
pub(super) struct Stored {
    bits: Bits,
    /// The rows of bits that differ from those on disk.
    dirty: Vec<bool>,
    shares: Shares,
}

impl Stored {
    pub(super) fn new(blocks: u64) -> Self {
        let dirty = vec![false; blocks.div_ceil(ROW_BLOCKS) as usize];
        Self { bits: Bits::new(blocks), dirty, shares: Shares::default() }
    }

    /// Loads a row of the map.
    pub(super) fn load(&mut self, row: u32, bytes: &[u8]) -> io::Result<()> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("row {row} of the free space"));
        if bytes.len() as u64 != ROW_BLOCKS / 8 || row as usize >= self.dirty.len() {
            return Err(bad());
        }
        let start = row as usize * (ROW_BLOCKS / WORD) as usize;
        for (i, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
            match self.bits.words.get_mut(start + i) {
                Some(place) => *place = word,
                None if word == 0 => {}
                None => return Err(bad()),
            }
        }
        let beyond = self.bits.blocks % WORD;
        if beyond != 0 && self.bits.words.last().is_some_and(|word| word >> beyond != 0) {
            return Err(bad());
        }
        Ok(())
    }

    /// Loads a row of shared blocks.
    pub(super) fn load_shared(&mut self, row: u32, bytes: &[u8]) -> io::Result<()> {
        self.shares.load(row, bytes, self.bits.blocks)
    }

    /// Returns the first block that has several references but is not in use, if there is one.
    pub(super) fn shared_but_free(&self) -> Option<u64> {
        let mut blocks = self.shares.ranges().flat_map(|(run, _)| run.start..run.end());
        blocks.find(|block| !self.bits.get(u64::from(*block))).map(u64::from)
    }

    pub(super) fn bits(&self) -> &Bits {
        &self.bits
    }

    pub(super) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Records the first reference to a run.
    pub(super) fn refer(&mut self, run: Run) -> io::Result<()> {
        self.set_bits(run, true)
    }

    /// Records one more reference to a run in which each block has one already.
    pub(super) fn refer_again(&mut self, run: Run) -> io::Result<()> {
        self.check_in_use(run)?;
        self.shares.add(run);
        Ok(())
    }

    /// Records one more reference to a run, whether or not its blocks have one already.
    pub(super) fn refer_or_again(&mut self, run: Run) -> io::Result<()> {
        for block in run.start..run.end() {
            let run = Run { start: block, len: 1 };
            if u64::from(block) < self.bits.blocks && self.bits.get(block.into()) {
                self.shares.add(run);
            } else {
                self.refer(run)?;
            }
        }
        Ok(())
    }

    /// Removes one reference from a run. Blocks without any other are added to `freed`.
    pub(super) fn release(&mut self, run: Run, freed: &mut Runs) -> io::Result<()> {
        self.check_in_use(run)?;
        for gone in self.shares.take_away(run) {
            self.set_bits(gone, false)?;
            freed.push(gone);
        }
        Ok(())
    }

    fn check_in_use(&self, run: Run) -> io::Result<()> {
        let mut blocks = u64::from(run.start)..u64::from(run.start) + u64::from(run.len);
        if blocks.all(|block| block < self.bits.blocks && self.bits.get(block)) {
            return Ok(());
        }
        Err(wrong(run, "are not in use"))
    }

    fn set_bits(&mut self, run: Run, in_use: bool) -> io::Result<()> {
        if run.len == 0 || !self.bits.change(run, in_use) {
            return Err(wrong(run, if in_use { "are referred to twice" } else { "were not in use" }));
        }
        let rows = u64::from(run.start) / ROW_BLOCKS..=(u64::from(run.end()) - 1) / ROW_BLOCKS;
        rows.for_each(|row| self.dirty[row as usize] = true);
        Ok(())
    }

    /// Puts the changed rows into a batch.
    pub(super) fn save(&mut self, batch: &mut Batch) {
        self.shares.save(batch);
        let words = (ROW_BLOCKS / WORD) as usize;
        for (row, dirty) in self.dirty.iter_mut().enumerate().filter(|(_, dirty)| **dirty) {
            *dirty = false;
            let mut bytes = Vec::with_capacity(words * 8);
            for i in row * words..(row + 1) * words {
                bytes.extend_from_slice(&self.bits.words.get(i).copied().unwrap_or(0).to_le_bytes());
            }
            batch.set(keys::space(row as u32), Bytes::from(bytes));
        }
    }
}

fn wrong(run: Run, what: &str) -> io::Error {
    let end = u64::from(run.start) + u64::from(run.len);
    let text = format!("blocks {} to {end} of the data file {what}", run.start);
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_taken_once_and_come_back() {
        let space = Space::new(&Stored::new(1000));
        let mut taken: Vec<Run> = Vec::new();
        for n in [1, 63, 64, 65, 300, 200] {
            taken.extend(space.allocate(n, 0).expect("room"));
        }
        let mut blocks: Vec<u32> = taken.iter().flat_map(|run| run.start..run.end()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 693);
        assert!(matches!(space.allocate(300, 8), Err(StoreError::Full { .. })));
        space.allocate(0, 300).expect("room");
        assert!(matches!(space.allocate(10, 0), Err(StoreError::Full { .. })), "the rest is promised");
        space.release_promise(Need { blocks: 300, bytes: 0 });
        // Every other run is freed; then all free blocks are found though they are in pieces.
        let (back, kept): (Vec<_>, Vec<_>) = taken.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
        back.iter().for_each(|(_, run)| space.free(&[*run]));
        let (_, free) = space.figures();
        let again = space.allocate(free, 0).expect("as many as are free");
        assert_eq!(again.iter().map(|run| u64::from(run.len)).sum::<u64>(), free);
        assert!(
            again.iter().all(|run| kept.iter().all(|(_, k)| run.end() <= k.start || k.end() <= run.start))
        );
        assert!(!space.take_exactly(again[0]));
    }

    #[test]
    fn small_writes_lie_side_by_side_and_take_no_room_from_others() {
        let space = Space::new(&Stored::new(1000));
        let first = space.allocate_small(3).expect("room");
        let large = space.allocate(100, 0).expect("room");
        let second = space.allocate_small(2).expect("room");
        assert_eq!((first.len, second.start, second.len), (3, first.end(), 2));
        assert!(large.iter().all(|run| run.end() <= first.start || run.start >= second.end()));
        assert_eq!(space.figures(), (1000, 1000 - 105), "what is set aside is free");
        // An allocation that needs all free blocks gets the strip too.
        let rest = space.allocate(1000 - 105, 0).expect("as many as are free");
        assert_eq!(space.figures().1, 0);
        assert!(space.allocate_small(1).is_none());
        rest.iter().for_each(|run| space.free(&[*run]));
        // Free blocks without a long run are not used.
        let taken: Vec<Run> = (0..895).map(|_| space.allocate(1, 0).expect("room")[0]).collect();
        taken.iter().filter(|run| run.start % 64 != 5).for_each(|run| space.free(&[*run]));
        assert!(space.figures().1 > 800 && space.allocate_small(1).is_none());
        taken.iter().filter(|run| run.start % 64 == 5).for_each(|run| space.free(&[*run]));
        assert!(space.allocate_small(15).is_some(), "the search begins anew");
    }

    #[test]
    fn rows_are_read_back_and_wrong_references_are_found() {
        let mut stored = Stored::new(5000);
        let mut freed = Runs::new();
        stored.refer(Run { start: 4000, len: 200 }).expect("free");
        assert!(stored.refer(Run { start: 4199, len: 1 }).is_err());
        assert!(stored.refer_again(Run { start: 4199, len: 2 }).is_err());
        assert!(stored.release(Run { start: 4200, len: 1 }, &mut freed).is_err());
        assert!(stored.refer(Run { start: 4999, len: 2 }).is_err());
        assert!(freed.is_empty());
        let mut batch = Batch::default();
        stored.save(&mut batch);
        assert_eq!(batch.changes.len(), 2);
        let mut again = Stored::new(5000);
        for (row, (_, bytes)) in batch.changes.iter().enumerate() {
            again.load(row as u32, bytes.as_deref().expect("set")).expect("as saved");
        }
        assert_eq!(again.bits.words, stored.bits.words);
        assert!(again.load(2, &[0; 512]).is_err());
        assert!(again.load(1, &[0xff; 512]).is_err());
    }

    #[test]
    fn a_block_is_free_when_its_last_reference_is_gone() {
        let mut stored = Stored::new(5000);
        let (mut freed, run) = (Runs::new(), Run { start: 4090, len: 10 });
        stored.refer(run).expect("free");
        stored.refer_again(run).expect("in use");
        stored.refer_or_again(Run { start: 4095, len: 10 }).expect("in part");
        stored.release(Run { start: 4090, len: 15 }, &mut freed).expect("in use");
        assert_eq!(freed[..], [Run { start: 4100, len: 5 }]);
        stored.release(run, &mut freed).expect("in use");
        assert_eq!(freed[1..], [Run { start: 4090, len: 5 }]);
        assert!(stored.release(run, &mut freed).is_err(), "half of it is free");
        assert_eq!(stored.shared_but_free(), None);
        stored.load_shared(1, &[9, 0, 1, 0, 2, 0, 0, 0]).expect("a row");
        assert_eq!(stored.shared_but_free(), Some(4105));
    }
}
