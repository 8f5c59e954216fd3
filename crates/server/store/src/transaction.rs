//! Transactions: changes to a collection.

use bytes::Bytes;
use loligo_wire::{Eversion, Incarnation, Tid};
use smallvec::SmallVec;

use crate::{Info, ObjectRef};

/// Changes that are applied completely or not at all.
#[derive(Clone, Debug, Default)]
pub struct Transaction<'a> {
    /// The position in the placement group's history; increases from one transaction of a collection to
    /// the next.
    pub version: Eversion,
    /// The changed objects, in order; a later entry sees the effect of an earlier one.
    pub objects: SmallVec<[ObjectChanges<'a>; 1]>,
    /// Identifies the client operation, so that a repetition of it is recognised after a restart.
    pub record: Option<OpRecord>,
}

/// The changes that a transaction makes to one object.
#[derive(Clone, Debug)]
pub struct ObjectChanges<'a> {
    /// The object. The first change that needs it creates it if it does not exist.
    pub oid: ObjectRef<'a>,
    /// The OSD's metadata of the object from now on, if the object exists at the end.
    pub info: Info,
    /// The changes, in order.
    pub changes: SmallVec<[Change<'a>; 2]>,
}

/// One change to an object. All but `Remove` create the object if it does not exist.
#[derive(Clone, Debug)]
pub enum Change<'a> {
    /// Creates the object, empty, if it does not exist.
    Create,
    /// Removes the object with its data, attributes and omap, if it exists.
    Remove,
    /// Writes `data` at `offset`; the object grows as needed.
    Write {
        /// First byte written.
        offset: u64,
        /// The bytes.
        data: Bytes,
    },
    /// Replaces the object's data with `data`; attributes and omap stay.
    WriteFull {
        /// The bytes.
        data: Bytes,
    },
    /// Records the CRC-32C (begun with −1) of all the object's data, as the writer of the data supplied
    /// it. The next change of the data discards it.
    NoteCrc {
        /// The checksum.
        crc: u32,
    },
    /// Makes a range read as zeros and frees its space. Does not change the size.
    Zero {
        /// First byte.
        offset: u64,
        /// The length in bytes; the part past the object's end is ignored.
        len: u64,
    },
    /// Sets the size. Truncated bytes are lost, added bytes read as zeros.
    Truncate {
        /// The new size in bytes.
        size: u64,
    },
    /// Replaces the object's data, attributes and omap with those of another object of the collection.
    /// If the other object does not exist, the change does nothing. Attributes whose names begin with a
    /// zero byte are not copied and the object's own stay: the OSD keeps its own records about an object
    /// in them.
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
    /// Removes an extended attribute, if it exists.
    RemoveXattr {
        /// Its name.
        name: Bytes,
    },
    /// Removes all extended attributes except the OSD's own.
    ClearXattrs,
    /// Sets keys of the omap.
    SetOmap {
        /// Keys and values.
        pairs: Vec<(Bytes, Bytes)>,
    },
    /// Removes those of the given omap keys that exist.
    RemoveOmap {
        /// The keys.
        keys: Vec<Bytes>,
    },
    /// Removes a range of keys of the omap.
    RemoveOmapRange {
        /// The first key that is removed.
        from: Bytes,
        /// The first key after the range; it stays.
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
    /// Whether the change affects exactly one object and does not remove it.
    pub fn concerns_object(&self) -> bool {
        !matches!(self, Self::Remove | Self::CloneFrom { .. })
    }

    /// Whether the change affects an object's bytes or their number.
    pub fn concerns_data(&self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::WriteFull { .. } | Self::Zero { .. } | Self::Truncate { .. }
        )
    }
}

/// Whether an attribute is the OSD's own; clones do not copy such attributes.
pub fn is_own(name: &[u8]) -> bool {
    name.first() == Some(&0)
}

/// The identity and the result of a write, kept to reply to a repetition of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpRecord {
    /// The client's number (its global id).
    pub client: u64,
    /// The incarnation of that client.
    pub incarnation: Incarnation,
    /// The client's transaction id of the operation.
    pub tid: Tid,
    /// The version that the write created; if it failed, the newest version before it.
    pub version: Eversion,
    /// The object's version as users see it.
    pub user_version: u64,
    /// 0 or a negative errno.
    pub result: i32,
}
