//! What can go wrong with an image.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::{DecodeError, Name};

/// Why work on an image failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster's answer, or none.
    #[error(transparent)]
    Rados(#[from] loligo_rados::Error),
    /// There is no such image.
    #[error("no image '{0}'")]
    NoImage(Name),
    /// There is one of that name.
    #[error("there is an image '{0}' already")]
    ImageExists(Name),
    /// The image has no such snapshot.
    #[error("no snapshot '{0}'")]
    NoSnapshot(Name),
    /// A difference is to an older snapshot.
    #[error("the snapshot to compare with is newer")]
    LaterSnapshot,
    /// It has one of that name.
    #[error("there is a snapshot '{0}' already")]
    SnapshotExists(Name),
    /// Clones need it, or it is protected.
    #[error("snapshot '{0}' is protected or has clones")]
    SnapshotBusy(Name),
    /// The image can be used only by who knows more than is known here.
    #[error("features that are not supported here: {0}")]
    Features(String),
    /// The image is of the first format.
    #[error("images of format 1 cannot {what}; copy it: a copy is of format 2")]
    OldFormat {
        /// What it cannot.
        what: &'static str,
        /// The errno that librbd gives.
        errno: Errno,
    },
    /// The image is being migrated, and something has to wait for that.
    #[error("the image is being migrated: {0}")]
    Migrating(&'static str),
    /// The image is being migrated to another place.
    #[error("the image is read-only: it is being migrated to '{0}', which is to be used in its place")]
    MigratingAway(Name),
    /// The image is in no migration.
    #[error("the image is not being migrated (rbd migration prepare)")]
    NotMigrating,
    /// A migration is not where it would have to be for what is wanted.
    #[error("the migration is {state}, and would have to be {wanted}")]
    MigrationState {
        /// What it is.
        state: &'static str,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// Snapshots that no migration takes along.
    #[error("the image has snapshots that cannot be migrated: {0}")]
    MigrationSnapshots(&'static str),
    /// The image is the copy of a primary image, which only its mirror may change.
    #[error("the image is read-only: it is not primary (promote it: rbd mirror image promote)")]
    NonPrimary,
    /// An image that only its mirror may remove.
    #[error("the image is mirrored and not primary: it goes when the primary one does")]
    RemovesNonPrimary,
    /// Since the image was opened for writing it has got features that are not supported here.
    #[error("the image has become read-only: it has features now that are not supported here: {0}")]
    Frozen(String),
    /// Features that cannot be switched on or off now.
    #[error("{features} {why}")]
    Switch {
        /// Which.
        features: String,
        /// Why not.
        why: &'static str,
    },
    /// A clone of a clone of a clone, and so on.
    #[error("the image has more than {0} ancestors")]
    Ancestors(u32),
    /// The image is no clone.
    #[error("the image has no parent")]
    NoParent,
    /// A clone of the first version needs a protected snapshot in its own namespace.
    #[error(
        "snapshot '{0}' must be protected, and in the clone's namespace, for a clone of the first version"
    )]
    Unprotected(Name),
    /// A pool that can have no images, or no data of images.
    #[error("the pool does not support images: {0}")]
    UnfitPool(&'static str),
    /// Numbers that are no layout.
    #[error(
        "objects of 2^{order} bytes, stripe unit {stripe_unit}, stripe count {stripe_count} are no layout of an image"
    )]
    Layout {
        /// Of an object's size, to the base 2.
        order: u8,
        /// Bytes.
        stripe_unit: u64,
        /// Objects.
        stripe_count: u64,
    },
    /// The image was opened for reading, or at a snapshot.
    #[error("the image is open for reading only")]
    ReadOnly,
    /// The range lies outside of the image.
    #[error("bytes {offset} to {end} are not within the image of {size}")]
    Range {
        /// The first byte.
        offset: u64,
        /// The first byte behind.
        end: u64,
        /// Bytes of the image.
        size: u64,
    },
    /// What must lie in one object's stripe unit does not, or a length is no multiple of a pattern's.
    #[error("bytes {offset} to {end} cannot be changed at once")]
    Indivisible {
        /// The first byte.
        offset: u64,
        /// The first byte behind.
        end: u64,
    },
    /// Blocks in which nobody can look for zeros.
    #[error("{block_bytes} is no power of two from 4096 to {object_bytes}, an object's size")]
    Block {
        /// Bytes of a block.
        block_bytes: u64,
        /// Bytes of an object.
        object_bytes: u64,
    },
    /// The image is smaller than it was compared with: it would lose data.
    #[error("the image would shrink from {from} to {to} bytes, and that was not allowed")]
    WouldShrink {
        /// Bytes now.
        from: u64,
        /// Bytes wanted.
        to: u64,
    },
    /// Only images without snapshots can be removed.
    #[error("the image has {0} snapshots")]
    HasSnapshots(usize),
    /// All its snapshots are in their trash: clones still need them.
    #[error("the image has {0} snapshots with linked clones")]
    HasClones(usize),
    /// There is no such namespace.
    #[error("no namespace '{0}'")]
    NoNamespace(Name),
    /// There is one of that name.
    #[error("there is a namespace '{0}' already")]
    NamespaceExists(Name),
    /// Only namespaces without images can be removed.
    #[error("namespace '{0}' has images, or its trash has")]
    NamespaceBusy(Name),
    /// Somebody else has the image open.
    #[error("the image is in use")]
    InUse,
    /// Somebody has locked the image by hand.
    #[error("the image is locked by {0}")]
    Locked(String),
    /// Somebody has the lock that was to be taken by hand.
    #[error("{by} has the lock")]
    LockTaken {
        /// Who.
        by: String,
        /// EEXIST if it is this client, EBUSY else.
        errno: Errno,
    },
    /// The exclusive lock was lost with the client that held it.
    #[error("the client that had the exclusive lock was blocklisted, and {by} has, or had, the lock since")]
    LockLost {
        /// The client that has it now, as far as that is known.
        by: String,
    },
    /// The exclusive lock was taken away from this client while it held it.
    #[error("the exclusive lock was broken while it was held here, and {by} has, or had, the lock since")]
    LockBroken {
        /// The client that has it now, as far as that is known.
        by: String,
    },
    /// There is no such lock to give up or to break.
    #[error("there is no lock of {0}")]
    NoLock(Name),
    /// The image belongs to a group.
    #[error("the image belongs to a group")]
    InGroup,
    /// The image belongs to another group.
    #[error("the image belongs to another group")]
    OtherGroup,
    /// There is no such group.
    #[error("no group '{0}'")]
    NoGroup(Name),
    /// There is one of that name.
    #[error("there is a group '{0}' already")]
    GroupExists(Name),
    /// A group has images of its own namespace only, be it in other pools.
    #[error("a group and its images lie in one namespace")]
    GroupNamespace,
    /// A group is rolled back as a whole, or not at all.
    #[error("snapshot '{0}' is not complete, or not of the images that the group has now")]
    OtherMembers(Name),
    /// There is no such image in the trash.
    #[error("no image of id '{0}' in the trash")]
    NotInTrash(String),
    /// The image is kept; its removal can be forced.
    #[error("the image is kept until {0} (UTC)")]
    KeptUntil(String),
    /// Images that were to be removed, and are not.
    #[error("{count} images could not be removed; the first: {why}")]
    Kept {
        /// How many.
        count: usize,
        /// Why the first of them could not.
        why: Box<Error>,
    },
    /// The bytes there are others.
    #[error("byte {0} of the image differs")]
    Mismatch(u64),
    /// What was written into a cache could not be written back, now or earlier.
    #[error("writing back: {0}")]
    WriteBack(Arc<Error>),
    /// What is open could change without anybody telling its cache.
    #[error("only snapshots, and images with exclusive-lock that are open for writing, can have a cache")]
    NoCache,
    /// The object map cannot be used.
    #[error("the object map is missing or invalid")]
    NoObjectMap,
    /// What the cluster holds cannot be read.
    #[error("{what}: {source}")]
    Decode {
        /// What it was.
        what: &'static str,
        /// What is wrong with it.
        source: DecodeError,
    },
}

impl Error {
    /// The errno that librbd would give.
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
            Self::InGroup => EMLINK,
            Self::KeptUntil(_) => Errno::EPERM,
            Self::Kept { why, .. } => why.errno(),
            Self::WriteBack(why) => why.errno(),
            Self::ImageExists(_)
            | Self::SnapshotExists(_)
            | Self::NamespaceExists(_)
            | Self::GroupExists(_)
            | Self::OtherGroup => Errno::EEXIST,
            Self::Features(_) => Errno::EOPNOTSUPP,
            Self::Ancestors(_) => ELOOP,
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
            Self::HasSnapshots(_) | Self::HasClones(_) => ENOTEMPTY,
            Self::InUse
            | Self::SnapshotBusy(_)
            | Self::Migrating(_)
            | Self::MigrationSnapshots(_)
            | Self::NamespaceBusy(_) => EBUSY,
            Self::Mismatch(_) => EILSEQ,
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
            loligo_cache::Error::GivenUp => Self::WriteBack(Arc::new(EIO.into())),
        }
    }
}

pub(crate) const EIO: Errno = Errno(5);
pub(crate) const EBUSY: Errno = Errno(16);
pub(crate) const EMLINK: Errno = Errno(31);
pub(crate) const ELOOP: Errno = Errno(40);
pub(crate) const ENOSYS: Errno = Errno(38);
pub(crate) const ENOTEMPTY: Errno = Errno(39);
pub(crate) const EILSEQ: Errno = Errno(84);
pub(crate) const ESTALE: Errno = Errno(116);
pub(crate) const EUCLEAN: Errno = Errno(117);
