//! Buffers kept for reuse.

use std::sync::Arc;

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};

use super::Buffer;

/// Held to take or to return one buffer.
static BUFFERS: Class = Class::new("store.buffers");

/// The maximum bytes of kept buffers: enough for a dozen large reads.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// Used buffers: neither the kernel nor the program has to allocate and clear their pages again.
#[derive(Clone, Debug)]
pub(crate) struct Buffers(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<Buffer>,
    bytes: usize,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(&BUFFERS, Kept::default())))
    }

    /// Returns a buffer of `len` bytes, rounded up, with undefined contents.
    pub(crate) fn take(&self, len: usize) -> Buffer {
        let mut kept = self.0.lock();
        // The newest that is large enough, but not so much larger that a small read would occupy a large
        // read's buffer.
        let fits = |buffer: &Buffer| (len..=len.saturating_mul(2).max(SMALL)).contains(&buffer.capacity());
        let found = kept.buffers.iter().rposition(fits).map(|at| kept.buffers.swap_remove(at));
        if let Some(buffer) = &found {
            kept.bytes -= buffer.capacity();
        }
        drop(kept);
        let mut buffer = found.unwrap_or_default();
        buffer.reset(len);
        buffer
    }

    /// Returns a buffer to the pool.
    pub(crate) fn give_back(&self, buffer: Buffer) {
        let mut kept = self.0.lock();
        if kept.bytes + buffer.capacity() <= KEPT_BYTES_MAX {
            kept.bytes += buffer.capacity();
            kept.buffers.push(buffer);
            return;
        }
        drop(kept);
        drop(buffer);
    }

    /// Returns the contents of a buffer; the buffer returns to the pool when the last reference is dropped.
    pub(crate) fn lend(&self, buffer: Buffer) -> Bytes {
        Bytes::from_owner(Lent { buffer, home: self.clone() })
    }
}

/// Buffers up to this size are interchangeable.
const SMALL: usize = 128 << 10;

struct Lent {
    buffer: Buffer,
    home: Buffers,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_when_nobody_reads_it_any_more() {
        let buffers = Buffers::new();
        let mut buffer = buffers.take(1 << 20);
        buffer[5] = 7;
        let bytes = buffers.lend(buffer);
        let part = bytes.slice(4..6);
        drop(bytes);
        assert_eq!(buffers.0.lock().bytes, 0);
        assert_eq!(part, &[0, 7][..]);
        drop(part);
        assert!(buffers.0.lock().bytes >= 1 << 20);
        assert!(buffers.take(4096).capacity() < 1 << 20, "too large for so little");
        assert_eq!(buffers.take(900 << 10)[5], 7, "the same again");
        assert_eq!(buffers.0.lock().bytes, 0);
        (0..40).for_each(|_| drop(buffers.lend(Buffer::zeroed(1 << 20))));
        let many: Vec<Bytes> = (0..40).map(|_| buffers.lend(Buffer::zeroed(1 << 20))).collect();
        drop(many);
        assert!(buffers.0.lock().bytes <= KEPT_BYTES_MAX);
    }
}
