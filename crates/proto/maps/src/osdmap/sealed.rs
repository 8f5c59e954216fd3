//! The wrapper around full maps and incrementals: a versioned struct with a checksum of all its bytes
//! except the four of the checksum.

use bytes::Bytes;
use loligo_wire::crc::crc32c;
use loligo_wire::{DecodeError, Reader, Writer};

const VERSION: u8 = 8;
const COMPAT: u8 = 7;
/// Version, compat and length.
const ENVELOPE_LEN: usize = 6;

/// Encodes the wrapper: the output of `front`, the checksum, and the output of `tail`. Returns the bytes
/// and the checksum.
pub(super) fn seal(front: impl FnOnce(&mut Writer), tail: impl FnOnce(&mut Writer)) -> (Bytes, u32) {
    let mut w = Writer::new();
    let mut crc_at = 0;
    w.versioned(VERSION, COMPAT, |w| {
        front(w);
        crc_at = w.len();
        w.u32(0);
        tail(w);
    });
    // The envelope's lengths, which the checksum covers, are final only now.
    let crc = crc_without(w.as_slice(), crc_at);
    w.patch_u32(crc_at, crc);
    (w.into_bytes(), crc)
}

/// Decodes a wrapper at the start of `bytes`; bytes after it are ignored.
///
/// `front` decodes the part before the checksum. Returns its result, the checksum, and a reader over the
/// part after the checksum.
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

/// Returns the checksum of `bytes` except for the four bytes at `at`, which must be within `bytes`.
fn crc_without(bytes: &[u8], at: usize) -> u32 {
    crc32c(crc32c(u32::MAX, &bytes[..at]), &bytes[at + 4..])
}
