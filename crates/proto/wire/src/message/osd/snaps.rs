//! An object's clones and snapshots, as LIST_SNAPS returns them (`obj_list_snap_response_t`).

use crate::{Decode, DecodeError, Encode, Reader, SnapId, Writer};

/// An object's clones, oldest first, followed by the object itself if it exists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectSnaps {
    /// The clones, and the object itself.
    pub clones: Vec<SnapClone>,
    /// The newest snapshot that a writer of the object has reported.
    pub seq: SnapId,
}

/// One clone (`clone_info`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapClone {
    /// The clone's id: the newest of its snapshots, or [`SnapId::HEAD`] for the current object.
    pub id: SnapId,
    /// The snapshots that this clone represents.
    pub snaps: Vec<SnapId>,
    /// Ranges (offset and length, in bytes) that this clone shares with the next newer clone, or with
    /// the object.
    pub overlap: Vec<(u64, u64)>,
    /// The size in bytes.
    pub size: u64,
}

impl Encode for SnapClone {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.id);
            w.put(&self.snaps);
            w.put(&self.overlap);
            w.u64(self.size);
        });
    }
}

impl Decode for SnapClone {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("clone_info", 1, 1, |r, _| {
            Ok(Self { id: r.get()?, snaps: r.get()?, overlap: r.get()?, size: r.u64()? })
        })
    }
}

impl Encode for ObjectSnaps {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.clones);
            w.put(&self.seq);
        });
    }
}

impl Decode for ObjectSnaps {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("obj_list_snap_response_t", 2, 2, |r, _| Ok(Self { clones: r.get()?, seq: r.get()? }))
    }
}
