//! Class `version`: an object version that its users count (`src/cls/version`), with a tag that
//! distinguishes one incarnation of the object from another.

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Errno, Reader, Writer};

use crate::class::{Class, DONE, Outcome, give, rd, rw};
use crate::handle::Handle;

pub(crate) static CLASS: Class = Class {
    name: "version",
    methods: &[
        rw("set", set),
        rw("inc", increase),
        rw("inc_conds", increase),
        rd("read", read),
        rd("check_conds", check),
    ],
};

const ATTRIBUTE: &str = "ceph.objclass.version";
const TAG_LEN: usize = 24;

#[derive(Clone, Default, PartialEq, Eq)]
struct Version {
    number: u64,
    tag: Bytes,
}

impl Encode for Version {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.number);
            w.put(&self.tag);
        });
    }
}

impl Decode for Version {
    const MIN_LEN: usize = 18;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("obj_version", 1, 1, |r, _| Ok(Self { number: r.u64()?, tag: r.get()? }))
    }
}

/// A condition on a version, and the kind of comparison (`VER_COND_*`).
struct Condition {
    with: Version,
    how: u32,
}

impl Decode for Condition {
    const MIN_LEN: usize = 28;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("obj_version_cond", 1, 1, |r, _| Ok(Self { with: r.get()?, how: r.u32()? }))
    }
}

impl Condition {
    fn holds(&self, version: &Version) -> bool {
        let (number, with) = (version.number, self.with.number);
        match self.how {
            1 => *version == self.with,
            2 => number > with,
            3 => number >= with,
            4 => number < with,
            5 => number <= with,
            6 => version.tag == self.with.tag,
            7 => version.tag != self.with.tag,
            _ => true,
        }
    }
}

/// The object's version; number 0 without a tag if it has none.
fn load(object: &mut Handle<'_>) -> Result<Version, Errno> {
    match object.xattr(ATTRIBUTE) {
        Ok(bytes) => Version::from_bytes(&bytes).map_err(|_| Errno::EIO),
        Err(Errno::ENOENT | Errno::ENODATA) => Ok(Version::default()),
        Err(errno) => Err(errno),
    }
}

fn store(object: &mut Handle<'_>, version: &Version) -> Outcome {
    object.set_xattr(ATTRIBUTE, &version.to_bytes())?;
    DONE
}

fn set(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let version: Version = Reader::new(input).versioned("cls_version_set_op", 1, 1, |r, _| r.get())?;
    store(object, &version)
}

/// Decodes a version and the conditions. The version is ignored, as in Ceph.
fn conditions(input: &[u8]) -> Result<Vec<Condition>, Errno> {
    Ok(Reader::new(input).versioned("cls_version_inc_op", 1, 1, |r, _| {
        r.get::<Version>()?;
        r.get()
    })?)
}

fn increase(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let conditions = conditions(input)?;
    let mut version = load(object)?;
    if version == Version::default() {
        version = Version { number: 1, tag: object.random_text(TAG_LEN).into() };
    }
    if !conditions.iter().all(|condition| condition.holds(&version)) {
        return Err(Errno::ECANCELED);
    }
    version.number += 1;
    store(object, &version)
}

fn check(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let conditions = conditions(input)?;
    let version = load(object)?;
    if conditions.iter().all(|condition| condition.holds(&version)) { DONE } else { Err(Errno::ECANCELED) }
}

fn read(object: &mut Handle<'_>, _: &[u8]) -> Outcome {
    let version = load(object)?;
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.put(&version));
    give(w.into_bytes())
}
