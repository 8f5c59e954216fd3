//! Ranges of bytes within a block.

/// A range of bytes within a block; empty if the start equals the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: u32, end: u32) -> Self {
        debug_assert!(start <= end, "a range");
        Self { start, end }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(crate) fn len(self) -> u32 {
        self.end - self.start
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Whether the union of the two is one range: they overlap, are adjacent, or one of them is empty.
    pub(crate) fn joins(self, other: Self) -> bool {
        self.is_empty() || other.is_empty() || (self.start <= other.end && other.start <= self.end)
    }

    /// The smallest range that contains both.
    pub(crate) fn hull(self, other: Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => other,
            (_, true) => self,
            _ => Self { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }

    pub(crate) fn indices(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The part of a range of an object that lies in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The block's number within the object.
    pub(crate) block: u32,
    /// The bytes within the block.
    pub(crate) span: Span,
    /// The offset of the part within the range.
    pub(crate) at: usize,
}

impl Part {
    /// The part's place in the range.
    pub(crate) fn indices(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.span.len() as usize
    }
}

/// Splits a range of an object into blocks, in order. The range must end below 2^32 blocks.
pub(crate) fn parts(block_bytes: u32, offset: u64, len: usize) -> impl Iterator<Item = Part> + Clone {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = len - at;
        if rest == 0 {
            return None;
        }
        let from = offset + at as u64;
        let start = (from % u64::from(block_bytes)) as u32;
        let taken = rest.min((block_bytes - start) as usize);
        let block = u32::try_from(from / u64::from(block_bytes)).expect("objects end below 2^32 blocks");
        let part = Part { block, span: Span::new(start, start + taken as u32), at };
        at += taken;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_at_blocks() {
        let found: Vec<Part> = parts(4096, 4000, 4292).collect();
        let part = |block, start, end, at| Part { block, span: Span::new(start, end), at };
        assert_eq!(found, [part(0, 4000, 4096, 0), part(1, 0, 4096, 96), part(2, 0, 100, 4192)]);
        assert_eq!(parts(4096, 8192, 0).count(), 0);
    }

    #[test]
    fn spans_join_where_nothing_lies_between() {
        let (a, b, c) = (Span::new(0, 10), Span::new(10, 20), Span::new(21, 30));
        assert!(a.joins(b) && b.joins(a) && !b.joins(c) && !c.joins(b) && c.joins(Span::default()));
        assert_eq!(a.hull(c), Span::new(0, 30));
        assert_eq!(Span::default().hull(c), c);
        assert!(a.hull(b).contains(Span::new(5, 15)) && !a.contains(b));
    }
}
