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

/// A striped file that is open: its lock is held, shared with others that have it open, until it is
/// [closed](File::close) or dropped.
///
/// All I/O is direct: nothing is kept here, and a write has reached the OSDs' disks when it is done. I/Os of
/// one file may be under way at the same time. Each of them is several requests, one for each object, so it
/// is not atomic.
#[derive(Debug)]
pub struct File {
    inner: Arc<Inner>,
    guard: Option<LockGuard>,
}

/// What I/Os under way need of their file.
#[derive(Debug)]
pub(crate) struct Inner {
    direct: Direct,
    head: Head,
    lock: Option<LockState>,
    /// The file is at least as long: as long as its lock is held it only grows.
    size: AtomicU64,
}

impl File {
    pub(crate) fn new(direct: Direct, head: Head, guard: Option<LockGuard>, size: u64) -> Self {
        let lock = guard.as_ref().map(LockGuard::state);
        Self { inner: Arc::new(Inner { direct, head, lock, size: size.into() }), guard }
    }

    /// How it is laid out.
    pub fn layout(&self) -> Layout {
        self.inner.direct.layout()
    }

    /// Its objects.
    pub fn direct(&self) -> &Direct {
        &self.inner.direct
    }

    /// Its size now, in bytes.
    ///
    /// # Errors
    /// What kept the cluster from saying it.
    pub async fn size(&self) -> Result<u64, Error> {
        self.inner.refreshed_size().await
    }

    /// Reads `len` bytes at `offset`, fewer if the file ends before, nothing behind its end. All of them are
    /// in memory then; [`File::read_stream`] is for long ranges.
    ///
    /// # Errors
    /// The first by offset, with the bytes before it.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Segments, ReadError> {
        self.inner.read(Ask::Plain, offset, len).await
    }

    /// The same, with the holes within objects, as OSDs' stores report them.
    ///
    /// # Errors
    /// As [`File::read`].
    pub async fn read_sparse(&self, offset: u64, len: u64) -> Result<Segments, ReadError> {
        self.inner.read(Ask::Sparse, offset, len).await
    }

    /// Writes at `offset`; the file grows as needed, what lies between is a hole.
    ///
    /// # Errors
    /// The first by offset. Dropped, the future gives up what is under way: which of the data was written is
    /// not known then.
    pub async fn write(&self, offset: u64, data: impl Into<Buffers>) -> Result<(), WriteError> {
        self.inner.write(offset, data.into(), None).await
    }

    /// Writes at the file's end, and returns where that was. Never in parallel with another append through
    /// this `File`; the place is claimed before data is written, so that what others append with this library
    /// lands behind or before it. (libradosstriper does not claim: two of its writers that append at once may
    /// get the same place.)
    ///
    /// # Errors
    /// As [`File::write`]. What could not be written is a hole.
    pub async fn append(&mut self, data: impl Into<Buffers>) -> Result<u64, WriteError> {
        self.append_claimed(data.into(), |_| None).await
    }

    /// The same; the claim of the place sets an attribute of the file in the same change, with the value that
    /// `value` makes of the place. So readers can be told that what lies there may not be written yet; the
    /// caller removes it when it is.
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

    /// The cookie of its lock, which no other open file has; `None` at a snapshot.
    pub fn lock_cookie(&self) -> Option<&Name> {
        self.guard.as_ref().map(LockGuard::cookie)
    }

    /// Makes the file at least `size` bytes long; what is new is a hole.
    ///
    /// # Errors
    /// [`Error::TooLong`], or what kept the cluster from doing it.
    pub async fn extend(&self, size: u64) -> Result<(), Error> {
        self.inner.check()?;
        self.inner.grow(size).await
    }

    pub(crate) fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Closes it: gives up the lock and waits until that is done.
    ///
    /// # Errors
    /// If the lock was lost before: then somebody may have truncated or removed the file meanwhile.
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

    /// The file is at least as long.
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

    /// Writes; if the file must grow it does so to `reserve`, if that is further.
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

    /// Where a range ends, or the file if it ends before.
    pub(crate) async fn end_of(&self, offset: u64, len: u64) -> Result<u64, Error> {
        let end = offset.saturating_add(len);
        if end <= self.size.load(Ordering::Relaxed) {
            return Ok(end);
        }
        Ok(self.refreshed_size().await?.min(end))
    }

    async fn refreshed_size(&self) -> Result<u64, Error> {
        let size = self.head.size().await?;
        // Answers may overtake each other; the file does not shrink.
        Ok(self.size.fetch_max(size, Ordering::Relaxed).max(size))
    }

    /// Extends the file by `len` bytes that nobody else extends it by. Returns where they begin.
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
