//! Errors of reads and writes through the cache.

use std::sync::Arc;

/// Why something could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// The back end did not give what is not cached.
    #[error(transparent)]
    Read(E),
    /// The back end did not take what was written, now or earlier. It is still in the cache, and is tried
    /// again.
    #[error("writing back: {0}")]
    WriteBack(Arc<E>),
    /// Nothing more may be dirty, and what is dirty of another file cannot be written back. Nothing is wrong
    /// with this one's back end.
    #[error("too much is dirty, and cannot be written back: {0}")]
    Full(Arc<E>),
    /// Writing back ended without an answer, since the task that waited for it did.
    #[error("writing back ended without an answer")]
    GivenUp,
}
