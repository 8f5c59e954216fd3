//! Groups of images. A group's snapshot is taken of all its images together.

use crate::{Decode, DecodeError, Encode, Name, Reader, SnapId, Writer};

/// A group, as the header of a member image refers to it (`GroupSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// The group's pool; −1 if there is no group.
    pub pool: i64,
    /// The group's id.
    pub group: String,
}

impl Default for GroupSpec {
    fn default() -> Self {
        Self { pool: -1, group: String::new() }
    }
}

impl GroupSpec {
    /// Whether there is a group.
    pub fn exists(&self) -> bool {
        self.pool >= 0
    }
}

impl Encode for GroupSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.i64(self.pool);
            w.put(&self.group);
        });
    }
}

impl Decode for GroupSpec {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("GroupSpec", 1, 1, |r, _| Ok(Self { pool: r.i64()?, group: r.get()? }))
    }
}

/// An image, as its group refers to it (`GroupImageSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupImage {
    /// The image's id.
    pub image: String,
    /// The image's pool; −1 if there is no image.
    pub pool: i64,
}

impl Default for GroupImage {
    fn default() -> Self {
        Self { image: String::new(), pool: -1 }
    }
}

impl Encode for GroupImage {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.image);
            w.i64(self.pool);
        });
    }
}

impl Decode for GroupImage {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("GroupImageSpec", 1, 1, |r, _| Ok(Self { image: r.get()?, pool: r.i64()? }))
    }
}

/// An image of a group with the state of its membership (`GroupImageStatus`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The image.
    pub image: GroupImage,
    /// [`GroupMember::ATTACHED`] or [`GroupMember::INCOMPLETE`].
    pub state: u8,
}

impl GroupMember {
    /// Both the group and the image record the membership.
    pub const ATTACHED: u8 = 0;
    /// The image may not record the membership: it is being added or removed.
    pub const INCOMPLETE: u8 = 1;
}

impl Encode for GroupMember {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.image);
            w.u8(self.state);
        });
    }
}

impl Decode for GroupMember {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("GroupImageStatus", 1, 1, |r, _| Ok(Self { image: r.get()?, state: r.u8()? }))
    }
}

/// A snapshot of a group (`GroupSnapshot`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSnap {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Name,
    /// [`GroupSnap::INCOMPLETE`] or [`GroupSnap::COMPLETE`].
    pub state: u8,
    /// The snapshots of the images.
    pub snaps: Vec<ImageSnap>,
}

impl GroupSnap {
    /// Some images do not have their snapshot yet.
    pub const INCOMPLETE: u8 = 0;
    /// All images have their snapshot.
    pub const COMPLETE: u8 = 1;
}

impl Encode for GroupSnap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.id);
            w.put(&self.name);
            w.u8(self.state);
            w.put(&self.snaps);
        });
    }
}

impl Decode for GroupSnap {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("GroupSnapshot", 1, 1, |r, _| {
            Ok(Self { id: r.get()?, name: r.get()?, state: r.u8()?, snaps: r.get()? })
        })
    }
}

/// One image's part of a group's snapshot (`ImageSnapshotSpec`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageSnap {
    /// The image's pool.
    pub pool: i64,
    /// The image's id.
    pub image: String,
    /// The id of the image's snapshot; 0 while the group's snapshot is incomplete.
    pub snap: SnapId,
}

impl Encode for ImageSnap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.i64(self.pool);
            w.put(&self.image);
            w.u64(self.snap.0);
        });
    }
}

impl Decode for ImageSnap {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("ImageSnapshotSpec", 1, 1, |r, _| {
            Ok(Self { pool: r.i64()?, image: r.get()?, snap: SnapId(r.u64()?) })
        })
    }
}
