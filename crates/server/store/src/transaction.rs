//! What changes a collection.

use bytes::Bytes;
use loligo_wire::{Eversion, Incarnation, Tid};
use smallvec::SmallVec;

use crate::{Info, ObjectRef};

/// Changes that happen together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Transaction<'a> {
    /// Where this stands in the placement group's history; grows from one transaction of a collection to the
    /// next.
    pub version: Eversion,
    /// The objects it changes, in order; a later entry sees what an earlier one did.
    pub objects: SmallVec<[ObjectChanges<'a>; 1]>,
    /// Which operation this was, so that its repetition is recognised after a restart.
    pub record: Option<OpRecord>,
}

/// What a transaction does to one object.
#[derive(Clone, Debug)]
pub struct ObjectChanges<'a> {
    /// Which object. Made by the first change that needs it, if it does not exist.
    pub oid: ObjectRef<'a>,
    /// What is kept about the object from now on, if it exists at the end.
    pub info: Info,
    /// In order.
    pub changes: SmallVec<[Change<'a>; 2]>,
}

/// One change to an object. All but `Remove` make the object if it does not exist.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// Makes the object, empty, if it does not exist.
    Create,
    /// Removes the object with all it has, if it exists.
    Remove,
    /// Puts `data` at `offset`; the object grows as needed.
    Write {
        /// First byte written.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Makes `data` the object's whole data; attributes and omap stay.
    WriteFull {
        /// The bytes.
        data: Bytes,
    },
    /// Says what the CRC-32C (begun with −1) of all the object's data is now, as the writer of the data gave
    /// it. Forgotten with the next change of the data.
    NoteCrc {
        /// The checksum.
        crc: u32,
    },
    /// Makes a range read as zeros and frees its room. Does not change the size.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes; what lies behind the object's end is ignored.
        len: u64,
    },
    /// Sets the size; what is cut off is gone, what is added reads as zeros.
    Truncate {
        /// The new size in bytes.
        size: u64,
    },
    /// Makes the object's data, attributes and omap those of another object of the collection, which must
    /// exist: otherwise the change does nothing. Attributes whose names begin with a zero byte stay with whom
    /// they belong: in them the OSD keeps what it knows of an object.
    CloneFrom {
        /// The other object.
        source: ObjectRef<'a>,
    },
    /// Sets an extended attribute.
    SetXattr {
        /// Its name.
        name: Bytes,
        /// Its value.
        value: Bytes,
    },
    /// Removes an extended attribute, if there is one of that name.
    RemoveXattr {
        /// Its name.
        name: Bytes,
    },
    /// Removes all extended attributes but the OSD's own.
    ClearXattrs,
    /// Sets keys of the omap.
    SetOmap {
        /// Keys and values.
        pairs: Vec<(Bytes, Bytes)>,
    },
    /// Removes keys of the omap, those that are there.
    RemoveOmap {
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// Removes a range of keys of the omap.
    RemoveOmapRange {
        /// The first key that goes.
        from: Bytes,
        /// The first key behind it that stays.
        until: Bytes,
    },
    /// Removes all keys and the header of the omap.
    ClearOmap,
    /// Sets the omap's header.
    SetOmapHeader {
        /// The header.
        header: Bytes,
    },
}

impl Change<'_> {
    /// Whether this changes one object by itself, and does not remove it.
    pub fn concerns_object(&self) -> bool {
        !matches!(self, Self::Remove | Self::CloneFrom { .. })
    }

    /// Whether this changes an object's bytes or how many there are.
    pub fn concerns_data(&self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::WriteFull { .. } | Self::Zero { .. } | Self::Truncate { .. }
        )
    }
}

/// Whether an attribute is the OSD's own, which clones do not take along.
pub fn is_own(name: &[u8]) -> bool {
    name.first() == Some(&0)
}

/// The identity and the result of a write, kept to answer its repetition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpRecord {
    /// Who: the number of the client (its global id).
    pub client: u64,
    /// Which life of that client.
    pub incarnation: Incarnation,
    /// Which of its operations.
    pub tid: Tid,
    /// The version that the write made; the newest one before it, if it failed.
    pub version: Eversion,
    /// The object's version as users count it.
    pub user_version: u64,
    /// 0 or a negative errno.
    pub result: i32,
}
