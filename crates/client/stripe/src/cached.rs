//! An open striped file with a cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use loligo_cache::{Backend, Cache, ReadAhead};
use loligo_lockstat::{Class, Mutex};
use loligo_rados::WriteOp;

use crate::FILE_BYTES_MAX;
use crate::error::{Error, ReadError, WriteError};
use crate::file::{File, Inner};
use crate::segments::Segments;
use loligo_layout::ObjectNo;

/// Held while checking whether a read belongs to a sequential stream; not taken for
/// cache hits, unless they reach data that was read ahead.
static READ_AHEAD: Class = Class::new("stripe.read_ahead");

/// The most bytes of a read whose objects are fetched together.
const PART_BYTES: u64 = 4 << 20;

/// The objects of an open file as a cache's backend. Once the file's lock is lost, every access fails,
/// so nothing is written.
#[derive(Debug)]
pub struct CachedObjects(Arc<Inner>);

impl Backend for CachedObjects {
    type Error = Error;

    async fn read(&self, object: u64, offset: u64, len: u64) -> Result<Bytes, Error> {
        self.0.check()?;
        let direct = self.0.direct();
        match direct.ioctx().read(direct.name(ObjectNo(object)), offset, len).await {
            Err(e) if e.is_not_found() => Ok(Bytes::new()),
            answer => Ok(answer?),
        }
    }

    async fn write(&self, object: u64, extents: Vec<(u64, Vec<Bytes>)>) -> Result<(), Error> {
        self.0.check()?;
        let direct = self.0.direct();
        let op = extents.into_iter().fold(WriteOp::new(), |op, (offset, data)| op.write_pieces(offset, data));
        Ok(direct.ioctx().operate(direct.name(ObjectNo(object)), op).await?)
    }
}

/// An open striped file with a cache: reads are read ahead, writes are written back later.
///
/// Writes of other clients are visible only where this file has nothing cached. Each open file has a
/// cache of its own, within the memory that all share. If the file is dropped without
/// [`CachedFile::close`], the last writes may be lost.
#[derive(Debug)]
pub struct CachedFile {
    file: File,
    cached: loligo_cache::CachedFile<CachedObjects>,
    ahead: Mutex<ReadAhead>,
}

impl File {
    /// Puts a cache in front of the file.
    pub fn cached(self, cache: &Cache<CachedObjects>) -> CachedFile {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Each open file has its own lock, so its write-back must not depend on another's lock.
        let id = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
        let cached = cache.open(id, CachedObjects(self.inner()));
        let ahead = Mutex::new(&READ_AHEAD, ReadAhead::new(cache.options().read_ahead_max));
        CachedFile { file: self, cached, ahead }
    }
}

impl CachedFile {
    /// Reads `len` bytes at `offset`; fewer if the file ends before, and none behind its end.
    ///
    /// # Errors
    /// The first by offset, with the bytes before it.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Bytes, ReadError> {
        let nothing = |source| ReadError { at: offset, before: Segments::empty(offset), source };
        let end = self.file.inner().end_of(offset, len).await.map_err(nothing)?;
        let mut read = BytesMut::zeroed(end.saturating_sub(offset) as usize);
        match self.read_within(offset, &mut read).await {
            Ok(()) => Ok(read.freeze()),
            Err((at, source)) => {
                read.truncate((at - offset) as usize);
                Err(ReadError {
                    at,
                    before: Segments::assemble(offset, at, vec![(offset, read.freeze())]),
                    source,
                })
            }
        }
    }

    /// Writes at `offset`. If the file must grow, a request grows it at once. The data is written back
    /// later.
    ///
    /// # Errors
    /// The first by offset; also if the limit of dirty data is reached and writing back has failed.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), WriteError> {
        let nothing = |source| WriteError { at: offset, source };
        let inner = self.file.inner();
        inner.check().map_err(nothing)?;
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or_else(|| nothing(Error::TooLong))?;
        if !data.is_empty() {
            inner.grow(end).await.map_err(nothing)?;
        }
        for (at, object, object_offset, len) in self.units(offset, end) {
            let from = (at - offset) as usize;
            let written = self.cached.write(object, object_offset, &data[from..from + len]).await;
            written.map_err(|e| WriteError { at, source: e.into() })?;
        }
        Ok(())
    }

    /// Waits until all earlier writes are on the OSDs' disks.
    ///
    /// # Errors
    /// If writing back fails, or has failed before and was not reported yet. Data that could not be
    /// written stays in the cache and is retried.
    pub async fn flush(&self) -> Result<(), Error> {
        Ok(self.cached.flush().await?)
    }

    /// Flushes and drops the cached data, so that later reads see the writes of other clients.
    ///
    /// # Errors
    /// As [`CachedFile::flush`].
    pub async fn invalidate(&self) -> Result<(), Error> {
        Ok(self.cached.invalidate().await?)
    }

    /// Queries the file's current size in bytes.
    ///
    /// # Errors
    /// As [`File::size`].
    pub async fn size(&self) -> Result<u64, Error> {
        self.file.size().await
    }

    /// Flushes and closes the file.
    ///
    /// # Errors
    /// As [`CachedFile::flush`] and [`File::close`]. The file is closed in any case.
    pub async fn close(self) -> Result<(), Error> {
        let flushed = self.flush().await;
        drop(self.cached);
        flushed.and(self.file.close().await)
    }

    async fn read_within(&self, offset: u64, buf: &mut [u8]) -> Result<(), (u64, Error)> {
        let end = offset + buf.len() as u64;
        for from in (offset..end).step_by(PART_BYTES as usize) {
            let to = end.min(from + PART_BYTES);
            let part = &mut buf[(from - offset) as usize..(to - offset) as usize];
            if !self.read_cached(from, part) {
                self.read_part(from, part).await?;
            }
        }
        Ok(())
    }

    /// Reads from the cache. Returns `false` if not all of the range was cached.
    fn read_cached(&self, offset: u64, buf: &mut [u8]) -> bool {
        let mut reached = false;
        for (at, object, object_offset, len) in self.units(offset, offset + buf.len() as u64) {
            let from = (at - offset) as usize;
            match self.cached.try_read(object, object_offset, &mut buf[from..from + len]) {
                Some(hit) => reached |= hit.reached,
                None => return false,
            }
        }
        if reached {
            let ahead = self.ahead.lock().reached(offset, buf.len() as u64);
            self.read_ahead(ahead);
        }
        true
    }

    async fn read_part(&self, offset: u64, buf: &mut [u8]) -> Result<(), (u64, Error)> {
        let len = buf.len() as u64;
        let ahead = self.ahead.lock().missed(offset, len);
        self.read_ahead(ahead);
        let extents = self.file.layout().extents(offset, len);
        // A fetch that fails here fails again below, where its offset is known.
        join_all(extents.map(|extent| self.cached.fetch(extent.object.0, extent.offset, extent.len))).await;
        for (at, object, object_offset, len) in self.units(offset, offset + len) {
            let from = (at - offset) as usize;
            let read = self.cached.read(object, object_offset, &mut buf[from..from + len]).await;
            read.map_err(|e| (at, e.into()))?;
        }
        Ok(())
    }

    fn read_ahead(&self, range: Option<std::ops::Range<u64>>) {
        let Some(range) = range else { return };
        let end = range.end.min(self.file.inner().known_size());
        let len = end.saturating_sub(range.start);
        for (n, extent) in self.file.layout().extents(range.start, len).enumerate() {
            self.cached.read_ahead(extent.object.0, extent.offset, extent.len, n == 0);
        }
    }

    /// Splits a range into stripe units: offset in the file, object, offset in the object, length.
    fn units(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64, usize)> + use<> {
        let layout = self.file.layout();
        let mut at = offset;
        std::iter::from_fn(move || {
            let begins = at;
            let len = (end - at).min(layout.stripe_unit() - at % layout.stripe_unit());
            let (object, object_offset) = layout.locate(begins);
            at += len;
            (len > 0).then_some((begins, object.0, object_offset, len as usize))
        })
    }
}

impl From<loligo_cache::Error<Error>> for Error {
    fn from(e: loligo_cache::Error<Error>) -> Self {
        match e {
            loligo_cache::Error::Read(e) => e,
            loligo_cache::Error::WriteBack(e) | loligo_cache::Error::Full(e) => Self::WriteBack(e),
            loligo_cache::Error::GivenUp => Self::AfterFailure,
        }
    }
}
