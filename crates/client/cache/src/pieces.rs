//! Some ranges of bytes within a block.

use smallvec::SmallVec;

use crate::span::Span;

/// The most ranges that are told apart in a block.
const PIECES_MAX: usize = 4;

/// Up to [`PIECES_MAX`] ranges of bytes within a block, in ascending order. Bytes lie between them: they
/// neither overlap nor adjoin. Small, since each block has three: a block has at most 2^16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The first and the last byte of each; those that are not used are 0.
    ends: [(u16, u16); PIECES_MAX],
    len: u8,
}

/// Ranges, and room for one too many.
type Spans = SmallVec<[Span; PIECES_MAX + 1]>;

impl Pieces {
    pub(crate) const EMPTY: Self = Self { ends: [(0, 0); PIECES_MAX], len: 0 };

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Span> + ExactSizeIterator {
        let span = |(first, last): &(u16, u16)| Span::new((*first).into(), u32::from(*last) + 1);
        self.ends[..usize::from(self.len)].iter().map(span)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether all bytes of a range are in one of the pieces.
    pub(crate) fn contains(&self, span: Span) -> bool {
        self.iter().any(|piece| piece.contains(span))
    }

    /// Returns the union with a range; `None` if it has too many pieces.
    pub(crate) fn with(&self, span: Span) -> Option<Self> {
        self.simply_with(span).or_else(|| Self::of(&self.joined(span)))
    }

    /// Returns the union with a range. If it has too many pieces, the bytes between two of them are added
    /// that lie within one piece of `known`: the fewest. Each piece, and the range, must lie within one.
    pub(crate) fn with_known(&self, span: Span, known: &Self) -> Self {
        if let Some(simple) = self.simply_with(span) {
            return simple;
        }
        let mut all = self.joined(span);
        loop {
            if let Some(pieces) = Self::of(&all) {
                return pieces;
            }
            let gap = |at: &usize| {
                let (one, next) = (all[*at], all[at + 1]);
                (!known.contains(one.hull(next)), next.start - one.end)
            };
            let at = (0..all.len() - 1).min_by_key(gap).unwrap_or(0);
            all[at + 1] = all[at].hull(all[at + 1]);
            all.remove(at);
        }
    }

    /// As [`Pieces::with_known`], for several ranges.
    pub(crate) fn with_all_known(&self, other: &Self, known: &Self) -> Self {
        other.iter().fold(*self, |all, span| all.with_known(span, known))
    }

    /// Returns the parts of a range that are in no piece.
    pub(crate) fn gaps_in(&self, span: Span) -> impl Iterator<Item = Span> {
        let ends = self.iter().chain([Span::new(span.end, span.end)]);
        let mut at = span.start;
        ends.filter_map(move |piece| {
            let gap = Span { start: at, end: piece.start.min(span.end) };
            at = at.max(piece.end);
            (gap.start < gap.end).then_some(gap)
        })
    }

    /// Returns the union with a range, if it is plain to see: most blocks have one piece.
    fn simply_with(&self, span: Span) -> Option<Self> {
        match self.iter().next() {
            None => Some(span.into()),
            Some(only) => (self.len == 1 && only.joins(span)).then(|| only.hull(span).into()),
        }
    }

    /// Returns the union with a range, which may have one piece too many.
    fn joined(&self, span: Span) -> Spans {
        let joins = |piece: &Span| !span.is_empty() && piece.joins(span);
        let whole = self.iter().filter(joins).fold(span, Span::hull);
        let mut all: Spans = self.iter().filter(|piece| !joins(piece)).collect();
        if !whole.is_empty() {
            all.insert(all.partition_point(|piece| piece.start < whole.start), whole);
        }
        all
    }

    fn of(all: &[Span]) -> Option<Self> {
        let mut pieces = Self::EMPTY;
        for (ends, span) in pieces.ends.get_mut(..all.len())?.iter_mut().zip(all) {
            *ends = (span.start as u16, (span.end - 1) as u16);
        }
        pieces.len = all.len() as u8;
        Some(pieces)
    }
}

impl From<Span> for Pieces {
    fn from(span: Span) -> Self {
        let mut pieces = Self::EMPTY;
        if !span.is_empty() {
            pieces.ends[0] = (span.start as u16, (span.end - 1) as u16);
            pieces.len = 1;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const BLOCK: u32 = 40;

    fn span() -> impl Strategy<Value = Span> {
        (0..BLOCK, 1..8u32).prop_map(|(start, len)| Span::new(start, (start + len).min(BLOCK)))
    }

    fn bytes(pieces: &Pieces) -> BTreeSet<u32> {
        pieces.iter().flat_map(|piece| piece.start..piece.end).collect()
    }

    fn is_ordered(pieces: &Pieces) -> bool {
        pieces.iter().is_sorted_by(|one, next| one.end < next.start)
            && pieces.ends[usize::from(pieces.len)..].iter().all(|ends| *ends == (0, 0))
    }

    proptest! {
        #[test]
        fn they_are_a_set_of_bytes(spans in vec(span(), 1..30)) {
            let (mut pieces, mut model) = (Pieces::EMPTY, BTreeSet::new());
            for span in spans {
                let with: BTreeSet<u32> = model.iter().copied().chain(span.start..span.end).collect();
                let runs = with.iter().filter(|byte| !with.contains(&(*byte + 1))).count();
                let next = pieces.with(span);
                prop_assert_eq!(next.is_some(), runs <= PIECES_MAX);
                let Some(next) = next else { continue };
                prop_assert!(is_ordered(&next));
                prop_assert_eq!(&bytes(&next), &with);
                prop_assert_eq!(pieces.contains(span), span.indices().all(|b| model.contains(&(b as u32))));
                let gaps: BTreeSet<u32> =
                    pieces.gaps_in(span).flat_map(|gap| gap.start..gap.end).collect();
                let missing: BTreeSet<u32> =
                    (span.start..span.end).filter(|byte| !model.contains(byte)).collect();
                prop_assert_eq!(gaps, missing);
                (pieces, model) = (next, with);
            }
        }

        #[test]
        fn too_many_dirty_pieces_grow_by_known_bytes_alone(
            known in vec(span(), 1..PIECES_MAX),
            writes in vec((0..BLOCK, 1..4u32), 1..30),
        ) {
            let known = known.into_iter().fold(Pieces::EMPTY, |all, span| all.with_known(span, &all));
            let mut dirty = Pieces::EMPTY;
            let mut written = BTreeSet::new();
            for (start, len) in writes {
                let span = Span::new(start, (start + len).min(BLOCK));
                if known.contains(span) {
                    dirty = dirty.with_known(span, &known);
                    written.extend(span.start..span.end);
                }
            }
            prop_assert!(is_ordered(&dirty));
            prop_assert!(bytes(&dirty).is_superset(&written) && bytes(&known).is_superset(&bytes(&dirty)));
            prop_assert_eq!(Pieces::EMPTY.with_all_known(&dirty, &known), dirty);
        }
    }

    #[test]
    fn the_narrowest_gap_is_closed() {
        let pieces = [(0, 1), (10, 11), (13, 14), (30, 31)];
        let pieces = pieces.iter().fold(Pieces::EMPTY, |all, (start, end)| {
            all.with(Span::new(*start, *end)).expect("four at most")
        });
        assert_eq!(pieces.with(Span::new(20, 21)), None);
        let known = Pieces::from(Span::new(0, BLOCK));
        let closed = pieces.with_known(Span::new(20, 21), &known);
        let expected = [(0, 1), (10, 14), (20, 21), (30, 31)].map(|(start, end)| Span::new(start, end));
        assert!(closed.iter().eq(expected));
    }

    #[test]
    fn the_last_byte_of_the_largest_block_counts() {
        let whole = Span::new(0, 1 << 16);
        assert!(Pieces::from(whole).iter().eq([whole]));
        let last = Pieces::from(Span::new(65535, 65536));
        assert!(last.gaps_in(whole).eq([Span::new(0, 65535)]));
    }
}
