//! RBD images: the contents of image headers and object maps. Facts: `cls/rbd/cls_rbd_types.h`,
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
    /// The features' names as tools print them, in the order of their bits.
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

    /// The image may be a clone, or have clones.
    pub const LAYERING: u64 = 1;
    /// The layout has a stripe unit and a stripe count.
    pub const STRIPINGV2: u64 = 1 << 1;
    /// Only one client at a time writes.
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    /// An object map records which data objects exist.
    pub const OBJECT_MAP: u64 = 1 << 3;
    /// The object map also records which objects changed since the last snapshot.
    pub const FAST_DIFF: u64 = 1 << 4;
    /// Flattening also covers snapshots.
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    /// Changes are first written to a journal.
    pub const JOURNALING: u64 = 1 << 6;
    /// The image's data is in another pool.
    pub const DATA_POOL: u64 = 1 << 7;
    /// The image has operation features, stored in a field of their own.
    pub const OPERATIONS: u64 = 1 << 8;
    /// The image is being migrated.
    pub const MIGRATING: u64 = 1 << 9;
    /// The image is the non-primary copy of a mirrored image.
    pub const NON_PRIMARY: u64 = 1 << 10;
    /// A client's cache holds data that the objects do not.
    pub const DIRTY_CACHE: u64 = 1 << 11;

    /// All features of release 16.
    pub const ALL: u64 = (1 << 12) - 1;
    /// A client that does not know one of these features must not open the image.
    pub const INCOMPATIBLE: u64 = STRIPINGV2 | DATA_POOL | DIRTY_CACHE | LAYERING;
    /// A client that does not know one of these features must not write to the image.
    pub const RW_INCOMPATIBLE: u64 = INCOMPATIBLE
        | EXCLUSIVE_LOCK
        | OBJECT_MAP
        | FAST_DIFF
        | DEEP_FLATTEN
        | JOURNALING
        | OPERATIONS
        | MIGRATING
        | NON_PRIMARY;
    /// Features that users may enable and disable.
    pub const MUTABLE: u64 = EXCLUSIVE_LOCK | OBJECT_MAP | FAST_DIFF | JOURNALING | NON_PRIMARY | DIRTY_CACHE;
    /// Features that users may disable but not enable.
    pub const DISABLE_ONLY: u64 = DEEP_FLATTEN;
    /// Features that only the object class sets and clears.
    pub const INTERNAL: u64 = OPERATIONS | MIGRATING;
}

/// Features that operations on an image set (`RBD_OPERATION_FEATURE_*`).
pub mod op_feature {
    /// The image has clones of format version 2.
    pub const CLONE_PARENT: u64 = 1;
    /// The image is a clone of format version 2.
    pub const CLONE_CHILD: u64 = 1 << 1;
    /// The image belongs to a group.
    pub const GROUP: u64 = 1 << 2;
    /// The image has removed snapshots that clones still need.
    pub const SNAP_TRASH: u64 = 1 << 3;
    /// All operation features of release 16.
    pub const ALL: u64 = (1 << 4) - 1;
}

/// The origin of an image in the trash (`TrashImageSource`).
pub mod trash_source {
    /// A user.
    pub const USER: u8 = 0;
    /// Mirroring.
    pub const MIRRORING: u8 = 1;
    /// A migration.
    pub const MIGRATION: u8 = 2;
    /// An operation that moves the image to the trash in order to remove it at once.
    pub const REMOVING: u8 = 3;
    /// A user who removed an image whose snapshots have clones.
    pub const USER_PARENT: u8 = 4;
}

/// The operation in progress on an image in the trash (`TrashImageState`).
pub mod trash_state {
    /// Nothing.
    pub const NORMAL: u8 = 0;
    /// The image is being moved to the trash.
    pub const MOVING: u8 = 1;
    /// The image is being removed.
    pub const REMOVING: u8 = 2;
    /// The image is being restored.
    pub const RESTORING: u8 = 3;
}
