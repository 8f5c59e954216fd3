//! Names of images (`rbd_directory`, `rbd_id.NAME`), of groups (`rbd_group_directory`) and of
//! namespaces.
//!
//! A directory maps names to ids and ids to names, in one omap.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::{Encode, Errno, Reader, Writer};

use super::Answer;
use super::is_id;
use crate::handle::Handle;
use crate::typed::decoded;

const NAME_PREFIX: &str = "name_";

/// Names are any bytes, and so are the ids that clients look up.
fn name_key(name: &[u8]) -> Bytes {
    [NAME_PREFIX.as_bytes(), name].concat().into()
}

fn id_key(id: &[u8]) -> Bytes {
    [b"id_", id].concat().into()
}

pub(super) fn get_id(object: &mut Handle<'_>, _input: &[u8]) -> Answer {
    let size = object.size()?;
    if size == 0 {
        return Err(Errno::ENOENT);
    }
    let id: Bytes = decoded(&object.read(0, size)?)?;
    Ok(id.to_bytes())
}

pub(super) fn set_id(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    object.must_exist()?;
    let id: Bytes = Reader::new(input).get()?;
    if !is_id(&id) {
        return Err(Errno::EINVAL);
    }
    if object.size()? != 0 {
        return Err(Errno::EEXIST);
    }
    object.write(0, id.to_bytes())?;
    Ok(Bytes::new())
}

pub(super) fn dir_get_id(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let name: Bytes = Reader::new(input).get()?;
    Ok(object.get::<Bytes>(name_key(&name))?.to_bytes())
}

pub(super) fn dir_get_name(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let id: Bytes = Reader::new(input).get()?;
    Ok(object.get::<Bytes>(id_key(&id))?.to_bytes())
}

pub(super) fn dir_list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.get::<Bytes>()?, r.u64()?);
    let mut found: BTreeMap<Bytes, Bytes> = BTreeMap::new();
    for (name, id) in names(object, &after, max)? {
        found.insert(name, decoded(&id)?);
    }
    Ok(found.to_bytes())
}

/// At most `max` names after the name `after`, with their values.
fn names(object: &mut Handle<'_>, after: &[u8], max: u64) -> Result<Vec<(Bytes, Bytes)>, Errno> {
    take(object, &name_key(after), NAME_PREFIX.as_bytes(), max)
}

/// At most `max` pairs after a key whose keys begin with `prefix`; the prefix is removed from the keys.
pub(super) fn take(
    object: &mut Handle<'_>,
    after: &[u8],
    prefix: &[u8],
    max: u64,
) -> Result<Vec<(Bytes, Bytes)>, Errno> {
    let mut after = Bytes::copy_from_slice(after);
    let mut found = Vec::new();
    while (found.len() as u64) < max {
        let page = object.page(&after, prefix, max - found.len() as u64)?;
        if let Some((last, _)) = page.pairs.last() {
            after = last.clone();
        }
        let more = page.more && !page.pairs.is_empty();
        found.extend(page.pairs.into_iter().map(|(key, value)| (key.slice(prefix.len()..), value)));
        if !more {
            break;
        }
    }
    Ok(found)
}

pub(super) fn dir_add(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    object.create(false)?;
    let mut r = Reader::new(input);
    let (name, id) = (r.get::<Bytes>()?, r.get::<Bytes>()?);
    enter(object, &name, &id, true)
}

fn enter(object: &mut Handle<'_>, name: &Bytes, id: &Bytes, new_id: bool) -> Answer {
    if name.is_empty() || !is_id(id) {
        return Err(Errno::EINVAL);
    }
    if object.has(name_key(name))? {
        return Err(Errno::EEXIST);
    }
    if new_id && object.has(id_key(id))? {
        return Err(Errno::EBADF);
    }
    let (name_key, id_key) = (name_key(name), id_key(id));
    object.set_all(&[(name_key, id.to_bytes()), (id_key, name.to_bytes())])?;
    Ok(Bytes::new())
}

pub(super) fn dir_remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (name, id) = (r.get::<Bytes>()?, r.get::<Bytes>()?);
    strike(object, &name, &id)?;
    Ok(Bytes::new())
}

fn strike(object: &mut Handle<'_>, name: &Bytes, id: &Bytes) -> Result<(), Errno> {
    let stored_id: Bytes = object.get(name_key(name))?;
    let stored_name: Bytes = object.get(id_key(id))?;
    if stored_id != id || stored_name != name {
        // It was renamed meanwhile.
        return Err(Errno::ESTALE);
    }
    object.unset(name_key(name))?;
    object.unset(id_key(id))
}

pub(super) fn dir_rename(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (from, to, id) = (r.get::<Bytes>()?, r.get::<Bytes>()?, r.get::<Bytes>()?);
    strike(object, &from, &id)?;
    // The id's key is not checked: reads see the state before the request, in which it still exists.
    enter(object, &to, &id, false)
}

/// Images may be created.
const READY: u8 = 0;
/// Images may not be created: the namespace is being removed.
const ADD_DISABLED: u8 = 1;

pub(super) fn dir_state_assert(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let state = Reader::new(input).u8()?;
    if object.get::<u8>("state")? == state { Ok(Bytes::new()) } else { Err(Errno::ENOENT) }
}

pub(super) fn dir_state_set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    match Reader::new(input).u8()? {
        READY => object.set("state", &READY)?,
        ADD_DISABLED => {
            object.must_exist()?;
            if !names(object, b"", 1)?.is_empty() {
                return Err(Errno::EBUSY);
            }
            object.set("state", &ADD_DISABLED)?;
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(Bytes::new())
}

pub(super) fn namespace_add(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let name: Bytes = Reader::new(input).get()?;
    if object.has(name_key(&name))? {
        return Err(Errno::EEXIST);
    }
    object.set_all(&[(name_key(&name), Bytes::new())])?;
    Ok(Bytes::new())
}

pub(super) fn namespace_remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let name: Bytes = Reader::new(input).get()?;
    object.value(&name_key(&name))?;
    object.unset(name_key(&name))?;
    Ok(Bytes::new())
}

pub(super) fn namespace_list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.get::<Bytes>()?, r.u64()?);
    let names = names(object, &after, max)?;
    let mut w = Writer::new();
    w.count(names.len());
    names.iter().for_each(|(name, _)| w.blob(name));
    Ok(w.into_bytes())
}
