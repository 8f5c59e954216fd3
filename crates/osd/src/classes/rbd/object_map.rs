//! An image's object map: two bits for each data object, whether it exists and whether it changed since the last snapshot.
//!
//! It is kept as `common/bit_vector.hpp` encodes it: the count of entries; the entries, four to a byte, the first in the
//! highest bits; and checksums, one of the header and one of each 4096 bytes.

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Reader, Writer, crc};

use super::Answer;
use crate::classes::Handle;
use crate::errno::Errno;

/// The object exists, and was written since the last snapshot.
const EXISTS: u8 = 1;
/// The object exists, and was not.
const EXISTS_CLEAN: u8 = 3;

/// As many objects as an image may have (`MAX_OBJECT_MAP_OBJECT_COUNT`).
const COUNT_MAX: u64 = 256_000_000;

/// Bytes of entries under one checksum.
const BLOCK: usize = 4096;
/// Entries in a byte.
const PER_BYTE: u64 = 4;
/// Bytes before the entries.
const HEADER_LEN: u64 = 18;

pub(super) fn load(object: &mut Handle<'_, '_>, _input: &[u8]) -> Answer {
    let map = read(object)?;
    let mut w = Writer::new();
    map.encode_with(&mut w, false);
    Ok(w.into_bytes())
}

fn read(object: &mut Handle<'_, '_>) -> Result<Map, Errno> {
    match object.size()? {
        0 => Err(Errno::ENOENT),
        size => Ok(Reader::new(&object.read(0, size)?).get()?),
    }
}

pub(super) fn save(object: &mut Handle<'_, '_>, input: &[u8]) -> Answer {
    let map: Map = Reader::new(input).get()?;
    object.write_full(map.to_bytes())?;
    Ok(Bytes::new())
}

pub(super) fn resize(object: &mut Handle<'_, '_>, input: &[u8]) -> Answer {
    let (count, state): (u64, u8) = Reader::new(input).get()?;
    if count > COUNT_MAX {
        return Err(Errno::EINVAL);
    }
    let mut map = match read(object) {
        Err(Errno::ENOENT) => Map::default(),
        other => other?,
    };
    if (count..map.count).any(|n| map.get(n) != state) {
        // An object is still there that the image would no longer reach.
        return Err(Errno::ESTALE);
    }
    map.resize(count, state);
    object.write_full(map.to_bytes())?;
    Ok(Bytes::new())
}

/// Changes a range of entries. Reads and writes only the blocks it lies in.
pub(super) fn update(object: &mut Handle<'_, '_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (from, to, state, only) = (r.u64()?, r.u64()?, r.u8()?, r.get::<Option<u8>>()?);
    object.must_exist()?;
    let header = object.read(0, HEADER_LEN)?;
    let count = decode_header(&mut Reader::new(&header))?;
    if from >= to || to > count {
        return Err(Errno::ERANGE);
    }
    let bytes = count.div_ceil(PER_BYTE);
    let first_block = from / PER_BYTE / BLOCK as u64;
    let last_block = (to - 1) / PER_BYTE / BLOCK as u64;
    let data_from = first_block * BLOCK as u64;
    let data_to = ((last_block + 1) * BLOCK as u64).min(bytes);
    // Behind the entries: the length of what follows, the header's checksum, the count of checksums.
    let crcs_at = HEADER_LEN + bytes + 12 + first_block * 4;
    let blocks = last_block - first_block + 1;
    let crcs = object.read(crcs_at, blocks * 4)?;
    let data = object.read(HEADER_LEN + data_from, data_to - data_from)?;
    if data.len() as u64 != data_to - data_from || !crcs_hold(&data, &crcs) {
        return Err(Errno::EINVAL);
    }
    let before = data_from * PER_BYTE;
    let mut part = Map { count: count - before, data: data.to_vec() };
    let mut changed = false;
    for n in from - before..to - before {
        let now = part.get(n);
        let meant = only.is_none_or(|only| now == only || (only == EXISTS && now == EXISTS_CLEAN));
        if meant && now != state {
            part.set(n, state);
            changed = true;
        }
    }
    if changed {
        object.write(crcs_at, encode_crcs(&part.data))?;
        object.write(HEADER_LEN + data_from, part.data.into())?;
    }
    Ok(Bytes::new())
}

/// Whether each block has the checksum that is there for it; missing ones are not looked at.
fn crcs_hold(data: &[u8], crcs: &[u8]) -> bool {
    let stored = crcs.as_chunks::<4>().0.iter().map(|crc| u32::from_le_bytes(*crc));
    data.chunks(BLOCK).zip(stored).all(|(block, stored)| crc_of(block) == stored)
}

fn encode_crcs(data: &[u8]) -> Bytes {
    let mut w = Writer::new();
    data.chunks(BLOCK).for_each(|block| w.u32(crc_of(block)));
    w.into_bytes()
}

/// Ceph's CRC-32C begun with 0.
fn crc_of(bytes: &[u8]) -> u32 {
    crc::crc32c(0, bytes)
}

/// A snapshot is made: what exists has not changed since it.
pub(super) fn snap_add(object: &mut Handle<'_, '_>, _input: &[u8]) -> Answer {
    rewrite(object, |_, state| if state == EXISTS { EXISTS_CLEAN } else { state })
}

/// A snapshot goes whose map is given: what had changed before it has changed since the one before.
pub(super) fn snap_remove(object: &mut Handle<'_, '_>, input: &[u8]) -> Answer {
    let gone: Map = Reader::new(input).get()?;
    rewrite(object, |n, state| {
        let changed = n >= gone.count || gone.get(n) == EXISTS;
        if state == EXISTS_CLEAN && changed { EXISTS } else { state }
    })
}

fn rewrite(object: &mut Handle<'_, '_>, state_after: impl Fn(u64, u8) -> u8) -> Answer {
    let mut map = read(object)?;
    let mut changed = false;
    for n in 0..map.count {
        let (before, after) = (map.get(n), state_after(n, map.get(n)));
        if before != after {
            map.set(n, after);
            changed = true;
        }
    }
    if changed {
        object.write_full(map.to_bytes())?;
    }
    Ok(Bytes::new())
}

/// A whole map, or its end from a block on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Map {
    count: u64,
    data: Vec<u8>,
}

impl Map {
    fn get(&self, n: u64) -> u8 {
        self.data[(n / PER_BYTE) as usize] >> shift(n) & 3
    }

    fn set(&mut self, n: u64, state: u8) {
        let byte = &mut self.data[(n / PER_BYTE) as usize];
        *byte = *byte & !(3 << shift(n)) | (state & 3) << shift(n);
    }

    fn resize(&mut self, count: u64, state: u8) {
        let before = self.count;
        self.count = count;
        // Four at a time: maps may be of millions.
        let four = (state & 3) * 0b0101_0101;
        self.data.resize(count.div_ceil(PER_BYTE) as usize, four);
        // What shares a byte with entries that were there, and what of the last byte is nobody's.
        let shared = before.next_multiple_of(PER_BYTE).min(count);
        (before..shared).for_each(|n| self.set(n, state));
        (count..count.next_multiple_of(PER_BYTE)).for_each(|n| self.set(n, 0));
    }

    fn encode_with(&self, w: &mut Writer, with_crcs: bool) {
        let header = encode_header(self.count);
        w.blob(&header);
        w.raw(&self.data);
        if !with_crcs {
            w.u32(0);
            return;
        }
        let crcs = encode_crcs(&self.data);
        w.u32(8 + crcs.len() as u32);
        w.u32(crc_of(&header));
        w.u32((crcs.len() / 4) as u32);
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

fn decode_header(r: &mut Reader<'_>) -> Result<u64, DecodeError> {
    let count = r.sized()?.versioned("BitVector", 1, 1, |r, _| r.u64())?;
    if count > COUNT_MAX { Err(DecodeError::Invalid { what: "BitVector", value: count }) } else { Ok(count) }
}

impl Encode for Map {
    fn encode(&self, w: &mut Writer) {
        self.encode_with(w, true);
    }
}

impl Decode for Map {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = decode_header(r)?;
        let data = r.raw(count.div_ceil(PER_BYTE) as usize)?.to_vec();
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
