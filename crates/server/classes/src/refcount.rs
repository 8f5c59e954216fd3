//! Class `refcount`: an object that is removed with its last reference (`src/cls/refcount`). References
//! are tags in an attribute.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Errno, Reader, Writer};

use crate::class::{Class, DONE, Outcome, give, rd, rw};
use crate::handle::Handle;

pub(crate) static CLASS: Class =
    Class { name: "refcount", methods: &[rw("get", get), rw("put", put), rw("set", set), rd("read", read)] };

const ATTRIBUTE: &str = "refcount";

/// The reference of an object without a stored set of references.
const WILDCARD: Bytes = Bytes::new();

#[derive(Default)]
struct Refs {
    refs: BTreeMap<Bytes, bool>,
    /// Tags that were released; releasing one again does nothing.
    retired: BTreeSet<Bytes>,
}

impl Encode for Refs {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.refs);
            w.put(&self.retired);
        });
    }
}

impl Decode for Refs {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("obj_refcount", 1, 2, |r, version| {
            let refs = r.get()?;
            Ok(Self { refs, retired: if version >= 2 { r.get()? } else { BTreeSet::new() } })
        })
    }
}

fn load(object: &mut Handle<'_>, implicit: bool) -> Result<Refs, Errno> {
    match object.xattr(ATTRIBUTE) {
        Ok(bytes) => Refs::from_bytes(&bytes).map_err(|_| Errno::EIO),
        Err(Errno::ENODATA) if implicit => {
            Ok(Refs { refs: BTreeMap::from([(WILDCARD, true)]), ..Refs::default() })
        }
        Err(Errno::ENODATA) => Ok(Refs::default()),
        Err(errno) => Err(errno),
    }
}

fn store(object: &mut Handle<'_>, refs: &Refs) -> Outcome {
    object.set_xattr(ATTRIBUTE, &refs.to_bytes())?;
    DONE
}

/// Decodes a tag, and whether an object without references has an implicit one.
fn tag(input: &[u8]) -> Result<(Bytes, bool), Errno> {
    Ok(Reader::new(input).versioned("cls_refcount_op", 1, 1, |r, _| Ok((r.get()?, r.bool()?)))?)
}

fn get(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (tag, implicit) = tag(input)?;
    let mut refs = load(object, implicit)?;
    refs.refs.insert(tag, true);
    store(object, &refs)
}

fn put(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (tag, implicit) = tag(input)?;
    let mut refs = load(object, implicit)?;
    if refs.refs.is_empty() {
        return Err(Errno::EINVAL);
    }
    let held = match refs.refs.contains_key(&tag) {
        true => Some(tag.clone()),
        false => Some(WILDCARD).filter(|wildcard| implicit && refs.refs.contains_key(wildcard)),
    };
    let Some(held) = held.filter(|_| !refs.retired.contains(&tag)) else { return DONE };
    refs.retired.insert(tag);
    refs.refs.remove(&held);
    if refs.refs.is_empty() {
        object.remove()?;
        return DONE;
    }
    store(object, &refs)
}

fn set(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let tags: Vec<Bytes> = Reader::new(input).versioned("cls_refcount_set_op", 1, 1, |r, _| r.get())?;
    if tags.is_empty() {
        object.remove()?;
        return DONE;
    }
    let refs = tags.into_iter().map(|tag| (tag, true)).collect();
    store(object, &Refs { refs, ..Refs::default() })
}

fn read(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let implicit = Reader::new(input).versioned("cls_refcount_read_op", 1, 1, |r, _| r.bool())?;
    let refs = load(object, implicit)?;
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.seq(&refs.refs.keys().cloned().collect::<Vec<_>>()));
    give(w.into_bytes())
}
