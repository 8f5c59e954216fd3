//! A block's bytes, shared by reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::pieces::Pieces;
use crate::span::Span;

/// The bytes of a block. They can be read without a lock: a page is not changed once it is published.
#[derive(Debug)]
pub(crate) struct Page {
    /// A block's bytes, in an allocation of their own so that its size is a power of two.
    data: Box<[u8]>,
    /// The parts whose bytes are known.
    valid: Pieces,
    held: Arc<AtomicU64>,
}

impl Page {
    /// A page whose part `valid` is `data`.
    pub(crate) fn of_part(block_bytes: u32, valid: Span, data: &[u8], held: &Arc<AtomicU64>) -> Self {
        let whole = if valid.len() == block_bytes {
            data.into()
        } else {
            let mut whole = vec![0; block_bytes as usize];
            whole[valid.indices()].copy_from_slice(data);
            whole.into()
        };
        Self::new(whole, valid.into(), held)
    }

    /// A page that begins with `data`, followed by zeros; all of it is valid.
    pub(crate) fn beginning(block_bytes: u32, data: &[u8], held: &Arc<AtomicU64>) -> Self {
        let whole = if data.len() < block_bytes as usize {
            let mut whole = vec![0; block_bytes as usize];
            whole[..data.len()].copy_from_slice(data);
            whole.into()
        } else {
            data[..block_bytes as usize].into()
        };
        Self::new(whole, Span::new(0, block_bytes).into(), held)
    }

    fn new(data: Box<[u8]>, valid: Pieces, held: &Arc<AtomicU64>) -> Self {
        // Relaxed, here and below: nothing depends on this sum.
        held.fetch_add(data.len() as u64, Ordering::Relaxed);
        Self { data, valid, held: Arc::clone(held) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.data
    }

    pub(crate) fn valid(&self) -> Pieces {
        self.valid
    }

    pub(crate) fn covers(&self, span: Span) -> bool {
        self.valid.contains(span)
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.covers(Span::new(0, self.data.len() as u32))
    }

    /// Returns the page, completed by data from the back end, and by zeros after its end.
    pub(crate) fn completed(&self, loaded: &[u8]) -> Self {
        let mut whole = Self::beginning(self.data.len() as u32, loaded, &self.held);
        whole.lay_over(self);
        whole
    }

    /// Adds valid bytes of another page where this one has none. `valid` are the parts of both.
    pub(crate) fn lay_under(&mut self, older: &Self, valid: Pieces) {
        let own = self.valid;
        for gap in older.valid.iter().flat_map(|piece| own.gaps_in(piece)) {
            self.data[gap.indices()].copy_from_slice(&older.data[gap.indices()]);
        }
        self.valid = valid;
    }

    /// Writes the valid bytes of another page over those of this one, which is whole.
    pub(crate) fn lay_over(&mut self, newer: &Self) {
        for piece in newer.valid.iter() {
            self.data[piece.indices()].copy_from_slice(&newer.data[piece.indices()]);
        }
    }

    /// Copies the valid bytes of a part over data that was read.
    pub(crate) fn show_in(&self, span: Span, read: &mut [u8]) {
        for piece in self.valid.iter() {
            let known = piece.start.max(span.start)..piece.end.min(span.end);
            if known.start < known.end {
                let to = (known.start - span.start) as usize..(known.end - span.start) as usize;
                read[to].copy_from_slice(&self.data[known.start as usize..known.end as usize]);
            }
        }
    }

    /// Returns a part of a page, without a copy: the page exists as long as somebody has it.
    pub(crate) fn share(self: Arc<Self>, span: Span) -> Bytes {
        Bytes::from_owner(Shared { page: self, span })
    }
}

/// A part of a page.
struct Shared {
    page: Arc<Page>,
    span: Span,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.page.data[self.span.indices()]
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        Self::new(self.data.clone(), self.valid, &self.held)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.held.fetch_sub(self.data.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 16;

    fn page(start: u32, end: u32, fill: u8) -> Page {
        Page::of_part(BLOCK, Span::new(start, end), &vec![fill; (end - start) as usize], &Arc::default())
    }

    #[test]
    fn older_bytes_show_only_beside_newer_ones() {
        for (older, newer, expected) in [
            ((0, 16), (4, 6), "1111221111111111"),
            ((0, 4), (4, 6), "1111220000000000"),
            ((6, 9), (4, 6), "0000221110000000"),
            ((5, 6), (4, 9), "0000222220000000"),
            ((0, 3), (8, 9), "1110000020000000"),
            ((0, 16), (0, 16), "2222222222222222"),
        ] {
            let (older, mut newer) = (page(older.0, older.1, b'1'), page(newer.0, newer.1, b'2'));
            let valid = older
                .valid()
                .with(newer.valid().iter().next().expect("a piece"))
                .expect("two pieces at most");
            newer.lay_under(&older, valid);
            let shown: String = newer.bytes().iter().map(|byte| char::from((*byte).max(b'0'))).collect();
            assert_eq!((&*shown, newer.valid()), (expected, valid));
        }
    }

    #[test]
    fn what_is_loaded_shows_beside_what_is_known() {
        let completed = page(4, 6, 2).completed(&[1; 10]);
        assert_eq!(completed.bytes(), [1, 1, 1, 1, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]);
        assert!(completed.covers(Span::new(0, BLOCK)));
    }
}
