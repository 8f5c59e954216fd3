//! Removed images that are kept for a while (`rbd_trash`).

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::{Encode, Errno, Reader};

use super::Answer;
use super::directory::take;
use super::is_id;
use super::types::TrashImage;
use crate::handle::Handle;
use crate::typed::decoded;

const PREFIX: &str = "id_";

fn key(id: &str) -> String {
    format!("{PREFIX}{id}")
}

pub(super) fn add(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    object.create(false)?;
    let mut r = Reader::new(input);
    let (id, image) = (r.get::<String>()?, r.get::<TrashImage>()?);
    if !is_id(&id) {
        return Err(Errno::EINVAL);
    }
    if object.has(key(&id))? {
        return Err(Errno::EEXIST);
    }
    object.set(key(&id), &image)?;
    Ok(Bytes::new())
}

pub(super) fn remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id: String = Reader::new(input).get()?;
    object.value(key(&id).as_bytes())?;
    object.unset(key(&id))?;
    Ok(Bytes::new())
}

pub(super) fn list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.get::<String>()?, r.u64()?);
    let mut found: BTreeMap<Bytes, TrashImage> = BTreeMap::new();
    for (id, image) in take(object, key(&after).as_bytes(), PREFIX.as_bytes(), max)? {
        found.insert(id, decoded(&image)?);
    }
    Ok(found.to_bytes())
}

pub(super) fn get(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id: String = Reader::new(input).get()?;
    object.value(key(&id).as_bytes())
}

pub(super) fn state_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (id, state, expected) = (r.get::<String>()?, r.u8()?, r.u8()?);
    let image: TrashImage = object.get(key(&id))?;
    if image.state == expected {
        object.set(key(&id), &TrashImage { state, ..image })?;
    } else if image.state != state {
        return Err(Errno::ESTALE);
    }
    Ok(Bytes::new())
}
