//! What can go wrong with a striped file, and which errno it is.

use loligo_rados::Errno;

use crate::segments::Segments;
use loligo_layout::LayoutError;

/// Why something was not done to a striped file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster's answer, or that there was none.
    #[error(transparent)]
    Rados(#[from] loligo_rados::Error),
    /// Three numbers that are no layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// There is an object where the file's first would be, but no striped file.
    #[error("no striped file: its first object has no attribute {0}")]
    NotStriped(&'static str),
    /// The first object says what cannot be.
    #[error("the attribute {name} of its first object is '{value}'")]
    Attribute {
        /// Which one.
        name: &'static str,
        /// What it says.
        value: String,
    },
    /// The attribute is not for users: it says how long the file is or how it is laid out, or is its lock.
    #[error("the attribute {} is the file's own", .0.escape_ascii())]
    OwnAttribute(Vec<u8>),
    /// Somebody reads or writes it, so that it cannot be truncated or removed; or truncates or removes it.
    #[error("in use: its lock is held by {}", if holders.is_empty() { "somebody" } else { holders })]
    InUse {
        /// Who, for people.
        holders: String,
    },
    /// The file's lock was lost meanwhile: it could not be renewed, or somebody has broken it.
    #[error("its lock was lost ({0})")]
    LockLost(Errno),
    /// An earlier write of the same stream failed.
    #[error("an earlier write failed")]
    AfterFailure,
    /// What was written to a cached file could not be written back.
    #[error("writing back: {0}")]
    WriteBack(std::sync::Arc<Error>),
    /// The file would be longer than files can be.
    #[error("a file has at most {} bytes", crate::FILE_BYTES_MAX)]
    TooLong,
    /// Stock programs could not read it.
    #[error("libradosstriper knows objects of less than 2 GiB and stripe counts below 2^31 only")]
    NotForStock,
}

impl Error {
    /// The errno that stock programs would report.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Rados(e) => e.errno(),
            Self::Layout(_) | Self::Attribute { .. } | Self::NotForStock => Errno::EINVAL,
            // libradosstriper's answer when an attribute is missing.
            Self::NotStriped(_) => Errno::ENOENT,
            Self::InUse { .. } => EBUSY,
            Self::OwnAttribute(_) => EPERM,
            Self::LockLost(_) | Self::AfterFailure => Errno::EIO,
            Self::WriteBack(e) => e.errno(),
            Self::TooLong => EFBIG,
        }
    }

    /// Whether there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Rados(e) if e.is_not_found())
    }
}

/// Nobody may.
const EPERM: Errno = Errno(1);
/// Somebody else has it.
pub(crate) const EBUSY: Errno = Errno(16);
/// The file is too long.
const EFBIG: Errno = Errno(27);
/// A condition did not hold (`-ECANCELED` of CMPXATTR).
pub(crate) const ECANCELED: Errno = Errno(125);

/// A read that failed.
#[derive(Debug, thiserror::Error)]
#[error("at byte {at}: {source}")]
pub struct ReadError {
    /// The first byte that could not be read.
    pub at: u64,
    /// What lies before it: from where the read began up to `at`, all of it valid.
    pub before: Segments,
    /// Why.
    #[source]
    pub source: Error,
}

/// A write that failed.
#[derive(Debug, thiserror::Error)]
#[error("at byte {at}: {source}")]
pub struct WriteError {
    /// The first byte that may not have been written: all before it, from where the write began, are. Some
    /// behind it may be.
    pub at: u64,
    /// Why.
    #[source]
    pub source: Error,
}
