//! Reads and changes of an image's data. An I/O sends its object requests in parallel, as far as
//! [`Room`](room::Room) has permits.

mod cache;
pub(crate) mod caching;
pub(crate) mod object_write;
pub(crate) mod room;
pub(crate) mod turns;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use loligo_rados::{Errno, IoCtx, Outcome, WriteOp};
use loligo_stripe::ObjectExtent;

pub use self::cache::ImageCache;
use crate::Error;
use crate::image::{GATE_PLACES, Image, Inner};
use crate::io::object_write::{Before, ObjectChange};
use crate::io::room::PARTS_MAX;
use crate::object_map::Writing;

/// The most bytes of one I/O: librbd's callers can request a signed 32-bit number.
pub const IO_BYTES_MAX: u64 = i32::MAX as u64;

/// An OSD's result of a failed comparison of bytes, before the offset of the byte is subtracted
/// (`MAX_ERRNO`).
const MISMATCH: i32 = -4095;

impl Image {
    /// Reads `len` bytes at `offset`, fewer if the image ends before.
    ///
    /// # Errors
    /// The first error by offset.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        self.inner.view.load().check_readable(self.inner.moving)?;
        let size = self.inner.size();
        if len > IO_BYTES_MAX {
            return Err(Error::Range { offset, end: offset.saturating_add(len), size });
        }
        let len = len.min(size.saturating_sub(offset));
        self.inner.read_newest(offset, len).await
    }

    /// Writes `data` at `offset`. When the call returns, the data are durable, or in the cache if there
    /// is one.
    ///
    /// # Errors
    /// [`Error::Range`] if the range exceeds the image; [`Error::ReadOnly`]. After any other error a
    /// part of the data may be written.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<(), Error> {
        let inner = &self.inner;
        let _place = inner.enter().await?;
        let len = data.len() as u64;
        inner.check_range(offset, len)?;
        if let Some(written) = inner.write_to_cache(offset, &data).await {
            return written;
        }
        inner.put(offset, len, Content::Data(&data)).await
    }

    /// Releases the space of a range, which then reads as zeros.
    ///
    /// # Errors
    /// As [`Image::write`].
    pub async fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let place = self.inner.enter().await?;
        inner.check_range(offset, len)?;
        let cleared = async move {
            let io = &inner.writer()?;
            let extents = inner.fixed.layout.extents(offset, len);
            let cleared = inner.room.each(extents, |extent| inner.clear(io, extent), drop);
            inner.past_the_cache(offset, len, cleared).await
        };
        self.inner.to_the_end(place, cleared).await
    }

    /// Zeroes a range and releases its space.
    ///
    /// # Errors
    /// As [`Image::write`].
    pub async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.discard(offset, len).await
    }

    /// Writes `pattern` repeatedly, `len` bytes in all; `len` must be a multiple of the pattern's
    /// length.
    ///
    /// # Errors
    /// As [`Image::write`]; [`Error::Indivisible`] if `len` is not such a multiple.
    pub async fn write_same(&self, offset: u64, len: u64, pattern: Bytes) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        if pattern.is_empty() || !len.is_multiple_of(pattern.len() as u64) {
            return Err(Error::Indivisible { offset, end: offset.saturating_add(len) });
        }
        let place = self.inner.enter().await?;
        inner.check_range(offset, len)?;
        let written = async move {
            let written = inner.put(offset, len, Content::Pattern(&pattern));
            inner.past_the_cache(offset, len, written).await
        };
        self.inner.to_the_end(place, written).await
    }

    /// Writes `data` at `offset` if the image has `expected` there. Both must have the same length and
    /// lie within one stripe unit.
    ///
    /// # Errors
    /// [`Error::Mismatch`] with the offset of the first byte that differs; [`Error::Indivisible`]; as
    /// [`Image::write`].
    pub async fn compare_and_write(&self, offset: u64, expected: Bytes, data: Bytes) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let end = offset.saturating_add(data.len() as u64);
        let places = self.inner.enter_to_compare().await?;
        let len = data.len() as u64;
        inner.check_range(offset, len)?;
        let Some(extent) = inner.only_object(offset, len) else {
            return Err(Error::Indivisible { offset, end });
        };
        if expected.len() != data.len() || inner.pieces(extent).count() != 1 {
            return Err(Error::Indivisible { offset, end });
        }
        let swapped = async move {
            let io = inner.writer()?;
            let writing = inner.map.writing(&[extent.object.0]).await?;
            let missing = writing.was_missing(extent.object.0);
            let swap = |op: WriteOp| {
                op.compare_bytes(extent.offset, expected.clone()).write(extent.offset, data.clone())
            };
            let change = ObjectChange { extent, before: Before::Compared, missing, op: swap };
            let outcome = inner.change(&io, change).await;
            inner.forget(offset, len).await?;
            outcome
        };
        let outcome = self.inner.to_the_end(places, swapped).await?;
        if outcome.result <= MISMATCH {
            return Err(Error::Mismatch(offset + u64::from((MISMATCH - outcome.result).unsigned_abs())));
        }
        done(&outcome)
    }

    /// Waits until all changes in flight are durable, and writes back the cache. Without a cache nothing
    /// is buffered: each change is durable when its call returns.
    ///
    /// # Errors
    /// No more changes are possible because the watch has ended. [`Error::WriteBack`] if a write-back
    /// failed, now or earlier: an earlier failure is reported once, a persistent one each time.
    pub async fn flush(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let all = inner.gate.acquire_many(GATE_PLACES).await.map_err(|_| Errno::ENOTCONN)?;
        // Other changes go on during the write-back.
        drop(all);
        inner.flush_cache().await?;
        inner.check_watch()
    }
}

impl Inner {
    /// The I/O context to read from: of the snapshot, or of the current data.
    pub(crate) fn reader(&self) -> IoCtx {
        match self.snap {
            Some(snap) => self.data.at_snapshot(snap),
            None => self.data.clone(),
        }
    }

    /// Reads from the cluster, past the cache.
    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        let io = &self.reader();
        let Some(extent) = self.only_extent(offset, len) else {
            // Boxed, so that futures of small reads stay small.
            return Box::pin(self.read_parts(io, offset, len)).await;
        };
        let data = self.read_object(io, extent).await?;
        if data.len() as u64 == len {
            return Ok(data);
        }
        let mut all = BytesMut::from(data);
        all.resize(len as usize, 0);
        Ok(all.freeze())
    }

    /// Returns the object extent of a range that lies in one object.
    pub(crate) fn only_object(&self, offset: u64, len: u64) -> Option<ObjectExtent> {
        let mut extents = self.fixed.layout.extents(offset, len);
        let first = extents.next()?;
        extents.next().is_none().then_some(first)
    }

    /// As `Inner::only_object`, for a range that is also contiguous in the object.
    fn only_extent(&self, offset: u64, len: u64) -> Option<ObjectExtent> {
        self.only_object(offset, len).filter(|extent| self.pieces(*extent).nth(1).is_none())
    }

    /// Reads from many objects, some at a time.
    async fn read_parts(&self, io: &IoCtx, offset: u64, len: u64) -> Result<Bytes, Error> {
        let mut all = BytesMut::zeroed(len as usize);
        let read = |extent| async move { Ok((extent, self.read_object(io, extent).await?)) };
        let found = |(extent, found): (ObjectExtent, Bytes)| {
            for (at, object_offset, len) in self.pieces(extent) {
                let from = ((object_offset - extent.offset) as usize).min(found.len());
                let part = &found[from..found.len().min(from + len as usize)];
                all[(at - offset) as usize..][..part.len()].copy_from_slice(part);
            }
        };
        self.room.each(self.fixed.layout.extents(offset, len), read, found).await?;
        Ok(all.freeze())
    }

    /// Reads a range of an object, or of the parent if the object does not exist. Returns nothing if the
    /// parent has no data either.
    pub(crate) async fn read_object(&self, io: &IoCtx, extent: ObjectExtent) -> Result<Bytes, Error> {
        if self.is_migrating() {
            // Boxed, so that futures of other images stay small.
            return Box::pin(self.read_migrating(io, extent)).await;
        }
        self.read_own(io, extent).await
    }

    /// As `Inner::read_object`, for an image that is not being migrated.
    pub(crate) async fn read_own(&self, io: &IoCtx, extent: ObjectExtent) -> Result<Bytes, Error> {
        loop {
            let overlap = self.overlap();
            match io.read(self.object(extent), extent.offset, extent.len).await {
                Err(e) if e.is_not_found() => {}
                // A reply longer than the request is invalid.
                Ok(data) if data.len() as u64 > extent.len => return Err(Errno::EPROTO.into()),
                done => return Ok(done?),
            }
            if self.fixed.layout.object_len(extent.object, overlap) <= extent.offset {
                return Ok(Bytes::new());
            }
            let found = self.read_parent(extent).await?;
            // Before a parent is detached, its data is copied into the image's objects: read the object
            // again then.
            if self.overlap() == overlap {
                return Ok(found);
            }
        }
    }

    /// Returns an error for a range that exceeds the image, or the limit of one I/O.
    fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        let (size, end) = (self.size(), offset.saturating_add(len));
        if end > size || len > IO_BYTES_MAX {
            return Err(Error::Range { offset, end, size });
        }
        Ok(())
    }

    /// Splits an extent into pieces: offset in the image, offset in the object, and length of each.
    pub(crate) fn pieces(&self, extent: ObjectExtent) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let pieces = self.fixed.layout.pieces(extent);
        pieces.map(|piece| (piece.file_offset, piece.object_offset, piece.len))
    }

    pub(crate) fn object(&self, extent: ObjectExtent) -> String {
        self.fixed.object(extent.object.0)
    }

    /// Writes a range. One update of the object map covers all objects that are written at the same
    /// time.
    async fn put(&self, offset: u64, len: u64, content: Content<'_>) -> Result<(), Error> {
        let io = &self.writer()?;
        if let Some(extent) = self.only_object(offset, len) {
            let writing = &self.map.writing(&[extent.object.0]).await?;
            return self.put_extent(io, extent, offset, content, writing).await;
        }
        // Boxed, so that futures of small writes stay small.
        Box::pin(self.put_parts(io, offset, len, content)).await
    }

    async fn put_parts(&self, io: &IoCtx, offset: u64, len: u64, content: Content<'_>) -> Result<(), Error> {
        let mut extents = self.fixed.layout.extents(offset, len);
        loop {
            let some: Vec<ObjectExtent> = extents.by_ref().take(PARTS_MAX).collect();
            if some.is_empty() {
                return Ok(());
            }
            let writing = &self.map.writing(&numbers(&some)).await?;
            let put = |extent| self.put_extent(io, extent, offset, content, writing);
            self.room.each(some.into_iter(), put, drop).await?;
        }
    }

    /// Writes the part of a range that lies in one object.
    async fn put_extent(
        &self,
        io: &IoCtx,
        extent: ObjectExtent,
        offset: u64,
        content: Content<'_>,
        writing: &Writing<'_>,
    ) -> Result<(), Error> {
        let write = |op| {
            self.pieces(extent).fold(op, |op: WriteOp, (at, object_offset, len)| {
                let from = at - offset;
                match content {
                    Content::Data(data) => {
                        let part = data.slice(from as usize..(from + len) as usize);
                        op.write(object_offset, part)
                    }
                    Content::Pattern(pattern) => repeat(op, pattern, from, object_offset, len),
                }
            })
        };
        let missing = writing.was_missing(extent.object.0);
        let change = ObjectChange { extent, before: Before::Replaced, missing, op: write };
        done(&self.change(io, change).await?)
    }

    /// Zeroes a range of an object. If the parent covers the object, the object must exist to hide the
    /// parent's data.
    async fn clear(&self, io: &IoCtx, extent: ObjectExtent) -> Result<(), Error> {
        let number = extent.object.0;
        if self.covered(number) == 0 {
            return self.cut(io, extent).await;
        }
        let writing = self.map.writing(&[number]).await?;
        let end = extent.offset + extent.len;
        let to_end = end >= self.fixed.layout.object_len(extent.object, self.size());
        let clear = |op: WriteOp| match (extent.offset, to_end) {
            (0, true) => op.create(false).truncate(0),
            (offset, true) => op.truncate(offset),
            (offset, false) => op.zero(offset, extent.len),
        };
        let before = if extent.offset == 0 && to_end { Before::Replaced } else { Before::Kept };
        let missing = writing.was_missing(number);
        done(&self.change(io, ObjectChange { extent, before, missing, op: clear }).await?)
    }

    /// Zeroes a range of an object that the parent does not cover, or that lies behind the end of the
    /// image.
    pub(crate) async fn cut(&self, io: &IoCtx, extent: ObjectExtent) -> Result<(), Error> {
        let number = extent.object.0;
        let oid = self.object(extent);
        let to_end = extent.offset + extent.len >= self.fixed.layout.object_len(extent.object, self.size());
        if extent.offset == 0 && to_end {
            let remove = async {
                match io.remove(oid).await {
                    Err(e) if !e.is_not_found() => Err(e.into()),
                    _ => Ok(()),
                }
            };
            return self.map.removing(number, remove).await;
        }
        if self.map.is_missing(number) {
            return Ok(());
        }
        let _writing = self.map.writing(&[number]).await?;
        let op = WriteOp::new().assert_exists();
        let op = if to_end { op.truncate(extent.offset) } else { op.zero(extent.offset, extent.len) };
        match io.operate(oid, op).await {
            Err(e) if e.is_not_found() => Ok(()),
            done => Ok(done?),
        }
    }
}

/// The data to write to a range.
#[derive(Clone, Copy)]
enum Content<'a> {
    /// These bytes.
    Data(&'a Bytes),
    /// These bytes repeatedly.
    Pattern(&'a Bytes),
}

/// Converts the outcome of a request.
pub(crate) fn done(outcome: &Outcome) -> Result<(), Error> {
    outcome.errno().map_or(Ok(()), |errno| Err(errno.into()))
}

fn numbers(extents: &[ObjectExtent]) -> Vec<u64> {
    let mut numbers: Vec<u64> = extents.iter().map(|extent| extent.object.0).collect();
    numbers.sort_unstable();
    numbers
}

/// Writes a part of a repeated pattern; the part begins `from` bytes after the start of the first
/// repetition.
fn repeat(op: WriteOp, pattern: &Bytes, from: u64, object_offset: u64, len: u64) -> WriteOp {
    let step = pattern.len() as u64;
    if from.is_multiple_of(step) && len.is_multiple_of(step) {
        return op.write_same(object_offset, len, pattern.clone());
    }
    let data: Bytes = (from..from + len).map(|at| pattern[(at % step) as usize]).collect();
    op.write(object_offset, data)
}
