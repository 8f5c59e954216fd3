//! Images of the first format, whose header is the content of `NAME.rbd`: snapshots, and the migration
//! mark.

use bytes::Bytes;
use loligo_wire::rbd::{OldHeader, OldSnap, old_header};
use loligo_wire::{Decode, Encode, Errno, Name, Reader, SnapId, Writer};

use super::Answer;
use crate::handle::Handle;

/// Reads the header; `EINVAL` if the object is too short, `EIO` if the header's lengths exceed the
/// content.
fn header(object: &mut Handle<'_>) -> Result<OldHeader, Errno> {
    let bytes = object.read(0, 0)?;
    if bytes.len() < OldHeader::MIN_LEN {
        return Err(Errno::EINVAL);
    }
    Reader::new(&bytes).get().map_err(|_| Errno::EIO)
}

fn write(object: &mut Handle<'_>, header: &OldHeader) -> Answer {
    object.write_full(header.to_bytes())?;
    Ok(Bytes::new())
}

/// Decodes a name. Stored names end at the first zero byte, so a name must not contain one.
fn name(r: &mut Reader<'_>) -> Result<Name, Errno> {
    let name: Name = r.get()?;
    if name.contains(&0) { Err(Errno::EINVAL) } else { Ok(name) }
}

pub(super) fn snap_list(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    let header = header(object)?;
    let mut w = Writer::new();
    w.u64(header.snap_seq.0);
    w.count(header.snaps.len());
    for snap in &header.snaps {
        w.u64(snap.id.0);
        w.u64(snap.size);
        w.put(&snap.name);
    }
    Ok(w.into_bytes())
}

pub(super) fn snap_add(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut header = header(object)?;
    let mut r = Reader::new(input);
    let (name, id) = (name(&mut r)?, SnapId(r.u64()?));
    if header.snap_seq > id {
        // Another snapshot was made meanwhile: the caller requests a new id.
        return Err(Errno::ESTALE);
    }
    let limit: u64 = object.find("snap_limit")?.unwrap_or(u64::MAX);
    if header.snaps.len() as u64 >= limit {
        return Err(Errno::EDQUOT);
    }
    if header.snaps.iter().any(|snap| snap.name == name) {
        return Err(Errno::EEXIST);
    }
    header.snap_seq = id;
    header.snaps.insert(0, OldSnap { id, size: header.size, name });
    write(object, &header)
}

pub(super) fn snap_remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut header = header(object)?;
    let name = name(&mut Reader::new(input))?;
    let at = header.snaps.iter().position(|snap| snap.name == name).ok_or(Errno::ENOENT)?;
    header.snaps.remove(at);
    write(object, &header)
}

pub(super) fn snap_rename(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut header = header(object)?;
    let mut r = Reader::new(input);
    let (id, name) = (SnapId(r.u64()?), name(&mut r)?);
    if header.snaps.iter().any(|snap| snap.name == name) {
        return Err(Errno::EEXIST);
    }
    let renamed = header.snaps.iter_mut().find(|snap| snap.id == id).ok_or(Errno::ENOENT)?;
    renamed.name = name;
    write(object, &header)
}

/// The number of snapshots; `None` if the image is not of the first format.
pub(super) fn snap_count(object: &mut Handle<'_>) -> Result<Option<usize>, Errno> {
    match header(object) {
        Ok(header) => Ok(Some(header.snaps.len())),
        Err(Errno::EINVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Whether the header's text marks the image as migrating; `ENXIO` if it is not a header.
pub(super) fn is_migrating(object: &mut Handle<'_>) -> Result<bool, Errno> {
    let text = object.read(0, old_header::TEXT.len() as u64)?;
    match &text[..] {
        text if text == old_header::TEXT => Ok(false),
        text if text == old_header::MIGRATING_TEXT => Ok(true),
        _ => Err(Errno::ENXIO),
    }
}

/// Writes the migration mark into the header's text.
pub(super) fn set_migrating(object: &mut Handle<'_>, migrating: bool) -> Result<(), Errno> {
    let text = if migrating { old_header::MIGRATING_TEXT } else { old_header::TEXT };
    object.write(0, Bytes::from_static(text))
}
