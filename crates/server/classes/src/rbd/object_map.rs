//! An image's object map ([`ObjectMap`]) and the methods that change it.

use bytes::Bytes;
use loligo_wire::rbd::object_map::{
    BLOCK, COUNT_MAX, EXISTS, EXISTS_CLEAN, HEADER_LEN, ObjectMap, PER_BYTE, crcs_hold, decode_header,
    encode_crcs,
};
use loligo_wire::{Encode, Errno, Reader, Writer};

use super::Answer;
use crate::handle::Handle;

pub(super) fn load(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    let map = read(object)?;
    let mut w = Writer::new();
    map.encode_with(&mut w, false);
    Ok(w.into_bytes())
}

fn read(object: &mut Handle<'_>) -> Result<ObjectMap, Errno> {
    match object.size()? {
        0 => Err(Errno::ENOENT),
        size => Ok(Reader::new(&object.read(0, size)?).get()?),
    }
}

pub(super) fn save(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let map: ObjectMap = Reader::new(input).get()?;
    object.write_full(map.to_bytes())?;
    Ok(Bytes::new())
}

pub(super) fn resize(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (count, state): (u64, u8) = Reader::new(input).get()?;
    if count > COUNT_MAX {
        return Err(Errno::EINVAL);
    }
    let mut map = match read(object) {
        Err(Errno::ENOENT) => ObjectMap::default(),
        other => other?,
    };
    if (count..map.count()).any(|n| map.get(n) != state) {
        // An object still exists that the image would no longer reach.
        return Err(Errno::ESTALE);
    }
    map.resize(count, state);
    object.write_full(map.to_bytes())?;
    Ok(Bytes::new())
}

/// Changes a range of entries. Reads and writes only the blocks that contain it.
pub(super) fn update(object: &mut Handle<'_>, input: &[u8]) -> Answer {
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
    // After the entries: the length of the footer, the header's checksum, the number of checksums.
    let crcs_at = HEADER_LEN + bytes + 12 + first_block * 4;
    let blocks = last_block - first_block + 1;
    let crcs = object.read(crcs_at, blocks * 4)?;
    let data = object.read(HEADER_LEN + data_from, data_to - data_from)?;
    if data.len() as u64 != data_to - data_from || !crcs_hold(&data, &crcs) {
        return Err(Errno::EINVAL);
    }
    let before = data_from * PER_BYTE;
    let mut part = ObjectMap::of_entries(count - before, data.to_vec());
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
        object.write(crcs_at, encode_crcs(part.data()))?;
        object.write(HEADER_LEN + data_from, part.into_data().into())?;
    }
    Ok(Bytes::new())
}

/// Called when a snapshot is made: existing objects are marked as unchanged since it.
pub(super) fn snap_add(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    rewrite(object, |_, state| if state == EXISTS { EXISTS_CLEAN } else { state })
}

/// Called when a snapshot is removed, with its object map as input: objects that had changed before the
/// removed snapshot are marked as changed since the previous one.
pub(super) fn snap_remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let gone: ObjectMap = Reader::new(input).get()?;
    rewrite(object, |n, state| {
        let changed = n >= gone.count() || gone.get(n) == EXISTS;
        if state == EXISTS_CLEAN && changed { EXISTS } else { state }
    })
}

fn rewrite(object: &mut Handle<'_>, state_after: impl Fn(u64, u8) -> u8) -> Answer {
    let mut map = read(object)?;
    let mut changed = false;
    for n in 0..map.count() {
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
