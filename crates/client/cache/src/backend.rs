//! The storage behind the cache.

use bytes::Bytes;

/// The objects of one file or image, by number.
///
/// No lock is held while the back end is called. Requests for different blocks may run concurrently.
/// Writes of the same block do not: the next one is sent when the previous one has ended.
pub trait Backend: Send + Sync + 'static {
    /// Why a request failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Reads a range of an object. A short reply ends at the end of the object; the rest is zeros, as is
    /// an object that does not exist. A reply longer than the range is truncated.
    fn read(
        &self,
        object: u64,
        offset: u64,
        len: u64,
    ) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;

    /// Writes extents of an object, given by offset, ascending and not adjacent. The bytes of each come in
    /// one or more buffers, none of them empty, that the cache goes on sharing. On success all are written;
    /// on failure any part may be.
    fn write(
        &self,
        object: u64,
        extents: Vec<(u64, Vec<Bytes>)>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}
