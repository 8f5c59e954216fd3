//! The clones of a snapshot.
//!
//! Clones of the second version are stored in the parent's header, beside the snapshot. Those of the
//! first version are stored in the object `rbd_children` of the clone's pool, under their parent's pool,
//! id and snapshot.

use std::collections::BTreeSet;

use bytes::Bytes;
use loligo_wire::{Encode, Errno, Reader, SnapId, Writer};

use super::Answer;
use super::types::{ChildIds, ChildSpec, Snap, SnapKind};
use super::{op_feature, set_op_features, snap_key, snapshot};
use crate::handle::Handle;

fn children_key(snap: SnapId) -> String {
    format!("snap_children_{:016x}", snap.0)
}

/// The children of a snapshot; `ENOENT` if it has none.
type Children = BTreeSet<ChildSpec>;

pub(super) fn attach(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (id, child) = (SnapId(r.u64()?), r.get::<ChildSpec>()?);
    let mut snap: Snap = object.get(snap_key(id))?;
    if snap.kind.code() == SnapKind::TRASH {
        return Err(Errno::ENOENT);
    }
    let mut children: Children = object.find(children_key(id))?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST);
    }
    object.set(children_key(id), &children)?;
    snap.children += 1;
    object.set(snap_key(id), &snap)?;
    set_op_features(object, op_feature::CLONE_PARENT, op_feature::CLONE_PARENT)?;
    Ok(Bytes::new())
}

pub(super) fn detach(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (id, child) = (SnapId(r.u64()?), r.get::<ChildSpec>()?);
    let mut snap: Snap = object.get(snap_key(id))?;
    let mut children: Children = object.find(children_key(id))?.unwrap_or_default();
    if snap.children as usize != children.len() {
        return Err(Errno::EINVAL);
    }
    if !children.remove(&child) {
        return Err(Errno::ENOENT);
    }
    if children.is_empty() {
        object.unset(children_key(id))?;
    } else {
        object.set(children_key(id), &children)?;
    }
    snap.children -= 1;
    object.set(snap_key(id), &snap)?;
    let mut others = false;
    snapshot::each(object, |other| {
        others |= other.id != id && other.children > 0;
        Ok(())
    })?;
    if snap.children == 0 && !others {
        set_op_features(object, 0, op_feature::CLONE_PARENT)?;
    }
    Ok(Bytes::new())
}

pub(super) fn list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id = SnapId(Reader::new(input).u64()?);
    object.get::<Snap>(snap_key(id))?;
    Ok(object.get::<Children>(children_key(id))?.to_bytes())
}

/// Decodes the key in `rbd_children` with which the input begins: a parent's pool, id and snapshot.
fn parent_key(r: &mut Reader<'_>) -> Result<Bytes, Errno> {
    let (pool, image, snap) = (r.u64()?, r.get::<String>()?, r.u64()?);
    let mut w = Writer::new();
    w.u64(pool);
    w.put(&image);
    w.u64(snap);
    Ok(w.into_bytes())
}

pub(super) fn add_child(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (key, child) = (parent_key(&mut r)?, r.get()?);
    let mut children: ChildIds = object.find(&key)?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST);
    }
    object.set(&key, &children)?;
    Ok(Bytes::new())
}

pub(super) fn remove_child(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (key, child) = (parent_key(&mut r)?, r.get::<String>()?);
    let mut children: ChildIds = object.get(&key)?;
    if !children.remove(&child) {
        return Err(Errno::ENOENT);
    }
    if children.is_empty() {
        object.unset(&key)?;
    } else {
        object.set(&key, &children)?;
    }
    Ok(Bytes::new())
}

pub(super) fn get_children(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let key = parent_key(&mut Reader::new(input))?;
    Ok(object.get::<ChildIds>(&key)?.to_bytes())
}
