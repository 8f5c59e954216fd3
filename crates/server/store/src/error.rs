//! Errors of a store.

use loligo_wire::PgId;

use crate::NameTooLong;

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The transaction needs more room than is left. Nothing of it was done.
    #[error("the store is full: {needed} bytes needed, {free} of {capacity} free")]
    Full {
        /// Bytes the transaction may need, overhead included.
        needed: u64,
        /// Bytes that are left.
        free: u64,
        /// Bytes the store may use.
        capacity: u64,
    },
    /// A change would make an object larger than [`OBJECT_BYTES_MAX`](crate::OBJECT_BYTES_MAX). Nothing was
    /// done.
    #[error("an object would grow to {size} bytes")]
    TooLarge {
        /// The size it would have.
        size: u64,
    },
    /// A name that no store can keep. Nothing was done.
    #[error(transparent)]
    Name(#[from] NameTooLong),
    /// The collection does not exist (any more).
    #[error("no collection {0}")]
    NoCollection(PgId),
    /// The store stopped, on a failed write or at shutdown; what was not acknowledged may be lost.
    #[error("the store has stopped")]
    Stopped,
    /// Bytes on the medium are not those that were written, or cannot be read.
    #[error("bad data at offset {offset}: {what}")]
    BadData {
        /// Where in the object.
        offset: u64,
        /// What was found.
        what: String,
    },
}
