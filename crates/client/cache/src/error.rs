//! Errors of reads and writes through the cache.

use std::sync::Arc;

/// Why a read or write failed.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// The back end failed to read data that is not cached.
    #[error(transparent)]
    Read(E),
    /// The back end failed to write data, now or earlier. The data is still in the cache and is retried.
    #[error("writing back: {0}")]
    WriteBack(Arc<E>),
    /// The limit of dirty data is reached, and dirty data of another file cannot be written back. This
    /// file's back end has not failed.
    #[error("too much is dirty, and cannot be written back: {0}")]
    Full(Arc<E>),
    /// Writing back ended without a result, since its task ended.
    #[error("writing back ended without an answer")]
    GivenUp,
}
