//! An image's object map: two bits for each data object, whether it exists and whether it changed since the
//! last snapshot.
//!
//! It is kept as `common/bit_vector.hpp` encodes it: the count of entries; the entries, four to a byte, the
//! first in the highest bits; and checksums, one of the header and one of each 4096 bytes.

use az::SaturatingAs as _;
use bytes::Bytes;

use crate::{Decode, DecodeError, Encode, Reader, Writer, crc};

/// There is no such object.
pub const NONEXISTENT: u8 = 0;
/// The object exists, and was written since the last snapshot.
pub const EXISTS: u8 = 1;
/// It is being removed.
pub const PENDING: u8 = 2;
/// The object exists, and was not.
pub const EXISTS_CLEAN: u8 = 3;

/// As many objects as an image may have (`MAX_OBJECT_MAP_OBJECT_COUNT`).
pub const COUNT_MAX: u64 = 256_000_000;

/// Bytes of entries under one checksum.
pub const BLOCK: usize = 4096;
/// Entries in a byte.
pub const PER_BYTE: u64 = 4;
/// Bytes before the entries.
pub const HEADER_LEN: u64 = 18;

/// A whole map, or its end from a block on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectMap {
    count: u64,
    data: Vec<u8>,
}

impl ObjectMap {
    /// A map of so many entries, or the end of one from a block on, of its bytes.
    pub fn of_entries(count: u64, data: Vec<u8>) -> Self {
        Self { count, data }
    }

    /// The entries' bytes.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The same, taken.
    pub fn into_data(self) -> Vec<u8> {
        self.data
    }

    /// Objects.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The state of an object; [`NONEXISTENT`] behind the end.
    pub fn get(&self, n: u64) -> u8 {
        self.data.get((n / PER_BYTE) as usize).map_or(NONEXISTENT, |byte| byte >> shift(n) & 3)
    }

    /// Sets the state of an object, if the map has it.
    pub fn set(&mut self, n: u64, state: u8) {
        let Some(byte) = self.data.get_mut((n / PER_BYTE) as usize) else { return };
        *byte = *byte & !(3 << shift(n)) | (state & 3) << shift(n);
    }

    /// Makes it so many objects' map; new ones get `state`.
    pub fn resize(&mut self, count: u64, state: u8) {
        let before = self.count;
        self.count = count;
        // Four at a time: maps may be of millions.
        let four = (state & 3) * 0b0101_0101;
        self.data.resize(count.div_ceil(PER_BYTE).saturating_as::<usize>(), four);
        // What shares a byte with entries that were there, and what of the last byte is nobody's.
        let shared = before.next_multiple_of(PER_BYTE).min(count);
        (before..shared).for_each(|n| self.set(n, state));
        (count..count.next_multiple_of(PER_BYTE)).for_each(|n| self.set(n, 0));
    }

    /// Encodes it with its checksums or without.
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

/// Where in its byte an entry lies: the first is the highest.
fn shift(n: u64) -> u64 {
    (PER_BYTE - 1 - n % PER_BYTE) * 2
}

fn encode_header(count: u64) -> Bytes {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.u64(count));
    w.into_bytes()
}

/// Reads what stands before the entries: how many there are.
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

/// Whether each block has the checksum that is there for it; missing ones are not looked at.
pub fn crcs_hold(data: &[u8], crcs: &[u8]) -> bool {
    let stored = crcs.as_chunks::<4>().0.iter().map(|crc| u32::from_le_bytes(*crc));
    data.chunks(BLOCK).zip(stored).all(|(block, stored)| crc_of(block) == stored)
}

/// The checksums of entries.
pub fn encode_crcs(data: &[u8]) -> Bytes {
    let mut w = Writer::new();
    data.chunks(BLOCK).for_each(|block| w.u32(crc_of(block)));
    w.into_bytes()
}

/// Ceph's CRC-32C begun with 0.
fn crc_of(bytes: &[u8]) -> u32 {
    crc::crc32c(0, bytes)
}
