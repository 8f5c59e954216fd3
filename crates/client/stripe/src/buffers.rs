//! Data to write: a list of buffers that can be split without copying.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Bytes in one or more buffers, in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub struct Buffers {
    parts: VecDeque<Bytes>,
    len: u64,
}

impl Buffers {
    /// Adds a buffer at the end.
    pub fn push(&mut self, part: Bytes) {
        if !part.is_empty() {
            self.len += part.len() as u64;
            self.parts.push_back(part);
        }
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes and returns the first `len` bytes, or all if there are fewer.
    pub(crate) fn split_to(&mut self, len: u64) -> Self {
        let mut taken = Self::default();
        while taken.len < len {
            let Some(mut part) = self.parts.pop_front() else { break };
            let room = len - taken.len;
            if part.len() as u64 > room {
                // Less than the buffer's length, so it fits a `usize`.
                self.parts.push_front(part.split_off(room as usize));
            }
            self.len -= part.len() as u64;
            taken.push(part);
        }
        taken
    }

    /// The buffers.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = Bytes> {
        self.parts.into_iter()
    }

    /// All bytes in one buffer; copied if there are several buffers.
    pub(crate) fn into_bytes(mut self) -> Bytes {
        if self.parts.len() <= 1 {
            return self.parts.pop_front().unwrap_or_default();
        }
        let mut all = BytesMut::with_capacity(self.len as usize);
        self.parts.iter().for_each(|part| all.extend_from_slice(part));
        all.freeze()
    }

    pub(crate) fn count(&self) -> usize {
        self.parts.len()
    }
}

impl From<Bytes> for Buffers {
    fn from(part: Bytes) -> Self {
        let mut buffers = Self::default();
        buffers.push(part);
        buffers
    }
}

impl From<Vec<u8>> for Buffers {
    fn from(part: Vec<u8>) -> Self {
        Bytes::from(part).into()
    }
}

impl FromIterator<Bytes> for Buffers {
    fn from_iter<I: IntoIterator<Item = Bytes>>(parts: I) -> Self {
        let mut buffers = Self::default();
        parts.into_iter().for_each(|part| buffers.push(part));
        buffers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_cut_where_they_shall_and_not_copied() {
        let whole = Bytes::from_static(b"0123456789");
        let mut buffers: Buffers = [whole.slice(..4), Bytes::new(), whole.slice(4..)].into_iter().collect();
        assert_eq!((buffers.len(), buffers.count()), (10, 2));
        let first = buffers.split_to(6);
        assert_eq!((first.len(), buffers.len()), (6, 4));
        let parts: Vec<Bytes> = first.clone().into_parts().collect();
        assert_eq!(parts, ["0123", "45"]);
        assert_eq!(parts[1].as_ptr(), whole[4..].as_ptr());
        assert_eq!(first.into_bytes(), "012345");
        assert_eq!(buffers.split_to(100).into_bytes(), "6789");
        assert!(buffers.is_empty() && buffers.split_to(1).is_empty());
    }
}
