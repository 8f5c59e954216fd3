//! Options of a cache: sizes, bounds and their defaults.

use std::time::Duration;

/// The allowed sizes of a block in bytes.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 4096..=65536;
/// The minimum capacity in blocks.
const BLOCKS_MIN: u64 = 256;

/// When a write completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When the data is in the cache. It is written back later, or by a flush.
    WriteBack,
    /// When the back end has the data.
    WriteThrough,
}

/// The options of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Total memory in bytes, including the bookkeeping for cached blocks and their write-back.
    pub size: u64,
    /// Bytes of a block, a power of two from 4 to 64 KiB.
    pub block_bytes: u32,
    /// When a write completes.
    pub mode: Mode,
    /// The most bytes, in whole blocks, that may be dirty; further writes wait. At most half of `size`.
    pub dirty_max: u64,
    /// How long dirty data stays in the cache, unless there is much of it.
    pub dirty_time: Duration,
    /// The most bytes that are read ahead of a stream at a time; at most 1/32 of `size`.
    pub read_ahead_max: u64,
}

/// 64 MiB in blocks of 4 KiB; half of it may be dirty, for one second; 2 MiB are read ahead.
impl Default for Options {
    fn default() -> Self {
        Self::of_size(64 << 20)
    }
}

impl Options {
    /// The default options for this many bytes of memory.
    pub fn of_size(size: u64) -> Self {
        Self {
            size,
            block_bytes: 4096,
            mode: Mode::WriteBack,
            dirty_max: size / 2,
            dirty_time: Duration::from_secs(1),
            read_ahead_max: 2 << 20,
        }
    }

    /// The options, moved into their bounds.
    pub(crate) fn checked(self) -> Self {
        let block_bytes =
            self.block_bytes.next_power_of_two().clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        let block = u64::from(block_bytes);
        let size = self.size.max(BLOCKS_MIN * block);
        let dirty_max = self.dirty_max.clamp(BLOCKS_MIN / 4 * block, size / 2);
        let read_ahead_max = self.read_ahead_max.min(size / 32);
        Self { size, block_bytes, dirty_max, read_ahead_max, ..self }
    }

    /// The part of `size` for bytes that are copied for write-back or being read. With 200 MiB six requests
    /// of 4 MiB are in progress at a time.
    pub(crate) fn transit(&self) -> u64 {
        self.size / 8
    }
}
