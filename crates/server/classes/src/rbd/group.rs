//! Groups of images whose snapshots are taken together.

use bytes::Bytes;
use loligo_wire::rbd::{GroupImage, GroupMember, GroupSnap, GroupSpec};
use loligo_wire::{Encode, Errno, Reader};

use super::Answer;
use super::{SNAP_PREFIX, op_feature, set_op_features};
use crate::handle::Handle;
use crate::typed::decoded;

/// The key of an image's group in its header.
const GROUP_KEY: &str = "rbd_group_ref";
/// The key prefix of the order in which a group's snapshots were made.
const ORDER_PREFIX: &str = "snap_order_";

/// The key prefix of a group's images.
const IMAGE_PREFIX: &str = "image_";

/// The omap key of an image in its group; empty for no image.
fn image_key(image: &GroupImage) -> String {
    match image.pool {
        -1 => String::new(),
        pool => format!("{IMAGE_PREFIX}{pool:016x}_{}", image.image),
    }
}

fn image_of(key: &[u8]) -> Option<GroupImage> {
    let key = std::str::from_utf8(key).ok()?;
    let (pool, image) = key.strip_prefix(IMAGE_PREFIX)?.split_once('_')?;
    let pool = u64::from_str_radix(pool, 16).ok()?.cast_signed();
    Some(GroupImage { image: image.to_owned(), pool })
}

pub(super) fn image_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let member: GroupMember = Reader::new(input).get()?;
    object.set(image_key(&member.image), &member.state)?;
    Ok(Bytes::new())
}

pub(super) fn image_remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let image: GroupImage = Reader::new(input).get()?;
    object.unset(image_key(&image))?;
    Ok(Bytes::new())
}

pub(super) fn image_list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.get::<GroupImage>()?, r.u64()?);
    let mut members: Vec<GroupMember> = Vec::new();
    let mut last = Bytes::from(image_key(&after));
    while (members.len() as u64) < max {
        let page = object.page(&last, IMAGE_PREFIX.as_bytes(), max - members.len() as u64)?;
        for (key, state) in &page.pairs {
            members.push(GroupMember { image: image_of(key).ok_or(Errno::EIO)?, state: decoded(state)? });
        }
        match page.pairs.into_iter().next_back() {
            Some((key, _)) if page.more => last = key,
            _ => break,
        }
    }
    Ok(members.to_bytes())
}

pub(super) fn add_to(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let group: GroupSpec = Reader::new(input).get()?;
    match object.find::<GroupSpec>(GROUP_KEY)? {
        Some(before) if before == group => return Ok(Bytes::new()),
        Some(_) => return Err(Errno::EEXIST),
        None => {}
    }
    set_op_features(object, op_feature::GROUP, op_feature::GROUP)?;
    object.set(GROUP_KEY, &group)?;
    Ok(Bytes::new())
}

pub(super) fn remove_from(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let group: GroupSpec = Reader::new(input).get()?;
    if object.get::<GroupSpec>(GROUP_KEY)? != group {
        return Err(Errno::EBADF);
    }
    object.unset(GROUP_KEY)?;
    set_op_features(object, 0, op_feature::GROUP)?;
    Ok(Bytes::new())
}

pub(super) fn group_of(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    Ok(object.find::<GroupSpec>(GROUP_KEY)?.unwrap_or_default().to_bytes())
}

fn snap_key(id: &str) -> String {
    format!("{SNAP_PREFIX}{id}")
}

fn order_key(id: &str) -> String {
    format!("{ORDER_PREFIX}{id}")
}

/// The group's snapshots after the key `after`, in key order.
fn snaps(object: &mut Handle<'_>, after: &str) -> Result<Vec<GroupSnap>, Errno> {
    let mut snaps = Vec::new();
    object.each(after.as_bytes(), SNAP_PREFIX.as_bytes(), |_, value| {
        snaps.push(decoded(value)?);
        Ok(())
    })?;
    Ok(snaps)
}

pub(super) fn snap_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let snap: GroupSnap = Reader::new(input).get()?;
    if snap.name.is_empty() || snap.id.is_empty() {
        return Err(Errno::EINVAL);
    }
    if snaps(object, SNAP_PREFIX)?.iter().any(|other| other.name == snap.name && other.id != snap.id) {
        return Err(Errno::EEXIST);
    }
    if snap.state == GroupSnap::INCOMPLETE {
        if object.has(snap_key(&snap.id))? {
            return Err(Errno::EEXIST);
        }
        let mut newest = 0u64;
        object.each(ORDER_PREFIX.as_bytes(), ORDER_PREFIX.as_bytes(), |_, value| {
            newest = newest.max(decoded(value)?);
            Ok(())
        })?;
        object.set(order_key(&snap.id), &newest.saturating_add(1))?;
    }
    object.set(snap_key(&snap.id), &snap)?;
    Ok(Bytes::new())
}

pub(super) fn snap_remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id: String = Reader::new(input).get()?;
    object.unset(snap_key(&id))?;
    object.unset(order_key(&id))?;
    Ok(Bytes::new())
}

pub(super) fn snap_get(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id: String = Reader::new(input).get()?;
    Ok(object.get::<GroupSnap>(snap_key(&id))?.to_bytes())
}

/// Lists by id, as release 16 does; the creation order is stored for newer clients.
pub(super) fn snap_list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.get::<GroupSnap>()?, r.u64()?);
    let mut found = snaps(object, &snap_key(&after.id))?;
    found.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    Ok(found.to_bytes())
}
