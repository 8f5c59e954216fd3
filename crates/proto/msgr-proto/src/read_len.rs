//! How much room a receive buffer gets before the socket is read.

use bytes::BytesMut;

use crate::limits::RESERVE_MAX;

/// Bytes reserved for a read of the socket: `READ_LEN_MIN` at first, doubled while reads fill the
/// buffer, up to `READ_LEN_MAX`. A quiet connection, or one that is not open yet, costs 8 KiB; a busy
/// one receives many messages with one read.
const READ_LEN_MIN: usize = 8 << 10;
pub(crate) const READ_LEN_MAX: usize = 256 << 10;

/// The bytes to reserve for the next read of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadLen(usize);

impl ReadLen {
    pub(crate) fn new() -> Self {
        Self(READ_LEN_MIN)
    }

    /// Returns the bytes to reserve in `buf`, or `None` if its room is enough. `missing` bytes of an
    /// incomplete message have not arrived (0: none is incomplete). Of those as many are reserved as have
    /// arrived, or 8 MiB, whichever is more. Reads grow only if `may_grow`.
    pub(crate) fn wanted(&mut self, buf: &BytesMut, missing: usize, may_grow: bool) -> Option<usize> {
        let room = buf.capacity() - buf.len();
        let missing = missing.min(buf.len().max(RESERVE_MAX));
        if missing > READ_LEN_MAX {
            // The received part of a long message is copied into the larger buffer, so the next message's
            // first read is kept small.
            self.0 = READ_LEN_MIN;
        } else if room == 0 && !buf.is_empty() && may_grow {
            self.0 = (2 * self.0).min(READ_LEN_MAX);
        }
        // Little remaining room is not worth a read of its own, unless the missing bytes fit.
        let least = if missing > 0 { missing.min(READ_LEN_MAX) } else { self.0 / 4 };
        (room < least).then(|| missing.max(self.0))
    }
}

/// Bytes of memory that an incomplete message of `whole` bytes uses after the next reservation.
pub(crate) fn begun_len(buffered: usize, whole: usize) -> usize {
    whole.min((2 * buffered).max(RESERVE_MAX)).max(buffered)
}
