//! What is stored in images' headers, and what clients are told of it.

use std::cmp::Ordering;

use crate::{Decode, DecodeError, Encode, Name, Reader, SnapId, UTime, Writer};

/// A snapshot that an image may have as its parent (`ParentImageSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentSpec {
    /// The pool; −1: there is no parent.
    pub pool: i64,
    /// The namespace it lies in.
    pub nspace: Name,
    /// The image's id.
    pub image: String,
    /// Which of its snapshots.
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

    /// The fields without the envelope, as `cls_rbd_parent` has them.
    pub fn encode_fields(&self, w: &mut Writer) {
        w.i64(self.pool);
        w.put(&self.nspace);
        w.put(&self.image);
        w.u64(self.snap.0);
    }

    /// The same.
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

/// What made a snapshot (`SnapshotNamespace`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapKind {
    /// A user.
    User,
    /// A snapshot of a group.
    Group {
        /// The group's pool.
        pool: i64,
        /// The group's id.
        group: String,
        /// The id of the group's snapshot.
        snap: String,
    },
    /// It was removed, and clones still need it.
    Trash {
        /// What it was called.
        name: Name,
        /// What had made it.
        kind: u32,
    },
    /// Mirroring; not looked into.
    Mirror(Vec<u8>),
    /// One of a newer release: nothing is known of it but its number.
    Unknown(u32),
}

impl SnapKind {
    /// A user's number.
    pub const USER: u32 = 0;
    const GROUP: u32 = 1;
    /// The trash's number.
    pub const TRASH: u32 = 2;
    const MIRROR: u32 = 3;

    /// Its number.
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

/// What clients are told of a snapshot (`SnapshotInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapInfo {
    /// Its id.
    pub id: SnapId,
    /// What made it.
    pub kind: SnapKind,
    /// Its name.
    pub name: Name,
    /// Bytes of the image at that time.
    pub size: u64,
    /// When it was made.
    pub taken: UTime,
    /// Clones of the second version.
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
    /// The namespace it lies in.
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
    /// What put it there ([`trash_source`](super::trash_source)).
    pub source: u8,
    /// What it was called.
    pub name: Name,
    /// When it was put there.
    pub deleted: UTime,
    /// Until then it is only removed by force.
    pub keep_until: UTime,
    /// What is being done with it ([`trash_state`](super::trash_state)).
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
