//! An image's object map: two bits for each data object, which tell whether the object exists and
//! whether it changed since the last snapshot.
//!
//! The encoding is that of `common/bit_vector.hpp`: the number of entries; the entries, four to a byte,
//! with the first in the highest bits; and the checksums of the header and of each 4096 bytes of
//! entries.

use az::SaturatingAs as _;
use bytes::Bytes;

use crate::{Decode, DecodeError, Encode, Reader, Writer, crc};

/// The object does not exist.
pub const NONEXISTENT: u8 = 0;
/// The object exists and was written since the last snapshot.
pub const EXISTS: u8 = 1;
/// The object is being removed.
pub const PENDING: u8 = 2;
/// The object exists and was not written since the last snapshot.
pub const EXISTS_CLEAN: u8 = 3;

/// The maximum number of objects of an image (`MAX_OBJECT_MAP_OBJECT_COUNT`).
pub const COUNT_MAX: u64 = 256_000_000;

/// Bytes of entries that one checksum covers.
pub const BLOCK: usize = 4096;
/// Entries per byte.
pub const PER_BYTE: u64 = 4;
/// Length of the header before the entries, in bytes.
pub const HEADER_LEN: u64 = 18;

/// A whole map, or the tail of a map from a block boundary on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMap {
    count: u64,
    data: Vec<u8>,
}

impl ObjectMap {
    /// Creates a map of `count` entries from their bytes. The bytes may be the tail of a map from a
    /// block boundary on.
    pub fn of_entries(count: u64, data: Vec<u8>) -> Self {
        Self { count, data }
    }

    /// The entries, as bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Returns the entries, as bytes.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// The number of objects.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the state of object `n`; [`NONEXISTENT`] past the end of the map.
    pub fn get(&self, n: u64) -> u8 {
        self.data.get((n / PER_BYTE) as usize).map_or(NONEXISTENT, |byte| byte >> shift(n) & 3)
    }

    /// Sets the state of object `n`. Does nothing past the end of the map.
    pub fn set(&mut self, n: u64, state: u8) {
        let Some(byte) = self.data.get_mut((n / PER_BYTE) as usize) else { return };
        *byte = *byte & !(3 << shift(n)) | (state & 3) << shift(n);
    }

    /// Changes the number of objects to `count`; new objects get `state`.
    pub fn resize(&mut self, count: u64, state: u8) {
        let before = self.count;
        self.count = count;
        // Four entries at a time: a map may have millions.
        let four = (state & 3) * 0b0101_0101;
        self.data.resize(count.div_ceil(PER_BYTE).saturating_as::<usize>(), four);
        // Sets the new entries in a byte shared with old ones, and clears the unused bits of the last
        // byte.
        let shared = before.next_multiple_of(PER_BYTE).min(count);
        (before..shared).for_each(|n| self.set(n, state));
        (count..count.next_multiple_of(PER_BYTE)).for_each(|n| self.set(n, 0));
    }

    /// Encodes the map with or without checksums.
    pub fn encode_with(&self, w: &mut Writer, with_crcs: bool) {
        let header = encode_header(self.count);
        w.blob(&header);
        w.raw(&self.data);
        if !with_crcs {
            w.u32(0);
            return;
        }
        let crcs = encode_crcs(&self.data);
        w.u32(8 + crcs.len().saturating_as::<u32>());
        w.u32(crc_of(&header));
        w.u32((crcs.len() / 4).saturating_as::<u32>());
        w.raw(&crcs);
    }
}

/// The bit position of an entry in its byte: the first entry has the highest bits.
fn shift(n: u64) -> u64 {
    (PER_BYTE - 1 - n % PER_BYTE) * 2
}

fn encode_header(count: u64) -> Bytes {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.u64(count));
    w.into_bytes()
}

/// Decodes the header and returns the number of entries.
pub fn decode_header(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let count = r.sized()?.versioned("BitVector", 1, 1, |r, _| r.u64())?;
    if count > COUNT_MAX { Err(DecodeError::Invalid { what: "BitVector", value: count }) } else { Ok(count) }
}

impl Encode for ObjectMap {
    fn encode(&self, w: &mut Writer) {
        self.encode_with(w, true);
    }
}

impl Decode for ObjectMap {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = decode_header(r)?;
        let data = r.raw(count.div_ceil(PER_BYTE).saturating_as::<usize>())?.to_vec();
        let mut footer = r.sized()?;
        if !footer.is_empty() {
            let header_crc = footer.u32()?;
            let crcs = footer.count(4)?;
            let stored = footer.rest();
            let whole = header_crc == crc_of(&encode_header(count)) && crcs == data.len().div_ceil(BLOCK);
            if !whole || !crcs_hold(&data, stored) {
                return Err(DecodeError::Invalid { what: "BitVector checksums", value: count });
            }
        }
        Ok(Self { count, data })
    }
}

/// Whether each block matches its checksum. Blocks without a checksum are not checked.
pub fn crcs_hold(data: &[u8], crcs: &[u8]) -> bool {
    let stored = crcs.as_chunks::<4>().0.iter().map(|crc| u32::from_le_bytes(*crc));
    data.chunks(BLOCK).zip(stored).all(|(block, stored)| crc_of(block) == stored)
}

/// Encodes the checksums of the blocks of `data`.
pub fn encode_crcs(data: &[u8]) -> Bytes {
    let mut w = Writer::new();
    data.chunks(BLOCK).for_each(|block| w.u32(crc_of(block)));
    w.into_bytes()
}

/// Ceph's CRC-32C with initial value 0.
fn crc_of(bytes: &[u8]) -> u32 {
    crc::crc32c(0, bytes)
}
