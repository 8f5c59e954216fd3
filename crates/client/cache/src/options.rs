//! Settings of a cache: sizes, bounds and their defaults.

use std::time::Duration;

/// Bytes of a block at least and at most.
const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 4096..=65536;
/// Blocks that there is room for at least.
const BLOCKS_MIN: u64 = 256;

/// When a write has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// When it is in the cache. It is written back some time later, or when it is flushed.
    WriteBack,
    /// When the back end has it.
    WriteThrough,
}

/// What may be chosen of a cache.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of memory in all, with what it takes to find and to write back what is cached.
    pub size: u64,
    /// Bytes of a block, a power of two from 4 to 64 KiB.
    pub block_bytes: u32,
    /// When a write has ended.
    pub mode: Mode,
    /// Bytes that may be changed and not written back yet, in blocks; who writes more waits. At most half of
    /// `size`.
    pub dirty_max: u64,
    /// How long what was changed stays unless there is much of it.
    pub dirty_time: Duration,
    /// Bytes that are read ahead of a stream at a time at most; a 32nd of `size` at most.
    pub read_ahead_max: u64,
}

/// 64 MiB in blocks of 4 KiB; half of it may be dirty, for a second; 2 MiB are read ahead.
impl Default for Options {
    fn default() -> Self {
        Self::of_size(64 << 20)
    }
}

impl Options {
    /// The default ones for this many bytes of memory.
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

    /// The same, within what is possible.
    pub(crate) fn checked(self) -> Self {
        let block_bytes =
            self.block_bytes.next_power_of_two().clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
        let block = u64::from(block_bytes);
        let size = self.size.max(BLOCKS_MIN * block);
        let dirty_max = self.dirty_max.clamp(BLOCKS_MIN / 4 * block, size / 2);
        let read_ahead_max = self.read_ahead_max.min(size / 32);
        Self { size, block_bytes, dirty_max, read_ahead_max, ..self }
    }

    /// Bytes that may be on their way to the back end, copied, or be read ahead: a part of `size`.
    pub(crate) fn transit(&self) -> u64 {
        self.size / 16
    }
}
