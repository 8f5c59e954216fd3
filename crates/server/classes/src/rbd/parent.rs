//! The parent of a clone: the snapshot it was made from.

use bytes::Bytes;
use loligo_wire::{Encode, Errno, Name, Reader, SnapId, Writer};

use super::Answer;
use super::types::{Parent, ParentSpec, Snap};
use super::{feature, op_feature, require_feature, set_op_features, snap_key, snapshot};
use crate::handle::Handle;

/// Whether the image can have a parent at all.
fn is_layered(object: &mut Handle<'_>) -> Result<bool, Errno> {
    match require_feature(object, feature::LAYERING) {
        Ok(()) => Ok(true),
        Err(Errno::ENOEXEC) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// For clients older than release 14, which do not know namespaces.
pub(super) fn get_parent(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id = SnapId(Reader::new(input).u64()?);
    object.must_exist()?;
    let mut parent = Parent::default();
    if is_layered(object)? {
        parent = object.find("parent")?.unwrap_or_default();
        if !parent.spec.nspace.is_empty() {
            return Err(Errno::EXDEV);
        }
        if id != SnapId::HEAD {
            let snap: Option<Snap> = object.find(snap_key(id))?;
            match snap.and_then(|snap| snap.parent_overlap) {
                Some(_) if !parent.exists() => return Err(Errno::EINVAL),
                Some(overlap) => parent.overlap = Some(overlap),
                None => parent = Parent::default(),
            }
        }
    }
    let mut w = Writer::new();
    w.i64(parent.spec.pool);
    w.put(&parent.spec.image);
    w.u64(parent.spec.snap.0);
    w.u64(parent.overlap.unwrap_or(0));
    Ok(w.into_bytes())
}

/// For clients older than release 14.
pub(super) fn set_parent(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (pool, image, snap) = (r.i64()?, r.get()?, SnapId(r.u64()?));
    let spec = ParentSpec { pool, nspace: Name::new(), image, snap };
    put(object, Parent { spec, overlap: Some(r.u64()?) }, false)
}

/// For clients older than release 14.
pub(super) fn remove_parent(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    take_off(object, true)
}

pub(super) fn get(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    object.must_exist()?;
    let parent: Parent =
        if is_layered(object)? { object.find("parent")?.unwrap_or_default() } else { Parent::default() };
    Ok(parent.spec.to_bytes())
}

pub(super) fn overlap_get(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id = SnapId(Reader::new(input).u64()?);
    let overlap: Option<u64> = match is_layered(object)? {
        false => None,
        true if id == SnapId::HEAD => object.find::<Parent>("parent")?.and_then(|parent| parent.overlap),
        true => object.get::<Snap>(snap_key(id))?.parent_overlap,
    };
    Ok(overlap.to_bytes())
}

pub(super) fn attach(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let parent = Parent { spec: r.get()?, overlap: Some(r.u64()?) };
    let again = !r.is_empty() && r.bool()?;
    put(object, parent, again)
}

fn put(object: &mut Handle<'_>, parent: Parent, again: bool) -> Answer {
    object.must_exist()?;
    require_feature(object, feature::LAYERING)?;
    let overlap = parent.overlap.unwrap_or(0);
    if !parent.exists() || overlap == 0 {
        return Err(Errno::EINVAL);
    }
    if let Some(before) = object.find::<Parent>("parent")? {
        // If only snapshots still need the old parent, the new one must be the same.
        let only_snaps = before.overlap.is_none() && before.spec == parent.spec;
        if !only_snaps && !again {
            return Err(Errno::EEXIST);
        }
    }
    let size: u64 = object.get("size")?;
    object.set("parent", &Parent { overlap: Some(overlap.min(size)), ..parent })?;
    Ok(Bytes::new())
}

pub(super) fn detach(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    take_off(object, false)
}

fn take_off(object: &mut Handle<'_>, old_client: bool) -> Answer {
    object.must_exist()?;
    let features: u64 = object.find("features")?.unwrap_or(0);
    if features & feature::LAYERING == 0 {
        return Err(Errno::ENOEXEC);
    }
    let parent: Parent = object.get("parent")?;
    if old_client && !parent.spec.nspace.is_empty() {
        return Err(Errno::EXDEV);
    }
    if parent.overlap.is_none() {
        return Err(Errno::ENOENT);
    }
    let mut in_parent = Vec::new();
    snapshot::each(object, |snap| {
        in_parent.extend(snap.parent_overlap.is_some().then_some(snap));
        Ok(())
    })?;
    let deep = features & feature::DEEP_FLATTEN != 0;
    if deep {
        for snap in in_parent.drain(..) {
            object.set(snap_key(snap.id), &Snap { parent_overlap: None, ..snap })?;
        }
    }
    if in_parent.is_empty() {
        object.unset("parent")?;
        set_op_features(object, 0, op_feature::CLONE_CHILD)?;
    } else {
        object.set("parent", &Parent { overlap: None, ..parent })?;
    }
    Ok(Bytes::new())
}
