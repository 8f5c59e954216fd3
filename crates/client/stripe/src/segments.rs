//! The result of a read: bytes and holes, as received from the objects, without copies.

use bytes::{Bytes, BytesMut};

/// A range of a file that was read, as adjacent parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    offset: u64,
    parts: Vec<Segment>,
}

/// A part of a range that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes that an object holds.
    Data(Bytes),
    /// A number of bytes that no object holds. They read as zeros.
    Hole(u64),
}

impl Segment {
    /// The number of bytes, at least one.
    pub fn len(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Hole(len) => *len,
        }
    }

    /// Always false: an empty read has no segments.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Segments {
    /// An empty read at `offset`.
    pub(crate) fn empty(offset: u64) -> Self {
        Self { offset, parts: Vec::new() }
    }

    /// Sorts data found at these offsets, and fills the gaps up to `end` with holes. The data must be
    /// within the range and must not overlap.
    pub(crate) fn assemble(offset: u64, end: u64, mut found: Vec<(u64, Bytes)>) -> Self {
        found.sort_unstable_by_key(|(at, _)| *at);
        let mut segments = Self::empty(offset);
        let mut at = offset;
        for (begins, data) in found.into_iter().filter(|(_, data)| !data.is_empty()) {
            segments.hole(begins - at);
            at = begins + data.len() as u64;
            segments.parts.push(Segment::Data(data));
        }
        segments.hole(end - at);
        segments
    }

    fn hole(&mut self, len: u64) {
        if len > 0 {
            self.parts.push(Segment::Hole(len));
        }
    }

    /// The offset in the file of the first byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of bytes, including those of holes.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(Segment::len).sum()
    }

    /// Whether nothing was read, because the file ends before the range.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Segment] {
        &self.parts
    }

    /// The part of the range that lies before offset `end` of the file.
    pub(crate) fn before(mut self, end: u64) -> Self {
        let mut room = end.saturating_sub(self.offset);
        self.parts.retain_mut(|part| {
            let len = part.len().min(room);
            match part {
                Segment::Data(data) => data.truncate(len as usize),
                Segment::Hole(hole) => *hole = len,
            }
            room -= len;
            len > 0
        });
        self
    }

    /// All bytes in one buffer, with holes as zeros. Copied unless there is only one segment, of data.
    pub fn into_bytes(mut self) -> Bytes {
        if let [Segment::Data(_)] = self.parts.as_slice()
            && let Some(Segment::Data(data)) = self.parts.pop()
        {
            return data;
        }
        let mut all = BytesMut::with_capacity(self.len() as usize);
        for part in &self.parts {
            match part {
                Segment::Data(data) => all.extend_from_slice(data),
                Segment::Hole(len) => all.resize(all.len() + *len as usize, 0),
            }
        }
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Segments {
        let found =
            vec![(20, Bytes::from_static(b"cd")), (12, Bytes::from_static(b"ab")), (15, Bytes::new())];
        Segments::assemble(10, 25, found)
    }

    #[test]
    fn holes_are_between_and_around_the_data() {
        use Segment::*;
        let data = |text: &'static str| Data(text.into());
        assert_eq!(some().parts(), [Hole(2), data("ab"), Hole(6), data("cd"), Hole(3)]);
        assert_eq!((some().offset(), some().len()), (10, 15));
        assert_eq!(some().into_bytes(), &b"\0\0ab\0\0\0\0\0\0cd\0\0\0"[..]);
        assert_eq!(some().before(13).parts(), [Hole(2), data("a")]);
        assert!(some().before(10).is_empty() && Segments::assemble(7, 7, Vec::new()).is_empty());
    }

    #[test]
    fn one_piece_is_not_copied() {
        let data = Bytes::from(vec![7; 100]);
        let all = Segments::assemble(0, 100, vec![(0, data.clone())]).into_bytes();
        assert_eq!(all.as_ptr(), data.as_ptr());
    }
}
