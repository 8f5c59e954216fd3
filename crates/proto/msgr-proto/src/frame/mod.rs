//! Frames in format revision 1 (msgr2.1): a preamble, one to four segments, an epilogue.
//!
//! ```text
//! crc mode:     preamble(32) │ segment 0 │ crc(4) │ segment 1 │ segment 2 │ segment 3 │ status(1) crc(4) crc(4) crc(4)
//!                              └─ absent if empty ─┘ └──────────── all absent with a single segment ────────────────┘
//!
//! secure mode:  ╔ preamble(32) │ first 48 bytes of segment 0 ╗ tag(16)
//!               ╔ rest of segment 0 ╗ tag(16)                                   absent if segment 0 fits the 48 bytes
//!               ╔ segment 1 │ segment 2 │ segment 3 │ status(1) zeros(15) ╗ tag(16)       absent with a single segment
//! ```
//!
//! In secure mode each segment is padded with zeros to a multiple of 16 bytes (segment 0 to at least
//! 48), and each part in double bars is one AES-128-GCM message with its own nonce. A checksum is a
//! CRC-32C with the seed −1; the preamble's has the seed 0. The low half byte of the status tells
//! whether the sender completed (14) or aborted (1) the frame.
//!
//! Sources: `doc/dev/msgr2.rst`, `src/msg/async/frames_v2.{h,cc}`, `src/msg/async/crypto_onwire.cc`.

mod header;
mod open;
mod packed;
mod preamble;
mod seal;

pub use open::Frame;
pub(crate) use open::Opener;
pub(crate) use seal::Sealer;
pub(crate) use seal::append;

/// Bytes of a segment checksum.
const CRC_LEN: usize = 4;
/// Bytes of the epilogue in crc mode: the late status and three checksums.
const EPILOGUE_CRC_LEN: usize = 1 + 3 * CRC_LEN;
/// Bytes of segment 0 that are encrypted together with the preamble in secure mode.
const INLINE_LEN: usize = 48;
/// Bytes of the epilogue in secure mode, without its tag.
const EPILOGUE_SECURE_LEN: usize = 16;

/// The bits of the late status that tell how the frame ended.
const STATUS_MASK: u8 = 0x0f;
const STATUS_ABORTED: u8 = 0x01;
const STATUS_COMPLETE: u8 = 0x0e;

/// The padded length of a segment in secure mode.
fn padded(len: usize) -> usize {
    len.next_multiple_of(16)
}
