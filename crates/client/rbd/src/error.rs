//! Errors of operations on images.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::{DecodeError, Name};

/// Why an operation on an image failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An error reply of the cluster, or no reply.
    #[error(transparent)]
    Rados(#[from] loligo_rados::Error),
    /// The image does not exist.
    #[error("no image '{0}'")]
    NoImage(Name),
    /// An image of that name exists.
    #[error("there is an image '{0}' already")]
    ImageExists(Name),
    /// The image has no such snapshot.
    #[error("no snapshot '{0}'")]
    NoSnapshot(Name),
    /// The start of a difference must not be newer than its end.
    #[error("the snapshot to compare with is newer")]
    LaterSnapshot,
    /// The image has a snapshot of that name.
    #[error("there is a snapshot '{0}' already")]
    SnapshotExists(Name),
    /// The snapshot has clones, or is protected.
    #[error("snapshot '{0}' is protected or has clones")]
    SnapshotBusy(Name),
    /// The image needs features that this crate does not support.
    #[error("features that are not supported here: {0}")]
    Features(String),
    /// The image is of format 1.
    #[error("images of format 1 cannot {what}; copy it: a copy is of format 2")]
    OldFormat {
        /// The operation that format 1 does not support.
        what: &'static str,
        /// The errno that librbd returns.
        errno: Errno,
    },
    /// The operation has to wait for the end of a migration.
    #[error("the image is being migrated: {0}")]
    Migrating(&'static str),
    /// The image is the source of a migration; its destination is used in its place.
    #[error("the image is read-only: it is being migrated to '{0}', which is to be used in its place")]
    MigratingAway(Name),
    /// The image is not being migrated.
    #[error("the image is not being migrated (rbd migration prepare)")]
    NotMigrating,
    /// The migration's state does not allow the operation.
    #[error("the migration is {state}, and would have to be {wanted}")]
    MigrationState {
        /// The state.
        state: &'static str,
        /// The state that the operation needs.
        wanted: &'static str,
    },
    /// The image has snapshots that cannot be migrated.
    #[error("the image has snapshots that cannot be migrated: {0}")]
    MigrationSnapshots(&'static str),
    /// The image is a non-primary copy, which only its mirror may change.
    #[error("the image is read-only: it is not primary (promote it: rbd mirror image promote)")]
    NonPrimary,
    /// A non-primary image can be removed only by its mirror.
    #[error("the image is mirrored and not primary: it goes when the primary one does")]
    RemovesNonPrimary,
    /// Since the image was opened for writing it got features that this crate does not support.
    #[error("the image has become read-only: it has features now that are not supported here: {0}")]
    Frozen(String),
    /// Features that cannot be switched on or off now.
    #[error("{features} {why}")]
    Switch {
        /// The features.
        features: String,
        /// The reason.
        why: &'static str,
    },
    /// The chain of clones is too long.
    #[error("the image has more than {0} ancestors")]
    Ancestors(u32),
    /// The image is not a clone.
    #[error("the image has no parent")]
    NoParent,
    /// A clone of version 1 needs a protected snapshot in its own namespace.
    #[error(
        "snapshot '{0}' must be protected, and in the clone's namespace, for a clone of the first version"
    )]
    Unprotected(Name),
    /// The pool cannot store images, or their data.
    #[error("the pool does not support images: {0}")]
    UnfitPool(&'static str),
    /// The numbers are not a valid layout.
    #[error(
        "objects of 2^{order} bytes, stripe unit {stripe_unit}, stripe count {stripe_count} are no layout of an image"
    )]
    Layout {
        /// The base-2 logarithm of the object size.
        order: u8,
        /// The stripe unit in bytes.
        stripe_unit: u64,
        /// The stripe count in objects.
        stripe_count: u64,
    },
    /// The image was opened for reading, or at a snapshot.
    #[error("the image is open for reading only")]
    ReadOnly,
    /// The range exceeds the image, or the limit of one I/O.
    #[error("bytes {offset} to {end} are not within the image of {size}")]
    Range {
        /// The first byte.
        offset: u64,
        /// The first byte behind the range.
        end: u64,
        /// The image's size in bytes.
        size: u64,
    },
    /// The range must lie in one stripe unit and does not, or a length is not a multiple of the
    /// pattern's length.
    #[error("bytes {offset} to {end} cannot be changed at once")]
    Indivisible {
        /// The first byte.
        offset: u64,
        /// The first byte behind the range.
        end: u64,
    },
    /// Not a valid block size to look for zeros.
    #[error("{block_bytes} is no power of two from 4096 to {object_bytes}, an object's size")]
    Block {
        /// The block size in bytes.
        block_bytes: u64,
        /// The object size in bytes.
        object_bytes: u64,
    },
    /// The image would shrink and lose data, and the caller did not allow it.
    #[error("the image would shrink from {from} to {to} bytes, and that was not allowed")]
    WouldShrink {
        /// The current size in bytes.
        from: u64,
        /// The requested size in bytes.
        to: u64,
    },
    /// An image with snapshots cannot be removed.
    #[error("the image has {0} snapshots")]
    HasSnapshots(usize),
    /// All snapshots of the image are in its snapshot trash, because clones still need them.
    #[error("the image has {0} snapshots with linked clones")]
    HasClones(usize),
    /// The namespace does not exist.
    #[error("no namespace '{0}'")]
    NoNamespace(Name),
    /// A namespace of that name exists.
    #[error("there is a namespace '{0}' already")]
    NamespaceExists(Name),
    /// A namespace with images cannot be removed.
    #[error("namespace '{0}' has images, or its trash has")]
    NamespaceBusy(Name),
    /// Another client has the image open.
    #[error("the image is in use")]
    InUse,
    /// A user has locked the image.
    #[error("the image is locked by {0}")]
    Locked(String),
    /// The lock is already held.
    #[error("{by} has the lock")]
    LockTaken {
        /// The client that holds it.
        by: String,
        /// EEXIST if it is this client, EBUSY otherwise.
        errno: Errno,
    },
    /// The exclusive lock was lost, and the client that owned it was blocklisted.
    #[error("the client that had the exclusive lock was blocklisted, and {by} has, or had, the lock since")]
    LockLost {
        /// The client that owns it now, if known.
        by: String,
    },
    /// The exclusive lock was broken while this client owned it, without blocklisting the client.
    #[error("the exclusive lock was broken while it was held here, and {by} has, or had, the lock since")]
    LockBroken {
        /// The client that owns it now, if known.
        by: String,
    },
    /// There is no such lock to release or to break.
    #[error("there is no lock of {0}")]
    NoLock(Name),
    /// The image belongs to a group.
    #[error("the image belongs to a group")]
    InGroup,
    /// The image belongs to another group.
    #[error("the image belongs to another group")]
    OtherGroup,
    /// The group does not exist.
    #[error("no group '{0}'")]
    NoGroup(Name),
    /// A group of that name exists.
    #[error("there is a group '{0}' already")]
    GroupExists(Name),
    /// A group can only have images of its own namespace; they may be in other pools.
    #[error("a group and its images lie in one namespace")]
    GroupNamespace,
    /// A group is rolled back as a whole: the snapshot must be complete and of exactly its current
    /// images.
    #[error("snapshot '{0}' is not complete, or not of the images that the group has now")]
    OtherMembers(Name),
    /// The image is not in the trash.
    #[error("no image of id '{0}' in the trash")]
    NotInTrash(String),
    /// The image's retention time has not ended; its removal can be forced.
    #[error("the image is kept until {0} (UTC)")]
    KeptUntil(String),
    /// Some images could not be removed.
    #[error("{count} images could not be removed; the first: {why}")]
    Kept {
        /// How many.
        count: usize,
        /// Why the first of them could not be removed.
        why: Box<Error>,
    },
    /// The bytes differ from those expected.
    #[error("byte {0} of the image differs")]
    Mismatch(u64),
    /// Data in the cache could not be written back, now or earlier.
    #[error("writing back: {0}")]
    WriteBack(Arc<Error>),
    /// The image could change without a notification to its cache.
    #[error("only snapshots, and images with exclusive-lock that are open for writing, can have a cache")]
    NoCache,
    /// The object map is missing or invalid.
    #[error("the object map is missing or invalid")]
    NoObjectMap,
    /// Stored data cannot be decoded.
    #[error("{what}: {source}")]
    Decode {
        /// What was decoded.
        what: &'static str,
        /// What is wrong with it.
        source: DecodeError,
    },
}

impl Error {
    /// The errno that librbd would return.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Rados(e) => e.errno(),
            Self::NoImage(_)
            | Self::NoSnapshot(_)
            | Self::NoNamespace(_)
            | Self::NoLock(_)
            | Self::NoGroup(_)
            | Self::NotInTrash(_) => Errno::ENOENT,
            Self::LockTaken { errno, .. } | Self::OldFormat { errno, .. } => *errno,
            Self::LockLost { .. } | Self::LockBroken { .. } => Errno::EBLOCKLISTED,
            Self::InGroup => Errno::EMLINK,
            Self::KeptUntil(_) => Errno::EPERM,
            Self::Kept { why, .. } => why.errno(),
            Self::WriteBack(why) => why.errno(),
            Self::ImageExists(_)
            | Self::SnapshotExists(_)
            | Self::NamespaceExists(_)
            | Self::GroupExists(_)
            | Self::OtherGroup => Errno::EEXIST,
            Self::Features(_) => Errno::EOPNOTSUPP,
            Self::Ancestors(_) => Errno::ELOOP,
            Self::Layout { .. }
            | Self::UnfitPool(_)
            | Self::Block { .. }
            | Self::Range { .. }
            | Self::Indivisible { .. }
            | Self::NoParent
            | Self::RemovesNonPrimary
            | Self::NoCache
            | Self::NoObjectMap
            | Self::LaterSnapshot
            | Self::GroupNamespace
            | Self::OtherMembers(_)
            | Self::Unprotected(_)
            | Self::Switch { .. }
            | Self::NotMigrating
            | Self::MigrationState { .. }
            | Self::WouldShrink { .. } => Errno::EINVAL,
            Self::ReadOnly
            | Self::NonPrimary
            | Self::Frozen(_)
            | Self::MigratingAway(_)
            | Self::Locked(_) => Errno::EROFS,
            Self::HasSnapshots(_) | Self::HasClones(_) => Errno::ENOTEMPTY,
            Self::InUse
            | Self::SnapshotBusy(_)
            | Self::Migrating(_)
            | Self::MigrationSnapshots(_)
            | Self::NamespaceBusy(_) => Errno::EBUSY,
            Self::Mismatch(_) => Errno::EILSEQ,
            Self::Decode { .. } => Errno::EPROTO,
        }
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.errno() == Errno::ENOENT
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::Rados(errno.into())
    }
}

impl From<loligo_cache::Error<Error>> for Error {
    fn from(e: loligo_cache::Error<Self>) -> Self {
        match e {
            loligo_cache::Error::Read(e) => e,
            loligo_cache::Error::WriteBack(e) | loligo_cache::Error::Full(e) => Self::WriteBack(e),
            loligo_cache::Error::GivenUp => Self::WriteBack(Arc::new(Errno::EIO.into())),
        }
    }
}
