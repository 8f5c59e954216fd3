//! Reading and changing an image's data. The object requests of an I/O leave together, as many as
//! [`Room`](crate::room::Room) has places for.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use loligo_rados::{Errno, IoCtx, Outcome, WriteOp};
use loligo_stripe::ObjectExtent;

use crate::Error;
use crate::image::{Image, Inner};
use crate::object_map::Writing;
use crate::object_write::Before;
use crate::room::PARTS_MAX;

/// Bytes of one I/O at most: what librbd's callers may ask for is a signed number of 32 bits.
pub const IO_BYTES_MAX: u64 = i32::MAX as u64;

/// What an OSD answers where a comparison of bytes fails, less the offset of the byte (`MAX_ERRNO`).
const MISMATCH: i32 = -4095;

impl Image {
    /// Reads `len` bytes at `offset`, fewer if the image ends before.
    ///
    /// # Errors
    /// The first by offset.
    pub async fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        self.inner.view.load().check_readable(self.inner.moving)?;
        let size = self.inner.size();
        if len > IO_BYTES_MAX {
            return Err(Error::Range { offset, end: offset.saturating_add(len), size });
        }
        let len = len.min(size.saturating_sub(offset));
        self.inner.read_newest(offset, len).await
    }

    /// Writes at `offset`. When it is done the data are safe, or in the cache, if there is one.
    ///
    /// # Errors
    /// [`Error::Range`] if not all of it lies within the image; [`Error::ReadOnly`]. Otherwise some of it may
    /// be written.
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

    /// Gives the room of a range back: it reads as zeros then.
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

    /// Makes a range zeros. It takes no room then, if it took some.
    ///
    /// # Errors
    /// As [`Image::write`].
    pub async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.discard(offset, len).await
    }

    /// Writes `pattern` over and over, `len` bytes in all, a multiple of its length.
    ///
    /// # Errors
    /// As [`Image::write`]; [`Error::Indivisible`] if `len` is no such multiple.
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

    /// Writes `data` at `offset` if what is there is `expected`, both of one length and within one stripe
    /// unit.
    ///
    /// # Errors
    /// [`Error::Mismatch`] with the place of the first byte that differs; [`Error::Indivisible`]; as
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
            let outcome = inner.change(&io, extent, Before::Compared, missing, swap).await;
            inner.forget(offset, len).await?;
            outcome
        };
        let outcome = self.inner.to_the_end(places, swapped).await?;
        if outcome.result <= MISMATCH {
            return Err(Error::Mismatch(offset + u64::from((MISMATCH - outcome.result).unsigned_abs())));
        }
        done(&outcome)
    }

    /// Waits until all changes that were under way are safe, and writes back what is in a cache. Without one
    /// nothing is kept back here: a change that is done is safe.
    ///
    /// # Errors
    /// Nothing can be changed any more: the watch has ended. [`Error::WriteBack`] if something could not be
    /// written back, now or earlier: what failed earlier is told once, what still fails each time.
    pub async fn flush(&self) -> Result<(), Error> {
        let inner = &self.inner;
        let all = inner.gate.acquire_many(crate::image::GATE_PLACES).await.map_err(|_| Errno::ENOTCONN)?;
        // Others go on while it is written back.
        drop(all);
        inner.flush_cache().await?;
        inner.check_watch()
    }
}

impl Inner {
    /// Where to read what is open.
    pub(crate) fn reader(&self) -> IoCtx {
        match self.snap {
            Some(snap) => self.data.at_snapshot(snap),
            None => self.data.clone(),
        }
    }

    /// Reads what the cluster has.
    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Bytes, Error> {
        let io = &self.reader();
        let Some(extent) = self.only_extent(offset, len) else {
            // On the heap, so that futures are small for those who read little.
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

    /// The extent that a range is, if it is one.
    pub(crate) fn only_object(&self, offset: u64, len: u64) -> Option<ObjectExtent> {
        let mut extents = self.fixed.layout.extents(offset, len);
        let first = extents.next()?;
        extents.next().is_none().then_some(first)
    }

    /// The same if it is in one piece.
    fn only_extent(&self, offset: u64, len: u64) -> Option<ObjectExtent> {
        self.only_object(offset, len).filter(|extent| self.pieces(*extent).nth(1).is_none())
    }

    /// Reads from any number of objects, some at a time.
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

    /// What an object holds of a range, or the parent, if there is none; nothing if that has none either.
    pub(crate) async fn read_object(&self, io: &IoCtx, extent: ObjectExtent) -> Result<Bytes, Error> {
        if self.is_migrating() {
            // On the heap, so that futures are small for other images.
            return Box::pin(self.read_migrating(io, extent)).await;
        }
        self.read_own(io, extent).await
    }

    /// The same of an image that is not being migrated.
    pub(crate) async fn read_own(&self, io: &IoCtx, extent: ObjectExtent) -> Result<Bytes, Error> {
        loop {
            let overlap = self.overlap();
            match io.read(self.object(extent), extent.offset, extent.len).await {
                Err(e) if e.is_not_found() => {}
                // More than was asked for is no answer.
                Ok(data) if data.len() as u64 > extent.len => return Err(Errno::EPROTO.into()),
                done => return Ok(done?),
            }
            if self.fixed.layout.object_len(extent.object, overlap) <= extent.offset {
                return Ok(Bytes::new());
            }
            let found = self.read_parent(extent).await?;
            // Whoever takes the parent away puts into the object before what was there.
            if self.overlap() == overlap {
                return Ok(found);
            }
        }
    }

    /// Refuses a range that does not lie within the image.
    fn check_range(&self, offset: u64, len: u64) -> Result<(), Error> {
        let (size, end) = (self.size(), offset.saturating_add(len));
        if end > size || len > IO_BYTES_MAX {
            return Err(Error::Range { offset, end, size });
        }
        Ok(())
    }

    /// Offset in the image, offset in the object and length of each part of a range of an object.
    pub(crate) fn pieces(&self, extent: ObjectExtent) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
        let pieces = self.fixed.layout.pieces(extent);
        pieces.map(|piece| (piece.file_offset, piece.object_offset, piece.len))
    }

    pub(crate) fn object(&self, extent: ObjectExtent) -> String {
        self.fixed.object(extent.object.0)
    }

    /// Writes a range. The object map is told of as many objects together as are written at the same time.
    async fn put(&self, offset: u64, len: u64, content: Content<'_>) -> Result<(), Error> {
        let io = &self.writer()?;
        if let Some(extent) = self.only_object(offset, len) {
            let writing = &self.map.writing(&[extent.object.0]).await?;
            return self.put_extent(io, extent, offset, content, writing).await;
        }
        // On the heap, so that the futures of small writes are small.
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

    /// Writes what of a range lies in one object.
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
        done(&self.change(io, extent, Before::Replaced, missing, write).await?)
    }

    /// Makes a range of an object zeros. One that the parent has something of must be there, to hide that.
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
        done(&self.change(io, extent, before, writing.was_missing(number), clear).await?)
    }

    /// Makes a range of an object zeros that no parent has anything of, or that the image ends before.
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

/// What is written to a range, from its beginning on.
#[derive(Clone, Copy)]
enum Content<'a> {
    /// These bytes.
    Data(&'a Bytes),
    /// These over and over.
    Pattern(&'a Bytes),
}

/// What a request ended with.
pub(crate) fn done(outcome: &Outcome) -> Result<(), Error> {
    outcome.errno().map_or(Ok(()), |errno| Err(errno.into()))
}

fn numbers(extents: &[ObjectExtent]) -> Vec<u64> {
    let mut numbers: Vec<u64> = extents.iter().map(|extent| extent.object.0).collect();
    numbers.sort_unstable();
    numbers
}

/// Writes a part of a repeated pattern, which begins `from` bytes behind the first repetition's beginning.
fn repeat(op: WriteOp, pattern: &Bytes, from: u64, object_offset: u64, len: u64) -> WriteOp {
    let step = pattern.len() as u64;
    if from.is_multiple_of(step) && len.is_multiple_of(step) {
        return op.write_same(object_offset, len, pattern.clone());
    }
    let data: Bytes = (from..from + len).map(|at| pattern[(at % step) as usize]).collect();
    op.write(object_offset, data)
}
