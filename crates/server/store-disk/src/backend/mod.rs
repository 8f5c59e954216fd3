//! What the disk store stands on: files whose writes are safe after a sync, and an ordered key-value map
//! whose commits are atomic and safe. Real ones are in `files` and `fjall`; tests put simulated ones in their
//! place that fail, tear, lose and reorder.

mod buffer;
mod buffers;
mod closed;
pub(super) mod files;
pub(super) mod fjall;
pub(super) mod ring;
#[cfg(test)]
pub(super) mod sim;

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use bytes::Bytes;

pub(super) use buffer::Buffer;
pub(super) use buffers::Buffers;
pub(super) use closed::Closed;
pub(super) use ring::{Part, Parts, Ring, Wake};

/// What direct I/O is aligned to: offsets, lengths and memory.
pub(super) const ALIGN: usize = 4096;

/// Whether direct I/O takes these bytes as they lie in memory.
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGN) && bytes.len().is_multiple_of(ALIGN)
}

/// The files of a store, by name.
pub(super) trait Backend: Send + Sync + Debug {
    /// Opens a file, and makes it, empty, if it does not exist. Each call gives a handle of its own.
    fn open(&self, name: &'static str) -> io::Result<Arc<dyn BackendFile>>;

    /// Opens the key-value map, and makes it, empty, if it does not exist.
    fn kv(&self) -> io::Result<Arc<dyn Kv>>;

    /// The names of what is there and not empty, the map's (`kv`) included, and that of the lock not.
    fn traces(&self) -> io::Result<Vec<String>>;

    /// Bytes that the files could still grow by.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// One file. Reads and writes are aligned to [`ALIGN`].
pub(super) trait BackendFile: Send + Sync + Debug {
    fn len(&self) -> io::Result<u64>;

    /// Makes the file this long; what is new reads as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Takes room in the file system for this many bytes; the length stays. Where that is not possible
    /// nothing happens.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// What the kernel knows it by, if it is one of the kernel's.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fills the whole buffer, which is aligned as well: all of a [`Buffer`] or whole blocks of it.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes the whole buffer, which is aligned as well; it is safe after the next [`sync`](Self::sync).
    fn write(&self, offset: u64, buffer: &[u8]) -> io::Result<()>;

    /// Writes the whole buffer, which is aligned as well; it is safe when this returns. What others have
    /// written need not be.
    fn write_and_sync(&self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        self.write(offset, buffer)?;
        self.sync()
    }

    /// When this returns, everything written before it was called is safe, through this handle or another
    /// one. After an error nothing is known of any of it, and the next sync of this handle may succeed all
    /// the same; but each other handle that was open is told of it as well.
    fn sync(&self) -> io::Result<()>;

    /// Gives a range back to the file system; it may read as anything until it is written again.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()>;
}

/// An ordered map from byte strings to byte strings.
pub(super) trait Kv: Send + Sync + Debug {
    /// Makes all changes, or none. They are safe when this returns. After an error nothing is known of them.
    fn commit(&self, batch: Batch) -> io::Result<()>;

    /// The map as it is now.
    fn snapshot(&self) -> Arc<dyn Snapshot>;
}

/// The map as it was at one moment.
pub(super) trait Snapshot: Send + Sync {
    fn get(&self, key: &[u8]) -> io::Result<Option<Bytes>>;

    /// Up to `max` keys with their values, in order, from `from` on (inclusive) to before `until`.
    fn range(&self, from: &[u8], until: &[u8], max: usize) -> io::Result<Vec<(Bytes, Bytes)>>;
}

/// Changes of the map: keys with their new values, or none to remove them. A later change of a key wins.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) changes: Vec<(Bytes, Option<Bytes>)>,
}

impl Batch {
    pub(super) fn set(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.changes.push((key.into(), Some(value.into())));
    }

    pub(super) fn remove(&mut self, key: impl Into<Bytes>) {
        self.changes.push((key.into(), None));
    }
}
