//! What lies behind the cache.

use bytes::Bytes;

/// The objects of one file or image, by their numbers.
///
/// Nothing is asked of it under a lock. Requests for different blocks may be under way together; writes of
/// one block are not: the next one is sent when the last one has ended.
pub trait Backend: Send + Sync + 'static {
    /// Why a request failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reads a range of an object. An answer that is shorter ends where the object does; the rest, and an
    /// object that there is not, are zeros. What is longer than was asked for is cut off.
    fn read(
        &self,
        object: u64,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;

    /// Writes extents of an object, ascending and apart from each other, by offset: all of them or, if it
    /// fails, any part.
    fn write(
        &self,
        object: u64,
        extents: Vec<(u64, Bytes)>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
