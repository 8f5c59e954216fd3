//! The errors of striped files, and their errnos.

use loligo_rados::Errno;

use crate::segments::Segments;
use loligo_layout::LayoutError;

/// Why an operation on a striped file failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A RADOS request failed, or was not answered.
    #[error(transparent)]
    Rados(#[from] loligo_rados::Error),
    /// Three numbers are not a layout.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The file's first object exists, but is not that of a striped file.
    #[error("no striped file: its first object has no attribute {0}")]
    NotStriped(&'static str),
    /// An attribute of the first object has an impossible value.
    #[error("the attribute {name} of its first object is '{value}'")]
    Attribute {
        /// The attribute's name.
        name: &'static str,
        /// The attribute's value.
        value: String,
    },
    /// The attribute is reserved: it holds the file's size, its layout or its lock.
    #[error("the attribute {} is the file's own", .0.escape_ascii())]
    OwnAttribute(Vec<u8>),
    /// Another client has the file open, so that it cannot be truncated or removed; or another client
    /// truncates or removes it.
    #[error("in use: its lock is held by {}", if holders.is_empty() { "somebody" } else { holders })]
    InUse {
        /// The lock's owners, as text for people.
        holders: String,
    },
    /// The file's lock was lost: its renewal failed, or another client has broken it.
    #[error("its lock was lost ({0})")]
    LockLost(Errno),
    /// An earlier write of the same stream failed.
    #[error("an earlier write failed")]
    AfterFailure,
    /// Data written to a cached file could not be written back.
    #[error("writing back: {0}")]
    WriteBack(std::sync::Arc<Error>),
    /// The file would exceed the maximum size.
    #[error("a file has at most {} bytes", crate::FILE_BYTES_MAX)]
    TooLong,
    /// Stock programs could not read a file with this layout.
    #[error("libradosstriper knows objects of less than 2 GiB and stripe counts below 2^31 only")]
    NotForStock,
}

impl Error {
    /// The errno that stock programs would report.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Rados(e) => e.errno(),
            Self::Layout(_) | Self::Attribute { .. } | Self::NotForStock => Errno::EINVAL,
            // libradosstriper returns ENOENT when an attribute is missing.
            Self::NotStriped(_) => Errno::ENOENT,
            Self::InUse { .. } => Errno::EBUSY,
            Self::OwnAttribute(_) => Errno::EPERM,
            Self::LockLost(_) | Self::AfterFailure => Errno::EIO,
            Self::WriteBack(e) => e.errno(),
            Self::TooLong => Errno::EFBIG,
        }
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Rados(e) if e.is_not_found())
    }
}

/// A read that failed.
#[derive(Debug, thiserror::Error)]
#[error("at byte {at}: {source}")]
pub struct ReadError {
    /// The first byte that could not be read.
    pub at: u64,
    /// The data from the start of the read up to `at`, all of it valid.
    pub before: Segments,
    /// The cause.
    #[source]
    pub source: Error,
}

/// A write that failed.
#[derive(Debug, thiserror::Error)]
#[error("at byte {at}: {source}")]
pub struct WriteError {
    /// The first byte that may not have been written. All bytes from the start of the write up to it
    /// have been written; some after it may have been.
    pub at: u64,
    /// The cause.
    #[source]
    pub source: Error,
}
