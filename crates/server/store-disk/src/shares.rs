//! Reference counts of blocks that the map refers to more than once, as a clone and its source do.
//!
//! All other blocks are omitted: without clones there are no entries. In memory, an entry takes 8 bytes
//! for each range of blocks with the same number of references; a clone of an object adds one for each run
//! of its blocks. In the map, rows cover as many blocks as those of the free space.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::Bytes;
use loligo_wire::{DecodeError, Reader, Writer};

use super::backend::Batch;
use super::keys;
use super::layout::{ROW_BLOCKS, Run, Runs};

/// The bytes of a range in a row.
const RANGE_LEN: usize = 8;

/// Adjacent blocks of one row with the same number of references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// The first block's index in the row.
    first: u16,
    len: u16,
    /// At least two.
    references: u32,
}

impl Range {
    fn end(&self) -> u16 {
        self.first + self.len
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// In order, without overlaps; never empty.
    rows: BTreeMap<u32, Vec<Range>>,
    /// Rows that differ from those on disk.
    dirty: BTreeSet<u32>,
}

impl Shares {
    /// Loads a row of the map of a store with `blocks` blocks.
    pub(super) fn load(&mut self, row: u32, bytes: &[u8], blocks: u64) -> io::Result<()> {
        let damaged = |what: String| {
            io::Error::new(io::ErrorKind::InvalidData, format!("row {row} of shared blocks: {what}"))
        };
        let ranges = decode(bytes).map_err(|e| damaged(e.to_string()))?;
        let (base, mut end) = (u64::from(row) * ROW_BLOCKS, 0);
        for range in &ranges {
            let sane = range.first >= end
                && range.len > 0
                && u64::from(range.first) + u64::from(range.len)
                    <= ROW_BLOCKS.min(blocks.saturating_sub(base))
                && range.references > 1;
            if !sane {
                return Err(damaged(format!("the range at {}", range.first)));
            }
            end = range.end();
        }
        if !ranges.is_empty() {
            self.rows.insert(row, ranges);
        }
        Ok(())
    }

    /// Adds one reference to each of these blocks, which have at least one.
    pub(super) fn add(&mut self, run: Run) {
        self.change(run, |_, references| references.saturating_add(1));
    }

    /// Removes one reference from each of these blocks, which have at least one. Returns those that have
    /// none left.
    pub(super) fn take_away(&mut self, run: Run) -> Runs {
        let mut gone = Runs::new();
        self.change(run, |run, references| {
            if references == 1 {
                gone.push(run);
            }
            references - 1
        });
        gone
    }

    /// Returns the ranges, in order, with their references.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (Run, u32)> {
        self.rows.iter().flat_map(|(row, ranges)| {
            let base = row * ROW_BLOCKS as u32;
            ranges.iter().map(move |range| {
                (Run { start: base + u32::from(range.first), len: range.len.into() }, range.references)
            })
        })
    }

    /// Compares with `other`; returns the first block whose references differ, and how many blocks differ.
    pub(super) fn difference(&self, other: &Self) -> Option<(u32, usize)> {
        let rows: BTreeSet<u32> = self.rows.keys().chain(other.rows.keys()).copied().collect();
        let mut found: Option<(u32, usize)> = None;
        for row in rows.into_iter().filter(|row| self.rows.get(row) != other.rows.get(row)) {
            let (ours, theirs) = (self.by_block(row), other.by_block(row));
            let differ = (0..ours.len()).filter(|i| ours[*i] != theirs[*i]);
            for i in differ {
                found.get_or_insert((row * ROW_BLOCKS as u32 + i as u32, 0)).1 += 1;
            }
        }
        found
    }

    /// Returns the references of each block of a row.
    fn by_block(&self, row: u32) -> Vec<u32> {
        let mut all = vec![1; ROW_BLOCKS as usize];
        for range in self.rows.get(&row).into_iter().flatten() {
            all[usize::from(range.first)..usize::from(range.end())].fill(range.references);
        }
        all
    }

    /// Puts the changed rows into a batch.
    pub(super) fn save(&mut self, batch: &mut Batch) {
        for row in std::mem::take(&mut self.dirty) {
            match self.rows.get(&row) {
                Some(ranges) => batch.set(keys::shared(row), encode(ranges)),
                None => batch.remove(keys::shared(row)),
            }
        }
    }

    /// Changes the references of `run`; `to` maps a run and its current references to the new number.
    fn change(&mut self, run: Run, mut to: impl FnMut(Run, u32) -> u32) {
        let (mut at, end) = (u64::from(run.start), u64::from(run.start) + u64::from(run.len));
        while at < end {
            let (row, from) = ((at / ROW_BLOCKS) as u32, at % ROW_BLOCKS);
            let until = ROW_BLOCKS.min(from + (end - at));
            let base = row * ROW_BLOCKS as u32;
            let ranges = self.rows.entry(row).or_default();
            let changed = change_row(ranges, from as u16, until as u16, |first, len, references| {
                to(Run { start: base + u32::from(first), len: len.into() }, references)
            });
            if ranges.is_empty() {
                self.rows.remove(&row);
            }
            if changed {
                self.dirty.insert(row);
            }
            at += until - from;
        }
    }
}

/// Changes the references of `from .. until`; returns whether the row differs afterwards.
fn change_row(
    ranges: &mut Vec<Range>,
    from: u16,
    until: u16,
    mut to: impl FnMut(u16, u16, u32) -> u32,
) -> bool {
    // The ranges that are touched, and their neighbours, with which they may merge.
    let start = ranges.partition_point(|range| range.end() <= from).saturating_sub(1);
    let end = (ranges.partition_point(|range| range.first < until) + 1).min(ranges.len());
    let mut new: Vec<Range> = Vec::with_capacity(end - start + 2);
    let mut put = |first: u16, end: u16, references: u32| match new.last_mut() {
        _ if first >= end || references < 2 => {}
        Some(last) if last.end() == first && last.references == references => last.len += end - first,
        _ => new.push(Range { first, len: end - first, references }),
    };
    let mut at = from;
    for range in &ranges[start..end] {
        let (first, end) = (range.first.max(from), range.end().min(until));
        put(range.first, range.end().min(from), range.references);
        if at < until && range.first >= at {
            let gap_end = range.first.min(until);
            if at < gap_end {
                put(at, gap_end, to(at, gap_end - at, 1));
            }
            at = gap_end;
        }
        if first < end {
            put(first, end, to(first, end - first, range.references));
            at = end;
        }
        put(range.first.max(until), range.end(), range.references);
    }
    if at < until {
        put(at, until, to(at, until - at, 1));
    }
    let differs = ranges[start..end] != new;
    ranges.splice(start..end, new);
    differs
}

fn encode(ranges: &[Range]) -> Bytes {
    let mut w = Writer::with_capacity(ranges.len() * RANGE_LEN);
    for range in ranges {
        w.u16(range.first);
        w.u16(range.len);
        w.u32(range.references);
    }
    w.into_bytes()
}

fn decode(bytes: &[u8]) -> Result<Vec<Range>, DecodeError> {
    let mut r = Reader::new(bytes);
    let mut ranges = Vec::with_capacity(bytes.len() / RANGE_LEN);
    while !r.is_empty() {
        ranges.push(Range { first: r.u16()?, len: r.u16()?, references: r.u32()? });
    }
    Ok(ranges)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCKS: u32 = ROW_BLOCKS as u32 + 40;

    fn by_block(shares: &Shares) -> Vec<u32> {
        let mut all = vec![1; BLOCKS as usize];
        for (run, references) in shares.ranges() {
            all[run.start as usize..run.end() as usize].fill(references);
        }
        all
    }

    proptest! {
        /// Goal: ranges count as single counters would, are as few as possible, and a saved row is read
        /// back. Method: a naive counter for each block around the border of two rows.
        #[test]
        fn ranges_count_as_single_blocks_do(
            steps in prop::collection::vec((any::<bool>(), 0..80u32, 1..30u32), 1..60),
        ) {
            let (mut shares, mut naive) = (Shares::default(), vec![1u32; BLOCKS as usize]);
            for (more, start, len) in steps {
                let start = ROW_BLOCKS as u32 - 40 + start;
                let run = Run { start, len: len.min(BLOCKS - start) };
                let counts = &mut naive[run.start as usize..run.end() as usize];
                if more {
                    counts.iter_mut().for_each(|n| *n += 1);
                    shares.add(run);
                } else if counts.iter().all(|n| *n > 0) {
                    counts.iter_mut().for_each(|n| *n -= 1);
                    let gone: Vec<u32> =
                        shares.take_away(run).iter().flat_map(|run| run.start..run.end()).collect();
                    let expected: Vec<u32> =
                        (run.start..run.end()).filter(|b| naive[*b as usize] == 0).collect();
                    prop_assert_eq!(gone, expected);
                    // They are allocated again at once.
                    naive.iter_mut().for_each(|n| *n = (*n).max(1));
                }
                prop_assert_eq!(&by_block(&shares), &naive);
                let ranges: Vec<_> = shares.ranges().collect();
                let border = ROW_BLOCKS as u32;
                let few = ranges.windows(2).all(|pair| {
                    let ((a, n), (b, m)) = (pair[0], pair[1]);
                    a.end() < b.start || n != m || b.start == border
                });
                prop_assert!(few);
            }
            let mut batch = Batch::default();
            shares.save(&mut batch);
            let mut again = Shares::default();
            for (key, value) in batch.changes {
                let row = u32::from_be_bytes(key[1..].try_into().expect("a row's key"));
                if let Some(value) = value {
                    again.load(row, &value, BLOCKS.into()).expect("as saved");
                }
            }
            prop_assert_eq!(by_block(&again), naive);
        }
    }

    #[test]
    fn a_row_that_makes_no_sense_is_refused() {
        let range = |first, len, references| Range { first, len, references };
        let load = |ranges: &[Range]| Shares::default().load(0, &encode(ranges), 4096);
        assert!(load(&[range(0, 4096, 2)]).is_ok());
        assert!(Shares::default().load(0, &encode(&[range(0, 4096, 2)]), 4095).is_err());
        assert!(Shares::default().load(u32::MAX, &encode(&[range(0, 1, 2)]), u32::MAX.into()).is_err());
        for bad in [
            vec![range(0, 4096, 1)],
            vec![range(5, 0, 2)],
            vec![range(4000, 97, 2)],
            vec![range(u16::MAX, u16::MAX, 2)],
            vec![range(5, 5, 2), range(9, 1, 3)],
        ] {
            assert!(load(&bad).is_err(), "{bad:?}");
        }
        assert!(Shares::default().load(0, &[0; 7], 4096).is_err());
    }
}
