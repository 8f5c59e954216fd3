use std::sync::Arc;

/// Why something could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// The back end did not give what is not cached.
    #[error(transparent)]
    Read(E),
    /// The back end did not take what was written, now or earlier. It is still in the cache, and is tried again.
    #[error("writing back: {0}")]
    WriteBack(Arc<E>),
    /// Writing back ended without an answer, since the task that waited for it did.
    #[error("writing back ended without an answer")]
    GivenUp,
}
