//! The wrapper around full maps and incrementals: a versioned struct with a checksum of all its bytes but its
//! own four.

use bytes::Bytes;
use loligo_wire::crc::crc32c;
use loligo_wire::{DecodeError, Reader, Writer};

const VERSION: u8 = 8;
const COMPAT: u8 = 7;
/// Version, compat and length.
const ENVELOPE_LEN: usize = 6;

/// Writes the wrapper: what `front` writes, the checksum, what `tail` writes. Returns the bytes and the
/// checksum.
pub(super) fn seal(front: impl FnOnce(&mut Writer), tail: impl FnOnce(&mut Writer)) -> (Bytes, u32) {
    let mut w = Writer::new();
    let mut crc_at = 0;
    w.versioned(VERSION, COMPAT, |w| {
        front(w);
        crc_at = w.len();
        w.u32(0);
        tail(w);
    });
    // Only now are the lengths in the envelope final.
    let crc = crc_without(w.as_slice(), crc_at);
    w.patch_u32(crc_at, crc);
    (w.into_bytes(), crc)
}

/// Opens a wrapper that starts `bytes`; what follows it is ignored.
///
/// `front` reads what stands before the checksum. Returns what it made of it, the checksum, and a reader of
/// what stands behind.
pub(super) fn open<'a, T>(
    what: &'static str,
    bytes: &'a [u8],
    front: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<(T, u32, Reader<'a>), DecodeError> {
    let mut r = Reader::new(bytes);
    let (version, compat) = (r.u8()?, r.u8()?);
    if compat > VERSION {
        return Err(DecodeError::TooNew { what, compat, supported: VERSION });
    }
    if version < VERSION {
        return Err(DecodeError::TooOld { what, version, oldest: VERSION });
    }
    let mut r = r.sized()?;
    let end = ENVELOPE_LEN + r.remaining();
    let value = front(&mut r)?;
    let crc_at = end - r.remaining();
    let expected = r.u32()?;
    let actual = crc_without(&bytes[..end], crc_at);
    if actual != expected {
        return Err(DecodeError::Crc { what, expected, actual });
    }
    Ok((value, expected, r))
}

/// The checksum of all of `bytes` but the four at `at`, which were written or read before.
fn crc_without(bytes: &[u8], at: usize) -> u32 {
    crc32c(crc32c(u32::MAX, &bytes[..at]), &bytes[at + 4..])
}
