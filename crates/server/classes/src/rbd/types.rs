//! Stored and transmitted types in the format of `cls_rbd.h` and `cls_rbd_types.h`.

use std::collections::{BTreeMap, BTreeSet};

use loligo_wire::rbd::SnapInfo;
pub(super) use loligo_wire::rbd::{ChildSpec, ParentSpec, SnapKind, TrashImage};
use loligo_wire::{Decode, DecodeError, Encode, Name, Reader, SnapId, UTime, Writer};

/// An image's parent (`cls_rbd_parent`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) spec: ParentSpec,
    /// Bytes of the image that may be in the parent; `None` if only snapshots still need it.
    pub(super) overlap: Option<u64>,
}

impl Parent {
    pub(super) fn exists(&self) -> bool {
        self.spec.exists()
    }
}

impl Encode for Parent {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            self.spec.encode_fields(w);
            w.put(&self.overlap);
        });
    }
}

impl Decode for Parent {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_rbd_parent", 2, 2, |r, _| {
            Ok(Self { spec: ParentSpec::decode_fields(r)?, overlap: r.get()? })
        })
    }
}

/// A snapshot in an image's header (`cls_rbd_snap`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Snap {
    pub(super) id: SnapId,
    /// Any bytes, as are all user-given names.
    pub(super) name: Name,
    pub(super) size: u64,
    pub(super) protection: u8,
    pub(super) flags: u64,
    pub(super) kind: SnapKind,
    pub(super) taken: UTime,
    /// Number of clones of the second version.
    pub(super) children: u32,
    /// Bytes of the snapshot that may be in the image's parent.
    pub(super) parent_overlap: Option<u64>,
}

impl Snap {
    /// `cls_rbd_snap`'s version, and the oldest version of a reader that can decode it.
    const VERSION: u8 = 8;

    /// The form in which clients see it.
    pub(super) fn info(&self) -> SnapInfo {
        let Self { id, name, size, kind, taken, children, .. } = self.clone();
        SnapInfo { id, kind, name, size, taken, children }
    }
}

impl Encode for Snap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(Self::VERSION, Self::VERSION, |w| {
            w.u64(self.id.0);
            w.put(&self.name);
            w.u64(self.size);
            w.u8(self.protection);
            w.u64(self.flags);
            w.put(&self.kind);
            w.put(&self.taken);
            w.u32(self.children);
            w.put(&self.parent_overlap);
        });
    }
}

impl Decode for Snap {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_rbd_snap", Self::VERSION, Self::VERSION, |r, _| {
            Ok(Self {
                id: SnapId(r.u64()?),
                name: r.get()?,
                size: r.u64()?,
                protection: r.u8()?,
                flags: r.u64()?,
                kind: r.get()?,
                taken: r.get()?,
                children: r.u32()?,
                parent_overlap: r.get()?,
            })
        })
    }
}

/// A mirrored image (`MirrorImage`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MirrorImage {
    pub(super) mode: u8,
    pub(super) global_id: String,
    pub(super) state: u8,
}

impl Encode for MirrorImage {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.global_id);
            w.u8(self.state);
            w.u8(self.mode);
        });
    }
}

impl Decode for MirrorImage {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("MirrorImage", 1, 2, |r, version| {
            let (global_id, state) = (r.get()?, r.u8()?);
            Ok(Self { global_id, state, mode: if version >= 2 { r.u8()? } else { 0 } })
        })
    }
}

/// Children of the first version, by image id.
pub(super) type ChildIds = BTreeSet<String>;

/// Another site that a pool is mirrored to or from (`MirrorPeer`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MirrorPeer {
    pub(super) uuid: String,
    pub(super) site: String,
    pub(super) client: String,
    pub(super) pool: i64,
    pub(super) direction: u8,
    pub(super) mirror_uuid: String,
    pub(super) last_seen: UTime,
}

impl MirrorPeer {
    /// The peer sends.
    pub(super) const RX: u8 = 0;
    /// The peer receives.
    pub(super) const TX: u8 = 1;
    /// The peer sends and receives.
    pub(super) const RX_TX: u8 = 2;

    /// A peer that registered itself as a receiver.
    pub(super) fn receiving(uuid: String, site: String, mirror_uuid: String) -> Self {
        Self { uuid, site, mirror_uuid, pool: -1, direction: Self::TX, ..Self::default() }
    }

    /// Whether it has all fields required for its direction.
    pub(super) fn is_valid(&self) -> bool {
        let has_client = self.direction == Self::TX || !self.client.is_empty();
        self.direction <= Self::RX_TX && has_client && !self.uuid.is_empty() && !self.site.is_empty()
    }
}

impl Encode for MirrorPeer {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.uuid);
            w.put(&self.site);
            w.put(&self.client);
            w.i64(self.pool);
            w.u8(self.direction);
            w.put(&self.mirror_uuid);
            w.put(&self.last_seen);
        });
    }
}

impl Decode for MirrorPeer {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("MirrorPeer", 1, 2, |r, version| {
            let mut peer = Self {
                uuid: r.get()?,
                site: r.get()?,
                client: r.get()?,
                pool: r.i64()?,
                direction: Self::RX_TX,
                ..Self::default()
            };
            if version >= 2 {
                (peer.direction, peer.mirror_uuid, peer.last_seen) = (r.u8()?, r.get()?, r.get()?);
            }
            Ok(peer)
        })
    }
}

/// Mirroring's record in its own snapshots (`MirrorSnapshotNamespace`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MirrorSnap {
    state: u8,
    pub(super) complete: bool,
    /// Peers that still need it.
    pub(super) peers: BTreeSet<String>,
    primary: String,
    primary_snap: u64,
    pub(super) last_copied: u64,
    snap_seqs: BTreeMap<u64, u64>,
}

impl MirrorSnap {
    /// The first state of a copy; lower states are those of the original.
    const NON_PRIMARY: u8 = 2;

    /// Whether it belongs to a copy.
    pub(super) fn is_of_copy(&self) -> bool {
        self.state >= Self::NON_PRIMARY
    }
}

impl Encode for MirrorSnap {
    fn encode(&self, w: &mut Writer) {
        w.u8(self.state);
        w.bool(self.complete);
        w.put(&self.peers);
        w.put(&self.primary);
        w.u64(self.primary_snap);
        w.u64(self.last_copied);
        w.put(&self.snap_seqs);
    }
}

impl Decode for MirrorSnap {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            state: r.u8()?,
            complete: r.bool()?,
            peers: r.get()?,
            primary: r.get()?,
            primary_snap: r.u64()?,
            last_copied: r.u64()?,
            snap_seqs: r.get()?,
        })
    }
}
