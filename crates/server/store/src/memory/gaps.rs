//! Holes within the blocks of an object: bytes that no client wrote, but that its
//! [contents](super::contents) store as zeros because they share a block with data.

use std::ops::Range;

/// The maximum number of gaps of an object. With more, all of them count as data from then on; they
/// still read as zeros.
const GAPS_MAX: usize = 64;
/// The memory, in bytes, that one gap takes.
const GAP_COST: u64 = size_of::<Range<u64>>() as u64;
/// The most that one change adds: a gap before it, and one gap that it splits.
pub(super) const GAPS_COST_MAX: u64 = 2 * GAP_COST;

/// The gaps of an object: in order, not empty, none adjacent to the next. Most objects have none.
#[derive(Clone, Debug, Default)]
#[expect(clippy::box_collection, reason = "an object without gaps pays 8 bytes for them instead of 24")]
pub(super) struct Gaps(Option<Box<Vec<Range<u64>>>>);

impl Gaps {
    /// Marks a range as not written.
    pub(super) fn insert(&mut self, mut range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let all = self.0.get_or_insert_default();
        let first = all.partition_point(|gap| gap.end < range.start);
        let count = all[first..].partition_point(|gap| gap.start <= range.end);
        if count > 0 {
            range.start = range.start.min(all[first].start);
            range.end = range.end.max(all[first + count - 1].end);
        }
        all.splice(first..first + count, [range]);
        self.settle();
    }

    /// Marks a range as written or cut off.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        let Some(all) = &mut self.0 else { return };
        let first = all.partition_point(|gap| gap.end <= range.start);
        let count = all[first..].partition_point(|gap| gap.start < range.end);
        if range.is_empty() || count == 0 {
            return;
        }
        let left = all[first].start..range.start;
        let right = range.end..all[first + count - 1].end;
        all.splice(first..first + count, [left, right].into_iter().filter(|rest| !rest.is_empty()));
        self.settle();
    }

    fn settle(&mut self) {
        self.0.take_if(|all| all.is_empty() || all.len() > GAPS_MAX);
    }

    /// Returns `extents` (offset and length, in order) without the gaps.
    pub(super) fn cut_out_of(&self, extents: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        let Some(all) = &self.0 else { return extents };
        let mut found = Vec::with_capacity(extents.len() + all.len());
        for (mut at, len) in extents {
            let end = at + len;
            let first = all.partition_point(|gap| gap.end <= at);
            for gap in all[first..].iter().take_while(|gap| gap.start < end) {
                if at < gap.start {
                    found.push((at, gap.start - at));
                }
                at = gap.end;
            }
            if at < end {
                found.push((at, end - at));
            }
        }
        found
    }

    /// The memory used, in bytes.
    pub(super) fn footprint(&self) -> u64 {
        self.0.as_ref().map_or(0, |all| all.len() as u64 * GAP_COST)
    }
}

#[cfg(test)]
mod tests {
    //! Random changes against a plain vector of bits.

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn gaps_are_what_was_not_written(steps in prop::collection::vec((any::<bool>(), 0..100u64, 0..30u64), 0..60)) {
            let (mut gaps, mut model) = (Gaps::default(), [true; 130]);
            for (is_gap, start, len) in steps {
                if is_gap { gaps.insert(start..start + len) } else { gaps.remove(start..start + len) }
                model[start as usize..(start + len) as usize].fill(!is_gap);
                let mut seen = [false; 130];
                let found = gaps.cut_out_of(vec![(0, 50), (50, 80)]);
                for (offset, len) in &found {
                    prop_assert!(*len > 0);
                    seen[*offset as usize..(offset + len) as usize].fill(true);
                }
                prop_assert_eq!(seen, model);
                prop_assert!(found.is_sorted_by(|a, b| a.0 + a.1 <= b.0));
            }
        }
    }

    #[test]
    fn too_many_gaps_are_forgotten() {
        let mut gaps = Gaps::default();
        for n in 0..GAPS_MAX as u64 {
            gaps.insert(n * 10..n * 10 + 1);
        }
        assert_eq!(gaps.footprint(), GAPS_MAX as u64 * GAP_COST);
        gaps.insert(5..6);
        assert_eq!((gaps.footprint(), gaps.cut_out_of(vec![(0, 10)])), (0, vec![(0, 10)]));
    }
}
