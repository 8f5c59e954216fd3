//! An image's header: what it holds, however it is stored.

pub(crate) mod format1;
pub(crate) mod migration;
mod read;

use std::sync::{Arc, OnceLock};

use loligo_rados::{IoCtx, SnapId};
use loligo_stripe::Layout;
use loligo_wire::rbd::{Migration, ParentSpec, SnapInfo, SnapKind, feature};
use loligo_wire::{Name, UTime};

pub(crate) use self::migration::Moving;
use self::migration::{check_readable, check_writable};
pub(crate) use self::read::load;
use crate::{Error, features, names};

/// Features of images that this crate can read.
pub(crate) const READABLE: u64 = feature::LAYERING
    | feature::STRIPINGV2
    | feature::EXCLUSIVE_LOCK
    | feature::OBJECT_MAP
    | feature::FAST_DIFF
    | feature::DEEP_FLATTEN
    | feature::DATA_POOL
    | feature::OPERATIONS
    | feature::MIGRATING;

/// How an image's header is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// In the bytes of `NAME.rbd`. Created only by `create_old`.
    First,
    /// In the omap of `rbd_header.ID`.
    Second,
}

impl Format {
    /// The number of the format, 1 or 2.
    pub fn number(self) -> u32 {
        match self {
            Self::First => 1,
            Self::Second => 2,
        }
    }

    /// The format of the image with this id: images of format 1 have an empty id.
    pub(crate) fn of_id(id: &str) -> Self {
        if id.is_empty() { Self::First } else { Self::Second }
    }
}

/// Properties of an image that never change.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    pub(crate) format: Format,
    pub(crate) order: u8,
    pub(crate) layout: Layout,
    pub(crate) prefix: String,
    pub(crate) data_pool: Option<i64>,
}

impl Fixed {
    /// The name of a data object.
    pub(crate) fn object(&self, number: u64) -> String {
        let digits = match self.format {
            Format::First => 12,
            Format::Second => 16,
        };
        names::data_object(&self.prefix, digits, number)
    }
}

/// The contents of an image's header when it was read.
#[derive(Clone, Debug)]
pub struct View {
    /// The size in bytes.
    pub size: u64,
    /// `RBD_FEATURE_*`.
    pub features: u64,
    /// `RBD_OPERATION_FEATURE_*`.
    pub op_features: u64,
    /// `RBD_FLAG_*`.
    pub flags: u64,
    /// The id of the newest snapshot that ever existed.
    pub(crate) snap_seq: SnapId,
    /// The snapshots, oldest first.
    pub snapshots: Vec<Snapshot>,
    /// The parent of the image or of its snapshots.
    pub parent: Option<ParentSpec>,
    /// The first bytes of the image that the parent may have; `None`: only snapshots still need the
    /// parent.
    pub overlap: Option<u64>,
    /// The migration that has the image as its source or its destination.
    pub migration: Option<Arc<Migration>>,
    /// Features that keep this crate from reading the data.
    unreadable: u64,
    /// When the image was created, last read and last written, as far as librbd records it.
    pub times: [UTime; 3],
    /// The data pool with the snapshot context for writes, set by the first write.
    pub(crate) writer: OnceLock<IoCtx>,
}

/// A snapshot of an image.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its id, name, size, time and kind.
    pub info: SnapInfo,
    /// Whether it is protected for clones.
    pub protected: bool,
    /// The `RBD_FLAG_*` of its object map.
    pub flags: u64,
    /// The first bytes of it that the image's parent may have; `None`: it needs no parent.
    pub overlap: Option<u64>,
}

impl View {
    /// The view of an image of format 1.
    pub(crate) fn of_old(
        size: u64,
        snap_seq: SnapId,
        snapshots: Vec<Snapshot>,
        migration: Option<Migration>,
    ) -> Self {
        Self {
            size,
            features: 0,
            op_features: 0,
            flags: 0,
            snap_seq,
            snapshots,
            parent: None,
            overlap: None,
            migration: migration.map(Arc::new),
            unreadable: 0,
            times: [UTime::default(); 3],
            writer: OnceLock::new(),
        }
    }

    /// The user's snapshot of this name.
    pub fn snapshot(&self, name: impl Into<Name>) -> Result<&Snapshot, Error> {
        let name = &name.into();
        self.snapshot_of(name, &SnapKind::User)
    }

    /// The snapshot of this name and kind.
    pub(crate) fn snapshot_of(&self, name: &Name, kind: &SnapKind) -> Result<&Snapshot, Error> {
        let named = |snap: &&Snapshot| snap.info.kind == *kind && snap.info.name == name;
        self.snapshots.iter().find(named).ok_or_else(|| Error::NoSnapshot(name.to_owned()))
    }

    /// The snapshot of this image that belongs to a group's snapshot.
    pub(crate) fn snapshot_in_group(&self, kind: &SnapKind) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snap| snap.info.kind == *kind)
    }

    /// The snapshot of this name in the trash of snapshots.
    pub(crate) fn trashed(&self, name: &Name) -> Option<SnapId> {
        let in_trash = |snap: &&Snapshot| matches!(snap.info.kind, SnapKind::Trash { .. });
        let mut found = self.snapshots.iter().filter(in_trash).filter(|snap| snap.info.name == name);
        found.next().map(|snap| snap.info.id)
    }

    /// The snapshot of this id, of any kind.
    pub(crate) fn snapshot_by_id(&self, id: SnapId) -> Option<&Snapshot> {
        self.snapshots.iter().find(|snap| snap.info.id == id)
    }

    pub(crate) fn has(&self, features: u64) -> bool {
        self.features & features == features
    }

    /// Stores the header's migration. If the image is being migrated, and the header has no migration or
    /// one that this crate does not know, the image becomes unreadable.
    pub(crate) fn set_migration(&mut self, migration: Option<Migration>) {
        let known = migration.filter(|spec| spec.source.is_empty());
        if known.is_none() {
            self.unreadable |= feature::MIGRATING;
        }
        self.migration = known.map(Arc::new);
    }

    /// Returns an error if this crate cannot find the image's data: the image has unknown features, or
    /// is being migrated and cannot be used yet or any more.
    pub(crate) fn check_readable(&self, moving: Moving) -> Result<(), Error> {
        match self.unreadable {
            0 => check_readable(self.migration.as_deref(), moving),
            unreadable => Err(Error::Features(features::text(unreadable))),
        }
    }

    /// Returns an error if the image has features that this crate cannot maintain, or is being migrated
    /// to another place.
    pub(crate) fn check_writable(&self, moving: Moving) -> Result<(), Error> {
        self.check_readable(moving)?;
        match self.features & !READABLE {
            0 => check_writable(self.migration.as_deref(), moving),
            unknown if unknown & feature::NON_PRIMARY != 0 => Err(Error::NonPrimary),
            unknown => Err(Error::Features(features::text(unknown))),
        }
    }
}
