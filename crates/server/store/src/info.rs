//! What an OSD keeps about an object.

use loligo_wire::{Eversion, UTime};

/// What the OSD keeps about an object beside its contents; opaque to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The change that made the object what it is.
    pub version: Eversion,
    /// The version as users see it: not touched by changes that the OSD makes of itself.
    pub user_version: u64,
    /// When it was changed last, by the client's clock.
    pub mtime: UTime,
    /// The newest truncation that a CephFS client has told of; 0 if none.
    pub truncate_seq: u32,
    /// Whether the object has an omap, be it an empty one.
    pub has_omap: bool,
    /// Whether the object is deleted for those who read it now, and stays for its snapshots.
    pub whiteout: bool,
    /// Whether an attribute of the OSD's own says something of snapshots.
    pub has_snaps: bool,
    /// Whether attributes of the OSD's own name clients that watch.
    pub watched: bool,
    /// The size that the truncation gave.
    pub truncate_size: u64,
}
