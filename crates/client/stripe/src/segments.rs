//! What was read: bytes and holes, as they came from the objects, without copies.

use bytes::{Bytes, BytesMut};

/// A range of a file as it was read: parts that adjoin each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    offset: u64,
    parts: Vec<Segment>,
}

/// A part of what was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Bytes that lie in an object.
    Data(Bytes),
    /// So many zeros that lie in none.
    Hole(u64),
}

impl Segment {
    /// Bytes, at least one.
    pub fn len(&self) -> u64 {
        match self {
            Self::Data(data) => data.len() as u64,
            Self::Hole(len) => *len,
        }
    }

    /// Never: who reads nothing gets no segment.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Segments {
    /// Nothing, read at `offset`.
    pub(crate) fn empty(offset: u64) -> Self {
        Self { offset, parts: Vec::new() }
    }

    /// Puts data that was found at these offsets in place, and holes up to `end` between. The data must be
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

    /// Where in the file it begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes, those of holes included.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(Segment::len).sum()
    }

    /// Whether nothing was read: the file ends before.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The parts, in order.
    pub fn parts(&self) -> &[Segment] {
        &self.parts
    }

    /// What lies before a byte of the file.
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

    /// All of it in one piece, holes as zeros; copied unless it is one piece anyway.
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
