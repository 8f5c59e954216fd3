//! Where the bytes of a read go.

use std::sync::Arc;

use bytes::Bytes;

use crate::page::Page;
use crate::span::Part;

/// Where the bytes of a read go: into a buffer, or into a list of pieces that the cache goes on sharing.
///
/// A piece is not copied, and stays as it was when it was read. Its memory, up to a block of the cache, is
/// counted in [`Usage::held`](crate::Usage::held), and not against [`Options::size`](crate::Options::size)
/// once the block has been replaced or evicted: a caller that keeps pieces for long should copy them.
#[derive(Debug)]
pub enum Target<'a> {
    /// A buffer of the length of the range.
    Buffer(&'a mut [u8]),
    /// A list, to which pieces are added, none of them empty, in the order of the range.
    Pieces(&'a mut Vec<Bytes>),
}

impl Target<'_> {
    /// Returns the target of a part of the range. The parts of pieces must be read in order.
    pub fn part(&mut self, range: std::ops::Range<usize>) -> Target<'_> {
        match self {
            Self::Buffer(buf) => Target::Buffer(&mut buf[range]),
            Self::Pieces(pieces) => Target::Pieces(pieces),
        }
    }

    /// The number of pieces so far; 0 for a buffer.
    pub fn pieces(&self) -> usize {
        match self {
            Self::Buffer(_) => 0,
            Self::Pieces(pieces) => pieces.len(),
        }
    }

    /// Takes pieces back, until there are so many: before a range is read once more.
    pub fn back_to(&mut self, count: usize) {
        match self {
            Self::Buffer(_) => {}
            Self::Pieces(pieces) => pieces.truncate(count),
        }
    }

    /// Adds a part of a page.
    pub(crate) fn page(&mut self, part: &Part, page: Arc<Page>) {
        match self {
            Self::Buffer(buf) => {
                buf[part.indices()].copy_from_slice(&page.bytes()[part.span.indices()]);
            }
            Self::Pieces(pieces) => pieces.push(page.share(part.span)),
        }
    }

    /// Adds bytes that `fill` writes: all of them.
    pub(crate) fn filled(&mut self, part: &Part, fill: impl FnOnce(&mut [u8])) {
        match self {
            Self::Buffer(buf) => fill(&mut buf[part.indices()]),
            Self::Pieces(pieces) => {
                let mut data = vec![0; part.span.len() as usize];
                fill(&mut data);
                pieces.push(data.into());
            }
        }
    }
}
