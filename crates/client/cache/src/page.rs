//! A block's bytes, shared by reference.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::pieces::Pieces;
use crate::span::Span;

/// The bytes of a block. They can be read without a lock: a page is not changed once it is published.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    data: Data,
    /// The parts whose bytes are known.
    valid: Pieces,
}

#[derive(Clone, Debug)]
enum Data {
    /// A block's bytes, in an allocation of their own so that its size is a power of two.
    Own(Own),
    /// A part of what was read or written at once ([`Run`]): it was not copied.
    Part(Bytes),
}

/// Memory of its own that is counted.
#[derive(Debug)]
struct Own {
    data: Box<[u8]>,
    held: Arc<AtomicU64>,
}

/// Pages are parts of a run of so many bytes, and copies of a shorter one: that may be itself a small part of
/// what the network brought at once, all of which it would keep.
pub(crate) const RUN_MIN: usize = 512 << 10;

/// Bytes that were read or written at once. They are there, and counted, as long as a page is a part of them.
pub(crate) struct Run {
    data: Bytes,
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
        Self::new(Own::new(whole, held), valid.into())
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
        Self::new(Own::new(whole, held), Span::new(0, block_bytes).into())
    }

    /// A page of a whole block that is a part of a [`Run`]; `None` if the run is too short to be kept.
    pub(crate) fn part(run: &Bytes, block: &[u8]) -> Option<Self> {
        let valid = Span::new(0, block.len() as u32).into();
        (run.len() >= RUN_MIN).then(|| Self { data: Data::Part(run.slice_ref(block)), valid })
    }

    fn new(data: Own, valid: Pieces) -> Self {
        Self { data: Data::Own(data), valid }
    }

    /// Returns the page in memory of its own, if it is a part of a run: a page that stays must not keep all
    /// of that.
    pub(crate) fn moved_out(&self, held: &Arc<AtomicU64>) -> Option<Self> {
        match &self.data {
            Data::Own(_) => None,
            Data::Part(data) => Some(Self::new(Own::new(data[..].into(), held), self.valid)),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Own(own) => &own.data,
            Data::Part(data) => data,
        }
    }

    pub(crate) fn valid(&self) -> Pieces {
        self.valid
    }

    pub(crate) fn covers(&self, span: Span) -> bool {
        self.valid.contains(span)
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.covers(Span::new(0, self.bytes().len() as u32))
    }

    /// Returns the page, completed by data from the back end, and by zeros after its end.
    pub(crate) fn completed(&self, loaded: &[u8]) -> Self {
        match &self.data {
            Data::Own(own) => {
                let mut whole = Self::beginning(own.data.len() as u32, loaded, &own.held);
                whole.lay_over(self);
                whole
            }
            // Such a page is whole.
            Data::Part(_) => self.clone(),
        }
    }

    /// Adds valid bytes of another page where this one has none. `valid` are the parts of both.
    pub(crate) fn lay_under(&mut self, older: &Self, valid: Pieces) {
        if let Data::Own(Own { data, .. }) = &mut self.data {
            for gap in older.valid.iter().flat_map(|piece| self.valid.gaps_in(piece)) {
                data[gap.indices()].copy_from_slice(&older.bytes()[gap.indices()]);
            }
        }
        self.valid = valid;
    }

    /// Writes the valid bytes of another page over those of this one, which is whole.
    fn lay_over(&mut self, newer: &Self) {
        if let Data::Own(Own { data, .. }) = &mut self.data {
            for piece in newer.valid.iter() {
                data[piece.indices()].copy_from_slice(&newer.bytes()[piece.indices()]);
            }
        }
    }

    /// Copies the valid bytes of a part over data that was read.
    pub(crate) fn show_in(&self, span: Span, read: &mut [u8]) {
        for piece in self.valid.iter() {
            let known = piece.start.max(span.start)..piece.end.min(span.end);
            if known.start < known.end {
                let to = (known.start - span.start) as usize..(known.end - span.start) as usize;
                read[to].copy_from_slice(&self.bytes()[known.start as usize..known.end as usize]);
            }
        }
    }

    /// Returns a part of a page, without a copy: the page exists as long as somebody has it.
    pub(crate) fn share(self: Arc<Self>, span: Span) -> Bytes {
        match &self.data {
            Data::Own(_) => Bytes::from_owner(Shared { page: self, span }),
            Data::Part(data) => data.slice(span.indices()),
        }
    }
}

impl Own {
    fn new(data: Box<[u8]>, held: &Arc<AtomicU64>) -> Self {
        // Relaxed, here and below: nothing depends on this sum.
        held.fetch_add(data.len() as u64, Ordering::Relaxed);
        Self { data, held: Arc::clone(held) }
    }
}

impl Clone for Own {
    fn clone(&self) -> Self {
        Self::new(self.data.clone(), &self.held)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.held.fetch_sub(self.data.len() as u64, Ordering::Relaxed);
    }
}

impl Run {
    /// Returns the bytes, counted if pages may be parts of them.
    pub(crate) fn counted(data: Bytes, held: &Arc<AtomicU64>) -> Bytes {
        if data.len() < RUN_MIN {
            return data;
        }
        held.fetch_add(data.len() as u64, Ordering::Relaxed);
        Bytes::from_owner(Self { data, held: Arc::clone(held) })
    }
}

impl AsRef<[u8]> for Run {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.held.fetch_sub(self.data.len() as u64, Ordering::Relaxed);
    }
}

/// A part of a page.
struct Shared {
    page: Arc<Page>,
    span: Span,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.page.bytes()[self.span.indices()]
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
