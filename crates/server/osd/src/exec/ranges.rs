//! Sets of byte ranges of an object.

use loligo_wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Ordered ranges of bytes that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// Start and end.
    parts: Vec<(u64, u64)>,
}

impl Ranges {
    /// The first `len` bytes.
    pub(crate) fn first(len: u64) -> Self {
        let mut all = Self::default();
        all.insert(0, len);
        all
    }

    /// Offsets and lengths.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (u64, u64)> {
        self.parts.iter().map(|(start, end)| (*start, end - start))
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut start, mut end) = (start, start.saturating_add(len));
        let first = self.parts.partition_point(|(_, e)| *e < start);
        let count = self.parts[first..].partition_point(|(s, _)| *s <= end);
        if let Some(((s, _), (_, e))) =
            self.parts[first..first + count].first().zip(self.parts[first..first + count].last())
        {
            (start, end) = (start.min(*s), end.max(*e));
        }
        self.parts.splice(first..first + count, [(start, end)]);
    }

    /// Removes all bytes of `other`.
    pub(crate) fn subtract(&mut self, other: &Self) {
        let mut left = Vec::with_capacity(self.parts.len());
        let mut holes = other.parts.iter().copied().peekable();
        for (mut start, end) in self.parts.drain(..) {
            while holes.next_if(|(_, e)| *e <= start).is_some() {}
            // A hole may reach into the next part, so it is only peeked at.
            let mut ahead = holes.clone();
            while let Some((s, e)) = ahead.next_if(|(s, _)| *s < end) {
                if s > start {
                    left.push((start, s));
                }
                start = start.max(e);
            }
            if start < end {
                left.push((start, end));
            }
        }
        self.parts = left;
    }

    /// Keeps only bytes that are also in `other`.
    pub(crate) fn intersect(&mut self, other: &Self) {
        let mut rest = self.clone();
        rest.subtract(other);
        self.subtract(&rest);
    }

    /// Drops all but the first `max` parts.
    pub(crate) fn cut(&mut self, max: usize) {
        self.parts.truncate(max);
    }
}

/// Ranges in the order in which operations touch them. Adding one has constant cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    /// Start and end, in no order.
    parts: Vec<(u64, u64)>,
}

impl Touched {
    /// Adds a range.
    pub(crate) fn insert(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let end = start.saturating_add(len);
        match self.parts.last_mut() {
            Some((first, last)) if start <= *last && *first <= end => {
                (*first, *last) = ((*first).min(start), (*last).max(end));
            }
            _ => self.parts.push((start, end)),
        }
    }

    /// Joins them into an ordered set.
    pub(crate) fn joined(mut self) -> Ranges {
        self.parts.sort_unstable();
        let mut parts: Vec<(u64, u64)> = Vec::with_capacity(self.parts.len());
        for (start, end) in self.parts {
            match parts.last_mut() {
                Some((_, last)) if start <= *last => *last = (*last).max(end),
                _ => parts.push((start, end)),
            }
        }
        Ranges { parts }
    }
}

impl Encode for Ranges {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.iter().collect::<Vec<_>>());
    }
}

impl Decode for Ranges {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let parts: Vec<(u64, u64)> = r.get()?;
        Ok(Self { parts: parts.into_iter().map(|(start, len)| (start, start.saturating_add(len))).collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_sets_of_bytes(steps in prop::collection::vec((0..3u8, prop::collection::vec((0..40u64, 0..9u64), 0..5)), 0..20)) {
            let (mut ranges, mut oracle) = (Ranges::default(), BTreeSet::new());
            for (what, parts) in steps {
                let mut other = Ranges::default();
                parts.iter().for_each(|(start, len)| other.insert(*start, *len));
                let bytes: BTreeSet<u64> = parts.iter().flat_map(|(start, len)| *start..start + len).collect();
                let mut touched = Touched::default();
                parts.iter().for_each(|(start, len)| touched.insert(*start, *len));
                prop_assert_eq!(&touched.joined(), &other);
                match what {
                    0 => other.iter().for_each(|(start, len)| ranges.insert(start, len)),
                    1 => ranges.subtract(&other),
                    _ => ranges.intersect(&other),
                }
                match what {
                    0 => oracle.extend(bytes),
                    1 => oracle.retain(|b| !bytes.contains(b)),
                    _ => oracle.retain(|b| bytes.contains(b)),
                }
                let all: BTreeSet<u64> = ranges.iter().flat_map(|(start, len)| start..start + len).collect();
                prop_assert_eq!(&all, &oracle);
                prop_assert!(ranges.parts.windows(2).all(|w| w[0].1 < w[1].0));
                prop_assert_eq!(Ranges::from_bytes(&ranges.to_bytes()), Ok(ranges.clone()));
            }
        }
    }
}
