//! Aligned memory for direct I/O.

use std::ops::{Deref, DerefMut};

use super::ALIGN;

/// Memory for direct I/O: aligned, and a multiple of [`ALIGN`] long.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// Creates a buffer of zeros, of `len` bytes rounded up.
    pub(crate) fn zeroed(len: usize) -> Self {
        let mut buffer = Self::default();
        buffer.reset(len);
        buffer
    }

    /// Makes the buffer `len` bytes long, rounded up. The contents are undefined, except that a fresh
    /// allocation is zeroed.
    pub(crate) fn reset(&mut self, len: usize) {
        let len = len.next_multiple_of(ALIGN);
        if self.memory.len() < len + ALIGN {
            self.memory = vec![0; len + ALIGN];
            self.start = self.memory.as_ptr().align_offset(ALIGN);
        }
        self.len = len;
    }

    /// The length it can have without a new allocation.
    pub(crate) fn capacity(&self) -> usize {
        self.memory.len().saturating_sub(ALIGN)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}
