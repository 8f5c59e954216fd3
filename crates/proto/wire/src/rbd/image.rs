//! Records in image headers, and the values that the class `rbd` returns to clients.

use std::cmp::Ordering;

use crate::{Decode, DecodeError, Encode, Name, Reader, SnapId, UTime, Writer};

/// The parent of a clone: a snapshot of another image (`ParentImageSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentSpec {
    /// The parent's pool; −1 if there is no parent.
    pub pool: i64,
    /// The parent image's namespace.
    pub nspace: Name,
    /// The parent image's id.
    pub image: String,
    /// The snapshot.
    pub snap: SnapId,
}

impl Default for ParentSpec {
    fn default() -> Self {
        Self { pool: -1, nspace: Name::new(), image: String::new(), snap: SnapId::HEAD }
    }
}

impl ParentSpec {
    /// Whether there is a parent.
    pub fn exists(&self) -> bool {
        self.pool >= 0 && !self.image.is_empty() && self.snap != SnapId::HEAD
    }

    /// Encodes the fields without the envelope, as `cls_rbd_parent` does.
    pub fn encode_fields(&self, w: &mut Writer) {
        w.i64(self.pool);
        w.put(&self.nspace);
        w.put(&self.image);
        w.u64(self.snap.0);
    }

    /// Decodes the fields without the envelope.
    pub fn decode_fields(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { pool: r.i64()?, nspace: r.get()?, image: r.get()?, snap: SnapId(r.u64()?) })
    }
}

impl Encode for ParentSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| self.encode_fields(w));
    }
}

impl Decode for ParentSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("ParentImageSpec", 1, 1, |r, _| Self::decode_fields(r))
    }
}

/// The origin of a snapshot (`SnapshotNamespace`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapKind {
    /// Created by a user.
    User,
    /// Part of a group's snapshot.
    Group {
        /// The group's pool.
        pool: i64,
        /// The group's id.
        group: String,
        /// The id of the group's snapshot.
        snap: String,
    },
    /// Removed, but clones still need it.
    Trash {
        /// The snapshot's name before its removal.
        name: Name,
        /// The number of its origin before its removal.
        kind: u32,
    },
    /// Created by mirroring; the content is kept undecoded.
    Mirror(Vec<u8>),
    /// An origin of a newer release; only its number is kept.
    Unknown(u32),
}

impl SnapKind {
    /// The number of origin `User`.
    pub const USER: u32 = 0;
    const GROUP: u32 = 1;
    /// The number of origin `Trash`.
    pub const TRASH: u32 = 2;
    const MIRROR: u32 = 3;

    /// The number of this origin.
    pub fn code(&self) -> u32 {
        match self {
            Self::User => Self::USER,
            Self::Group { .. } => Self::GROUP,
            Self::Trash { .. } => Self::TRASH,
            Self::Mirror(_) => Self::MIRROR,
            Self::Unknown(code) => *code,
        }
    }
}

impl Encode for SnapKind {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u32(self.code());
            match self {
                Self::User | Self::Unknown(_) => {}
                Self::Group { pool, group, snap } => {
                    w.i64(*pool);
                    w.put(group);
                    w.put(snap);
                }
                Self::Trash { name, kind } => {
                    w.put(name);
                    w.u32(*kind);
                }
                Self::Mirror(rest) => w.raw(rest),
            }
        });
    }
}

impl Decode for SnapKind {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("SnapshotNamespace", 1, 1, |r, _| {
            Ok(match r.u32()? {
                Self::USER => Self::User,
                Self::GROUP => Self::Group { pool: r.i64()?, group: r.get()?, snap: r.get()? },
                Self::TRASH => Self::Trash { name: r.get()?, kind: r.u32()? },
                Self::MIRROR => Self::Mirror(r.rest().to_vec()),
                code => Self::Unknown(code),
            })
        })
    }
}

/// A snapshot, as the class returns it to clients (`SnapshotInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapInfo {
    /// Its id.
    pub id: SnapId,
    /// The snapshot's origin.
    pub kind: SnapKind,
    /// Its name.
    pub name: Name,
    /// The image's size at the snapshot, in bytes.
    pub size: u64,
    /// The time of the snapshot.
    pub taken: UTime,
    /// The number of clones of format version 2.
    pub children: u32,
}

impl Encode for SnapInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.id.0);
            w.put(&self.kind);
            w.put(&self.name);
            w.u64(self.size);
            w.put(&self.taken);
            w.u32(self.children);
        });
    }
}

impl Decode for SnapInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("SnapshotInfo", 1, 1, |r, _| {
            Ok(Self {
                id: SnapId(r.u64()?),
                kind: r.get()?,
                name: r.get()?,
                size: r.u64()?,
                taken: r.get()?,
                children: r.u32()?,
            })
        })
    }
}

/// A clone of a snapshot (`ChildImageSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildSpec {
    /// The clone's pool.
    pub pool: i64,
    /// The clone's id.
    pub image: String,
    /// The clone's namespace.
    pub nspace: Name,
}

impl ChildSpec {
    fn order(&self) -> (i64, &Name, &str) {
        (self.pool, &self.nspace, &self.image)
    }
}

impl PartialOrd for ChildSpec {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ChildSpec {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl Encode for ChildSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.i64(self.pool);
            w.put(&self.image);
            w.put(&self.nspace);
        });
    }
}

impl Decode for ChildSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("ChildImageSpec", 1, 2, |r, version| {
            let (pool, image) = (r.i64()?, r.get()?);
            let nspace = if version >= 2 { r.get()? } else { Name::new() };
            Ok(Self { pool, image, nspace })
        })
    }
}

/// An image in the trash (`TrashImageSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashImage {
    /// The origin of the entry ([`trash_source`](super::trash_source)).
    pub source: u8,
    /// The image's name before it was moved to the trash.
    pub name: Name,
    /// The time at which the image was moved to the trash.
    pub deleted: UTime,
    /// Before this time the image can only be removed by force.
    pub keep_until: UTime,
    /// The operation in progress ([`trash_state`](super::trash_state)).
    pub state: u8,
}

impl Encode for TrashImage {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.u8(self.source);
            w.put(&self.name);
            w.put(&self.deleted);
            w.put(&self.keep_until);
            w.u8(self.state);
        });
    }
}

impl Decode for TrashImage {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("TrashImageSpec", 1, 2, |r, version| {
            Ok(Self {
                source: r.u8()?,
                name: r.get()?,
                deleted: r.get()?,
                keep_until: r.get()?,
                state: if version >= 2 { r.u8()? } else { 0 },
            })
        })
    }
}
