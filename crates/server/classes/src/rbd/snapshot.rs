//! An image's snapshots, each a record in its header.

use bytes::Bytes;
use loligo_wire::{Encode, Errno, Name, Reader, SnapContext, SnapId, UTime};

use super::Answer;
use super::types::{Parent, Snap, SnapKind};
use super::{SNAP_PREFIX, feature, old, op_feature, require_feature, set_op_features, snap_key};
use crate::handle::Handle;
use crate::typed::decoded;

/// The largest snapshot id (`CEPH_MAXSNAP`).
const SNAP_ID_MAX: u64 = u64::MAX - 2;

const UNPROTECTED: u8 = 0;
/// The first number that is not a protection status.
const PROTECTION_END: u8 = 3;

/// Calls `each` for all of the image's snapshots, oldest first, until it fails.
pub(super) fn each(
    object: &mut Handle<'_>,
    mut each: impl FnMut(Snap) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let prefix = SNAP_PREFIX.as_bytes();
    object.each(prefix, prefix, |_, value| each(decoded(value)?))
}

fn all(object: &mut Handle<'_>) -> Result<Vec<Snap>, Errno> {
    let mut snaps = Vec::new();
    each(object, |snap| {
        snaps.push(snap);
        Ok(())
    })?;
    Ok(snaps)
}

/// Loads the snapshot given in the input, which must not be the head.
fn named(object: &mut Handle<'_>, r: &mut Reader<'_>) -> Result<Snap, Errno> {
    match SnapId(r.u64()?) {
        SnapId::HEAD => Err(Errno::EINVAL),
        id => object.get(snap_key(id)),
    }
}

pub(super) fn get_snapcontext(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    let snaps = all(object)?.into_iter().rev().map(|snap| snap.id).collect();
    Ok(SnapContext { seq: object.get("snap_seq")?, snaps }.to_bytes())
}

pub(super) fn get_snapshot_name(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    Ok(named(object, &mut Reader::new(input))?.name.to_bytes())
}

pub(super) fn get_snapshot_timestamp(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    Ok(named(object, &mut Reader::new(input))?.taken.to_bytes())
}

pub(super) fn get(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    Ok(named(object, &mut Reader::new(input))?.info().to_bytes())
}

pub(super) fn add(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (name, id) = (r.get::<Name>()?, SnapId(r.u64()?));
    let kind = if r.is_empty() { SnapKind::User } else { r.get()? };
    if matches!(kind, SnapKind::Unknown(_)) || id.0 > SNAP_ID_MAX {
        return Err(Errno::EINVAL);
    }
    if id.0 < object.get::<u64>("snap_seq")? {
        // Another snapshot was made meanwhile: the caller requests a new id.
        return Err(Errno::ESTALE);
    }
    let (size, flags) = (object.get("size")?, object.find("flags")?.unwrap_or(0));
    let limit: u64 = object.find("snap_limit")?.unwrap_or(u64::MAX);
    let others = all(object)?;
    if others.len() as u64 >= limit {
        return Err(Errno::EDQUOT);
    }
    if others.iter().any(|other| other.id == id || (other.name == name && other.kind == kind)) {
        return Err(Errno::EEXIST);
    }
    let parent: Option<Parent> = object.find("parent")?;
    let parent_overlap = parent.filter(Parent::exists).and_then(|parent| parent.overlap);
    if kind.code() == SnapKind::TRASH {
        set_op_features(object, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    }
    object.set("snap_seq", &id.0)?;
    let (protection, children, taken) = (UNPROTECTED, 0, UTime::now());
    let snap = Snap { id, name, size, protection, flags, kind, taken, children, parent_overlap };
    object.set(snap_key(id), &snap)?;
    Ok(Bytes::new())
}

pub(super) fn rename(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (id, name) = (SnapId(r.u64()?), r.get::<Name>()?);
    if all(object)?.iter().any(|snap| snap.kind == SnapKind::User && snap.name == name) {
        return Err(Errno::EEXIST);
    }
    let mut snap: Snap = object.get(snap_key(id))?;
    if snap.kind != SnapKind::User {
        return Err(Errno::EINVAL);
    }
    snap.name = name;
    object.set(snap_key(id), &snap)?;
    Ok(Bytes::new())
}

pub(super) fn remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id = SnapId(Reader::new(input).u64()?);
    let snap: Snap = object.get(snap_key(id))?;
    if snap.protection != UNPROTECTED || snap.children > 0 {
        return Err(Errno::EBUSY);
    }
    object.unset(snap_key(id))?;
    let mut others = all(object)?;
    others.retain(|other| other.id != id);
    let in_parent = others.iter().any(|other| other.parent_overlap.is_some());
    let in_trash = others.iter().any(|other| other.kind.code() == SnapKind::TRASH);
    let parent = object.find::<Parent>("parent")?.filter(Parent::exists);
    let head_in_parent = parent.as_ref().is_some_and(|parent| parent.overlap.is_some());
    if parent.is_some() && !head_in_parent && !in_parent {
        object.unset("parent")?;
    }
    let mut over = 0;
    if !in_parent && !head_in_parent {
        over |= op_feature::CLONE_CHILD;
    }
    if !in_trash {
        over |= op_feature::SNAP_TRASH;
    }
    if over != 0 {
        set_op_features(object, 0, over)?;
    }
    Ok(Bytes::new())
}

/// Moves a snapshot that clones still need to the trash, under a unique name.
pub(super) fn trash_add(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id = SnapId(Reader::new(input).u64()?);
    let mut snap: Snap = object.get(snap_key(id))?;
    if snap.protection != UNPROTECTED {
        return Err(Errno::EBUSY);
    }
    if snap.kind.code() == SnapKind::TRASH {
        return Err(Errno::EEXIST);
    }
    set_op_features(object, op_feature::SNAP_TRASH, op_feature::SNAP_TRASH)?;
    // A stock OSD uses a random name. This name is as unique, since ids are, and a repeated execution
    // makes the same one.
    let unique = format!("00000000-0000-4000-8000-{:012x}", id.0);
    let name = std::mem::replace(&mut snap.name, Name::from(unique));
    snap.kind = SnapKind::Trash { name, kind: snap.kind.code() };
    object.set(snap_key(id), &snap)?;
    Ok(Bytes::new())
}

pub(super) fn get_limit(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(object.find::<u64>("snap_limit")?.unwrap_or(u64::MAX).to_bytes())
}

pub(super) fn set_limit(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let limit = Reader::new(input).u64()?;
    if limit == u64::MAX {
        object.unset("snap_limit")?;
        return Ok(Bytes::new());
    }
    let count = match old::snap_count(object)? {
        Some(count) => count,
        None => all(object)?.len(),
    };
    if limit < count as u64 {
        return Err(Errno::ERANGE);
    }
    object.set("snap_limit", &limit)?;
    Ok(Bytes::new())
}

pub(super) fn get_protection_status(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    object.must_exist()?;
    let snap = named(object, &mut r)?;
    if snap.protection >= PROTECTION_END {
        return Err(Errno::EIO);
    }
    Ok(snap.protection.to_bytes())
}

pub(super) fn set_protection_status(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (id, protection): (u64, u8) = Reader::new(input).get()?;
    object.must_exist()?;
    require_feature(object, feature::LAYERING)?;
    if SnapId(id) == SnapId::HEAD || protection >= PROTECTION_END {
        return Err(Errno::EINVAL);
    }
    let mut snap: Snap = object.get(snap_key(SnapId(id)))?;
    snap.protection = protection;
    object.set(snap_key(snap.id), &snap)?;
    Ok(Bytes::new())
}
