//! Sets of snapshot ids.

use std::collections::BTreeMap;

use crate::{Decode, DecodeError, Encode, Reader, SnapId, Writer};

/// A set of snapshot ids, stored as intervals (`snap_interval_set_t`).
///
/// The intervals neither overlap nor touch, except if a peer's encoding did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapSet {
    /// The length of each interval, by its first id.
    intervals: BTreeMap<u64, u64>,
}

impl SnapSet {
    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The intervals, each as the first id and the length.
    pub fn intervals(&self) -> impl ExactSizeIterator<Item = (SnapId, u64)> {
        self.intervals.iter().map(|(start, len)| (SnapId(*start), *len))
    }

    /// Whether `snap` is in the set.
    pub fn contains(&self, snap: SnapId) -> bool {
        self.intervals.range(..=snap.0).next_back().is_some_and(|(start, len)| snap.0 - start < *len)
    }

    /// Adds one id.
    pub fn insert(&mut self, snap: SnapId) {
        self.insert_range(snap, 1);
    }

    /// Adds `len` ids from `start` on. Ids already in the set remain.
    pub fn insert_range(&mut self, start: SnapId, len: u64) {
        if len == 0 {
            return;
        }
        let mut first = start.0;
        let mut end = start.0.saturating_add(len);
        // Merge every interval that overlaps or touches.
        while let Some((&s, &l)) = self.intervals.range(..=end).next_back() {
            if s.saturating_add(l) < first {
                break;
            }
            first = first.min(s);
            end = end.max(s.saturating_add(l));
            self.intervals.remove(&s);
        }
        self.intervals.insert(first, end - first);
    }

    /// Adds all ids of `other`.
    pub fn union(&mut self, other: &Self) {
        other.intervals().for_each(|(start, len)| self.insert_range(start, len));
    }

    /// Removes all ids of `other`. Ids that are not in the set are ignored.
    pub fn subtract(&mut self, other: &Self) {
        for (start, len) in other.intervals() {
            self.remove_range(start.0, start.0.saturating_add(len));
        }
    }

    fn remove_range(&mut self, first: u64, end: u64) {
        while let Some((&s, &l)) = self.intervals.range(..end).next_back() {
            let e = s.saturating_add(l);
            if e <= first {
                break;
            }
            self.intervals.remove(&s);
            if e > end {
                self.intervals.insert(end, e - end);
            }
            if s < first {
                self.intervals.insert(s, first - s);
            }
        }
    }
}

impl FromIterator<SnapId> for SnapSet {
    fn from_iter<I: IntoIterator<Item = SnapId>>(snaps: I) -> Self {
        let mut set = Self::default();
        snaps.into_iter().for_each(|snap| set.insert(snap));
        set
    }
}

impl Encode for SnapSet {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.intervals);
    }
}

impl Decode for SnapSet {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { intervals: r.get()? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ids(set: &SnapSet) -> BTreeSet<u64> {
        set.intervals().flat_map(|(start, len)| start.0..start.0 + len).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_a_set_of_numbers(
            ranges in proptest::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 0..40),
        ) {
            let (mut set, mut oracle) = (SnapSet::default(), BTreeSet::new());
            for (add, start, len) in ranges {
                let mut other = SnapSet::default();
                other.insert_range(SnapId(start), len);
                if add {
                    set.union(&other);
                    oracle.extend(start..start + len);
                } else {
                    set.subtract(&other);
                    oracle.retain(|id| !(start..start + len).contains(id));
                }
                prop_assert_eq!(ids(&set), oracle.clone());
                let separate: Vec<_> = set.intervals().collect();
                prop_assert!(separate.windows(2).all(|w| w[0].0.0 + w[0].1 < w[1].0.0));
                for id in 0..80 {
                    prop_assert_eq!(set.contains(SnapId(id)), oracle.contains(&id));
                }
            }
        }
    }
}
