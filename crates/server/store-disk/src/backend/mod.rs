//! The storage under the disk store: files whose writes are safe after a sync, and an ordered key-value
//! map whose commits are atomic and safe. The real ones are in `files` and `fjall`. Tests use simulated
//! ones that fail, tear, lose and reorder writes.

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

/// The alignment for direct I/O: of offsets, lengths and memory.
pub(super) const ALIGN: usize = 4096;

/// Whether direct I/O accepts these bytes without a copy.
pub(super) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(ALIGN) && bytes.len().is_multiple_of(ALIGN)
}

/// The files of a store, by name.
pub(super) trait Backend: Send + Sync + Debug {
    /// Opens a file, and creates it, empty, if it does not exist. Each call returns a separate handle.
    fn open(&self, name: &'static str) -> io::Result<Arc<dyn BackendFile>>;

    /// Opens the key-value map, and creates it, empty, if it does not exist.
    fn kv(&self) -> io::Result<Arc<dyn Kv>>;

    /// Returns the names of the files that exist and are not empty, including the map (`kv`) and excluding
    /// the lock.
    fn traces(&self) -> io::Result<Vec<String>>;

    /// Bytes by which the files could still grow.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// One file. Reads and writes are aligned to [`ALIGN`].
pub(super) trait BackendFile: Send + Sync + Debug {
    fn len(&self) -> io::Result<u64>;

    /// Sets the length of the file; added bytes read as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space in the file system for this many bytes; the length stays. Does nothing where that is
    /// not supported.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// Returns the file descriptor, if it is a file of the kernel.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Fills the whole buffer, which is aligned as well: a whole [`Buffer`] or whole blocks of it.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Writes the whole buffer, which is aligned as well; it is safe after the next [`sync`](Self::sync).
    fn write(&self, offset: u64, buffer: &[u8]) -> io::Result<()>;

    /// Writes the whole buffer, which is aligned as well; it is safe when this returns. Other writes need
    /// not be.
    fn write_and_sync(&self, offset: u64, buffer: &[u8]) -> io::Result<()> {
        self.write(offset, buffer)?;
        self.sync()
    }

    /// Makes everything safe that was written before the call, through this handle or another one. After an
    /// error the state of all those writes is unknown, and the next sync of this handle may succeed
    /// nevertheless. Each other handle that was open also reports the error once.
    fn sync(&self) -> io::Result<()>;

    /// Returns a range to the file system; its contents are undefined until it is written again.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()>;
}

/// An ordered map from byte strings to byte strings.
pub(super) trait Kv: Send + Sync + Debug {
    /// Applies all changes or none. They are safe when this returns. After an error their state is unknown.
    fn commit(&self, batch: Batch) -> io::Result<()>;

    /// Returns the current state of the map.
    fn snapshot(&self) -> Arc<dyn Snapshot>;
}

/// The map at one moment.
pub(super) trait Snapshot: Send + Sync {
    fn get(&self, key: &[u8]) -> io::Result<Option<Bytes>>;

    /// Returns up to `max` keys with their values, in order, from `from` (inclusive) to `until` (exclusive).
    fn range(&self, from: &[u8], until: &[u8], max: usize) -> io::Result<Vec<(Bytes, Bytes)>>;
}

/// Changes of the map: keys with their new values, or `None` to remove them. A later change of a key wins.
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
