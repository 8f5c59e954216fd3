//! An open striped file.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_rados::{LockGuard, LockState, Name};

use crate::FILE_BYTES_MAX;
use crate::buffers::Buffers;
use crate::direct::{Ask, Direct};
use crate::error::{Error, ReadError, WriteError};
use crate::head::Head;
use crate::segments::Segments;
use loligo_layout::Layout;

/// An open striped file. Its lock is held, shared with other clients that have it open, until the file
/// is [closed](File::close) or dropped.
///
/// All I/O is direct: nothing is cached, and a completed write is on the OSDs' disks. I/Os of one file
/// may run concurrently. Each I/O consists of one request for each object, so it is not atomic.
#[derive(Debug)]
pub struct File {
    inner: Arc<Inner>,
    guard: Option<LockGuard>,
}

/// The state shared with I/Os in flight.
#[derive(Debug)]
pub(crate) struct Inner {
    direct: Direct,
    head: Head,
    lock: Option<LockState>,
    /// A lower bound of the file's size: while its lock is held, the file only grows.
    size: AtomicU64,
}

impl File {
    pub(crate) fn new(direct: Direct, head: Head, guard: Option<LockGuard>, size: u64) -> Self {
        let lock = guard.as_ref().map(LockGuard::state);
        Self { inner: Arc::new(Inner { direct, head, lock, size: size.into() }), guard }
    }

    /// The file's layout.
    pub fn layout(&self) -> Layout {
        self.inner.direct.layout()
    }

    /// The file's objects.
    pub fn direct(&self) -> &Direct {
        &self.inner.direct
    }

    /// Queries the file's current size in bytes.
    ///
    /// # Errors
    /// Errors of the query.
    pub async fn size(&self) -> Result<u64, Error> {
        self.inner.refreshed_size().await
    }

    /// Reads `len` bytes at `offset`; fewer if the file ends before, and none behind its end. All of
    /// them are held in memory; use [`File::read_stream`] for long ranges.
    ///
    /// # Errors
    /// The first by offset, with the bytes before it.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Segments, ReadError> {
        self.inner.read(Ask::Plain, offset, len).await
    }

    /// Like [`File::read`], but also reports the holes within objects, according to the OSDs' stores.
    ///
    /// # Errors
    /// As [`File::read`].
    pub async fn read_sparse(&self, offset: u64, len: u64) -> Result<Segments, ReadError> {
        self.inner.read(Ask::Sparse, offset, len).await
    }

    /// Writes at `offset`. The file grows as needed; a gap before `offset` is a hole.
    ///
    /// # Errors
    /// The first by offset. If the future is dropped, the requests in flight are abandoned: it is
    /// unknown which of the data was written.
    pub async fn write(&self, offset: u64, data: impl Into<Buffers>) -> Result<(), WriteError> {
        self.inner.write(offset, data.into(), None).await
    }

    /// Writes at the file's end, and returns the offset of the data. Appends through this `File` are
    /// exclusive. The range is claimed before data is written, so appends of other clients of this
    /// library do not overlap it. (libradosstriper does not claim a range: two of its writers that
    /// append at once may get the same offset.)
    ///
    /// # Errors
    /// As [`File::write`]. Data that could not be written leaves a hole.
    pub async fn append(&mut self, data: impl Into<Buffers>) -> Result<u64, WriteError> {
        self.append_claimed(data.into(), |_| None).await
    }

    /// Like [`File::append`], but the claim also sets an attribute of the file in the same change, to
    /// the value that `value` returns for the claimed range. It can tell readers that the data there may
    /// not be written yet. The caller removes the attribute when the data is written.
    ///
    /// # Errors
    /// As [`File::append`]; [`Error::OwnAttribute`].
    pub async fn append_noted(
        &mut self,
        data: impl Into<Buffers>,
        attribute: &[u8],
        value: impl Fn(Range<u64>) -> Vec<u8>,
    ) -> Result<u64, WriteError> {
        self.append_claimed(data.into(), |place| Some((attribute, value(place)))).await
    }

    async fn append_claimed<'n>(
        &self,
        data: Buffers,
        note: impl Fn(Range<u64>) -> Option<(&'n [u8], Vec<u8>)>,
    ) -> Result<u64, WriteError> {
        let claimed = self.inner.claim(data.len(), note).await;
        let at = claimed.map_err(|source| WriteError { at: self.inner.known_size(), source })?;
        self.inner.write(at, data, None).await?;
        Ok(at)
    }

    /// The cookie of the file's lock, unique to this open file; `None` at a snapshot.
    pub fn lock_cookie(&self) -> Option<&Name> {
        self.guard.as_ref().map(LockGuard::cookie)
    }

    /// Grows the file to at least `size` bytes; the new part is a hole.
    ///
    /// # Errors
    /// [`Error::TooLong`], and errors of the request.
    pub async fn extend(&self, size: u64) -> Result<(), Error> {
        self.inner.check()?;
        self.inner.grow(size).await
    }

    pub(crate) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Closes the file: releases the lock and waits until that is done.
    ///
    /// # Errors
    /// If the lock was lost before: then another client may have truncated or removed the file
    /// meanwhile.
    pub async fn close(self) -> Result<(), Error> {
        match self.guard {
            None => Ok(()),
            Some(guard) => {
                let state = guard.state();
                guard.release().await.map_err(|e| state.lost().map_or(Error::Rados(e), Error::LockLost))
            }
        }
    }
}

impl Inner {
    pub(crate) fn direct(&self) -> &Direct {
        &self.direct
    }

    /// A lower bound of the file's size.
    pub(crate) fn known_size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    pub(crate) fn layout(&self) -> Layout {
        self.direct.layout()
    }

    pub(crate) async fn read(&self, ask: Ask, offset: u64, len: u64) -> Result<Segments, ReadError> {
        let nothing = |source| ReadError { at: offset, before: Segments::empty(offset), source };
        self.check().map_err(nothing)?;
        let end = self.end_of(offset, len).await.map_err(nothing)?;
        if end <= offset {
            return Ok(Segments::empty(offset));
        }
        self.direct.read_as(ask, offset, end - offset).await
    }

    /// Writes. If the file must grow, it grows to `reserve` if that is larger.
    pub(crate) async fn write(
        &self,
        offset: u64,
        data: Buffers,
        reserve: Option<u64>,
    ) -> Result<(), WriteError> {
        let nothing = |source| WriteError { at: offset, source };
        self.check().map_err(nothing)?;
        let end = offset.checked_add(data.len()).filter(|end| *end <= FILE_BYTES_MAX);
        let end = end.ok_or_else(|| nothing(Error::TooLong))?;
        if end > self.size.load(Ordering::Relaxed) && !data.is_empty() {
            let size = reserve.map_or(end, |reserve| reserve.max(end));
            self.grow(size).await.map_err(nothing)?;
        }
        self.direct.write(offset, data).await
    }

    pub(crate) async fn grow(&self, size: u64) -> Result<(), Error> {
        if size > FILE_BYTES_MAX {
            return Err(Error::TooLong);
        }
        if size > self.size.load(Ordering::Relaxed) {
            self.head.grow(size).await?;
            self.size.fetch_max(size, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The end of a range, or of the file if it ends before.
    pub(crate) async fn end_of(&self, offset: u64, len: u64) -> Result<u64, Error> {
        let end = offset.saturating_add(len);
        if end <= self.size.load(Ordering::Relaxed) {
            return Ok(end);
        }
        Ok(self.refreshed_size().await?.min(end))
    }

    async fn refreshed_size(&self) -> Result<u64, Error> {
        let size = self.head.size().await?;
        // Replies may be reordered; the file does not shrink.
        Ok(self.size.fetch_max(size, Ordering::Relaxed).max(size))
    }

    /// Extends the file by `len` bytes that no other client claims. Returns their offset.
    async fn claim<'n>(
        &self,
        len: u64,
        note: impl Fn(Range<u64>) -> Option<(&'n [u8], Vec<u8>)>,
    ) -> Result<u64, Error> {
        self.check()?;
        loop {
            let size = self.refreshed_size().await?;
            let end = size.checked_add(len).filter(|end| *end <= FILE_BYTES_MAX).ok_or(Error::TooLong)?;
            if len == 0 || self.head.exchange_size(size, end, note(size..end)).await? {
                self.size.fetch_max(end, Ordering::Relaxed);
                return Ok(size);
            }
        }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.lock.as_ref().and_then(LockState::lost) {
            None => Ok(()),
            Some(errno) => Err(Error::LockLost(errno)),
        }
    }
}
