//! An image's metadata: key-value pairs set by users.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::{Encode, Reader};

use super::Answer;
use super::directory::take;
use crate::handle::Handle;

const PREFIX: &str = "metadata_";

/// Keys in a reply if the client gives no maximum.
const KEYS_DEFAULT: u64 = 64;

fn key(name: &[u8]) -> Bytes {
    [PREFIX.as_bytes(), name].concat().into()
}

pub(super) fn list(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (after, max) = (r.blob()?, r.u64()?);
    let max = if max == 0 { KEYS_DEFAULT } else { max };
    let found: BTreeMap<Bytes, Bytes> =
        take(object, &key(after), PREFIX.as_bytes(), max)?.into_iter().collect();
    Ok(found.to_bytes())
}

pub(super) fn get(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let name = Reader::new(input).blob()?;
    Ok(object.value(&key(name))?.to_bytes())
}

pub(super) fn set(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let pairs: BTreeMap<Bytes, Bytes> = Reader::new(input).get()?;
    let pairs: Vec<(Bytes, Bytes)> = pairs.into_iter().map(|(name, value)| (key(&name), value)).collect();
    object.set_all(&pairs)?;
    Ok(Bytes::new())
}

pub(super) fn remove(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let name = Reader::new(input).blob()?;
    object.unset(key(name))?;
    Ok(Bytes::new())
}
