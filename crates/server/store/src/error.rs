//! Errors of a store.

use loligo_wire::PgId;

use crate::NameTooLong;

/// Why a store refused or failed a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The transaction needs more space than is left. Nothing of it was applied.
    #[error("the store is full: {needed} bytes needed, {free} of {capacity} free")]
    Full {
        /// Bytes the transaction may need, overhead included.
        needed: u64,
        /// Bytes that are free.
        free: u64,
        /// Bytes the store may use.
        capacity: u64,
    },
    /// A change would make an object larger than [`OBJECT_BYTES_MAX`](crate::OBJECT_BYTES_MAX). Nothing
    /// was applied.
    #[error("an object would grow to {size} bytes")]
    TooLarge {
        /// The size it would have.
        size: u64,
    },
    /// A name that no store can keep. Nothing was applied.
    #[error(transparent)]
    Name(#[from] NameTooLong),
    /// The collection does not exist, or no longer exists.
    #[error("no collection {0}")]
    NoCollection(PgId),
    /// The store stopped, on a failed write or at shutdown; unacknowledged transactions may be lost.
    #[error("the store has stopped")]
    Stopped,
    /// Bytes on the medium differ from what was written, or cannot be read.
    #[error("bad data at offset {offset}: {what}")]
    BadData {
        /// The offset in the object.
        offset: u64,
        /// A description of the fault.
        what: String,
    },
}
