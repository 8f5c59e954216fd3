//! The OSD's metadata of an object.

use loligo_wire::{Eversion, UTime};

/// The OSD's metadata of an object, apart from its contents; opaque to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The version of the last change to the object.
    pub version: Eversion,
    /// The version as users see it; changes that the OSD makes on its own do not increase it.
    pub user_version: u64,
    /// The time of the last change, by the client's clock.
    pub mtime: UTime,
    /// The sequence number of the newest truncation that a CephFS client reported; 0 if none.
    pub truncate_seq: u32,
    /// Whether the object has an omap, possibly an empty one.
    pub has_omap: bool,
    /// Whether the head is deleted but kept because its snapshots need it.
    pub whiteout: bool,
    /// Whether one of the OSD's own attributes holds snapshot data.
    pub has_snaps: bool,
    /// Whether the OSD's own attributes list watchers.
    pub watched: bool,
    /// The size that the truncation set.
    pub truncate_size: u64,
}
