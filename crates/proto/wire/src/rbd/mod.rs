//! Images of block devices: what their headers and object maps hold. Facts: `cls/rbd/cls_rbd_types.h`,
//! `include/rbd_types.h`.

mod group;
mod image;
mod migration;
pub mod object_map;
pub mod old_header;

pub use group::{GroupImage, GroupMember, GroupSnap, GroupSpec, ImageSnap};
pub use image::{ChildSpec, ParentSpec, SnapInfo, SnapKind, TrashImage};
pub use migration::Migration;
pub use object_map::ObjectMap;
pub use old_header::{OldHeader, OldSnap};

/// Features of an image (`RBD_FEATURE_*`).
pub mod feature {
    /// The names that people know them by, in the order of their bits.
    pub const NAMES: [(u64, &str); 12] = [
        (LAYERING, "layering"),
        (STRIPINGV2, "striping"),
        (EXCLUSIVE_LOCK, "exclusive-lock"),
        (OBJECT_MAP, "object-map"),
        (FAST_DIFF, "fast-diff"),
        (DEEP_FLATTEN, "deep-flatten"),
        (JOURNALING, "journaling"),
        (DATA_POOL, "data-pool"),
        (OPERATIONS, "operations"),
        (MIGRATING, "migrating"),
        (NON_PRIMARY, "non-primary"),
        (DIRTY_CACHE, "dirty-cache"),
    ];

    /// It may be a clone, or have clones.
    pub const LAYERING: u64 = 1;
    /// Its layout has a stripe unit and a stripe count.
    pub const STRIPINGV2: u64 = 1 << 1;
    /// One client at a time writes.
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    /// A map says which data objects exist.
    pub const OBJECT_MAP: u64 = 1 << 3;
    /// The map says too which have changed since the last snapshot.
    pub const FAST_DIFF: u64 = 1 << 4;
    /// Flattening covers snapshots.
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    /// Changes are written to a journal first.
    pub const JOURNALING: u64 = 1 << 6;
    /// Its data lie in another pool.
    pub const DATA_POOL: u64 = 1 << 7;
    /// It has operation features, in a field of their own.
    pub const OPERATIONS: u64 = 1 << 8;
    /// It is being moved.
    pub const MIGRATING: u64 = 1 << 9;
    /// It is a mirror's copy.
    pub const NON_PRIMARY: u64 = 1 << 10;
    /// A client's cache holds what the objects do not.
    pub const DIRTY_CACHE: u64 = 1 << 11;

    /// Those of release 16.
    pub const ALL: u64 = (1 << 12) - 1;
    /// Who does not know one of these must not open the image.
    pub const INCOMPATIBLE: u64 = STRIPINGV2 | DATA_POOL | DIRTY_CACHE | LAYERING;
    /// Who does not know one of these must not write to it.
    pub const RW_INCOMPATIBLE: u64 = INCOMPATIBLE
        | EXCLUSIVE_LOCK
        | OBJECT_MAP
        | FAST_DIFF
        | DEEP_FLATTEN
        | JOURNALING
        | OPERATIONS
        | MIGRATING
        | NON_PRIMARY;
    /// These may be switched on and off.
    pub const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    /// These may be switched off.
    pub const DISABLE_ONLY: u64 = DEEP_FLATTEN;
    /// These only this class switches.
    pub const INTERNAL: u64 = OPERATIONS | MIGRATING;
}

/// What operations on an image have left behind (`RBD_OPERATION_FEATURE_*`).
pub mod op_feature {
    /// It has clones of the second version.
    pub const CLONE_PARENT: u64 = 1;
    /// It is one.
    pub const CLONE_CHILD: u64 = 1 << 1;
    /// It belongs to a group.
    pub const GROUP: u64 = 1 << 2;
    /// It has snapshots that were removed and that clones still need.
    pub const SNAP_TRASH: u64 = 1 << 3;
    /// Those of release 16.
    pub const ALL: u64 = (1 << 4) - 1;
}

/// What put an image into the trash (`TrashImageSource`).
pub mod trash_source {
    /// A user.
    pub const USER: u8 = 0;
    /// Mirroring.
    pub const MIRRORING: u8 = 1;
    /// A migration.
    pub const MIGRATION: u8 = 2;
    /// Somebody who removes it at once.
    pub const REMOVING: u8 = 3;
    /// A user who removed an image whose snapshots have clones.
    pub const USER_PARENT: u8 = 4;
}

/// What is being done with an image in the trash (`TrashImageState`).
pub mod trash_state {
    /// Nothing.
    pub const NORMAL: u8 = 0;
    /// It is being put there.
    pub const MOVING: u8 = 1;
    /// It is being removed.
    pub const REMOVING: u8 = 2;
    /// It is being taken back.
    pub const RESTORING: u8 = 3;
}
