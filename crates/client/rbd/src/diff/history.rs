//! An object's states at snapshots, and the differences between them.

use std::ops::Range;

use loligo_rados::{ObjectSnaps, SnapClone, SnapId};

/// An object's history: the listing of its clones, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(pub(crate) ObjectSnaps);

impl History {
    /// Whether the object never existed, according to the listing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.clones.is_empty()
    }

    /// Returns the index of the object's state at a snapshot or now; `None` if it did not exist.
    ///
    /// At a snapshot newer than the newest one in the object's snapshot context, the state is the head.
    pub(crate) fn at(&self, snap: SnapId) -> Option<usize> {
        let ObjectSnaps { clones, seq } = &self.0;
        let is_head = snap == SnapId::HEAD || snap > *seq;
        clones.iter().position(|clone| match clone.id {
            SnapId::HEAD => is_head,
            _ => clone.snaps.contains(&snap),
        })
    }

    /// The object's size in bytes in the state at this index.
    pub(super) fn size(&self, place: Option<usize>) -> u64 {
        place.and_then(|place| self.0.clones.get(place)).map_or(0, |clone| clone.size)
    }

    /// The ranges of bytes that may differ between two states, the older one first; ascending.
    pub(super) fn between(&self, from: usize, to: usize) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        for (older, newer) in
            (from..to).filter_map(|n| Some((self.0.clones.get(n)?, self.0.clones.get(n + 1)?)))
        {
            all.extend(apart(older, older.size.max(newer.size)));
        }
        joined(all)
    }

    /// Returns for each of the states, oldest first, whether the object exists and differs from the
    /// previous state.
    pub(crate) fn changed_in(&self, states: &[SnapId]) -> Vec<bool> {
        let mut before = None;
        let changed = |state: &SnapId| {
            let now = self.at(*state);
            match (std::mem::replace(&mut before, now), now) {
                (_, None) => false,
                (None, now) => self.size(now) > 0,
                (Some(before), Some(now)) => !self.between(before, now).is_empty(),
            }
        };
        states.iter().map(changed).collect()
    }
}

/// The parts of the first `len` bytes that differ between a clone and the next newer one.
fn apart(clone: &SnapClone, len: u64) -> Vec<Range<u64>> {
    let mut same = clone.overlap.clone();
    same.sort_unstable();
    let (mut at, mut apart) = (0, Vec::new());
    for (from, count) in same {
        if from.min(len) > at {
            apart.push(at..from.min(len));
        }
        at = at.max(from.saturating_add(count));
    }
    if len > at {
        apart.push(at..len);
    }
    apart
}

/// Sorts ranges and merges adjacent and overlapping ones.
pub(super) fn joined(mut all: Vec<Range<u64>>) -> Vec<Range<u64>> {
    all.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(all.len());
    for range in all {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clone(id: SnapId, snaps: &[u64], size: u64, overlap: &[(u64, u64)]) -> SnapClone {
        let snaps = snaps.iter().copied().map(SnapId).collect();
        SnapClone { id, snaps, overlap: overlap.to_vec(), size }
    }

    fn history() -> History {
        let clones = vec![
            clone(SnapId(4), &[3, 4], 100, &[(0, 10), (20, 80)]),
            clone(SnapId(8), &[8], 120, &[(0, 50)]),
            clone(SnapId::HEAD, &[], 60, &[]),
        ];
        History(ObjectSnaps { clones, seq: SnapId(9) })
    }

    #[test]
    fn a_snapshot_is_a_clone_the_object_or_nothing() {
        let places =
            [(2, None), (3, Some(0)), (4, Some(0)), (6, None), (8, Some(1)), (9, None), (10, Some(2))];
        for (snap, place) in places {
            assert_eq!(history().at(SnapId(snap)), place, "{snap}");
        }
        assert_eq!(history().at(SnapId::HEAD), Some(2));
        assert_eq!(History::default().at(SnapId::HEAD), None);
    }

    #[test]
    fn what_differs_is_the_sum_of_the_steps() {
        assert_eq!(history().between(0, 1), [10..20, 100..120]);
        assert_eq!(history().between(1, 2).first(), Some(&(50..120)));
        assert_eq!(history().between(0, 2), [10..20, 50..120]);
        assert!(history().between(1, 1).is_empty());
        let states = [2, 3, 4, 6, 8, 10].map(SnapId);
        assert_eq!(history().changed_in(&states), [false, true, false, false, true, true]);
    }
}
