//! Data of files in the client's cache: as the cache's back end, the objects as the inode's view of them
//! says.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use az::SaturatingAs as _;
use bytes::Bytes;
use futures_util::future::join_all;
use loligo_cache::{Backend, CachedFile, Options, ReadAhead, Target};
use loligo_layout::{Layout, ObjectExtent, ObjectNo};
use loligo_lockstat::{Class, Mutex};
use loligo_rados::Errno;

use crate::error::Error;
use crate::inode::DataView;

/// Held to look whether a read belongs to a sequential stream; not for data that is in the cache, unless it
/// reaches what was read ahead.
static READ_AHEAD: Class = Class::new("fs.read_ahead");

/// The most bytes of a read whose objects are fetched together.
const PART_BYTES: u64 = 4 << 20;
/// Programs mostly write files in large pieces: a sequential write of 1 MiB in blocks of this size takes half
/// the time of one in blocks of 4 KiB, and larger blocks hardly less. A random write of 4 KiB copies a block.
const BLOCK_BYTES: u32 = 16 << 10;

/// Returns the options of a cache of this many bytes.
pub(crate) fn options(bytes: u64) -> Options {
    Options { block_bytes: BLOCK_BYTES, ..Options::of_size(bytes) }
}

/// The objects of a file for the cache: with the layout, the truncation and the snapshot context of the
/// time of the request. The view changes only while nothing is dirty that belongs to an older one.
#[derive(Debug)]
pub(crate) struct Backing(pub(crate) Arc<ArcSwapOption<DataView>>);

impl Backing {
    /// Returns the view. There is none without a capability: then nothing must be written any more.
    fn view(&self) -> Result<Arc<DataView>, Error> {
        self.0.load_full().ok_or(Errno::EIO.into())
    }
}

impl DataView {
    /// Returns the objects.
    ///
    /// # Errors
    /// EINVAL if the layout is impossible.
    pub(crate) fn objects(&self) -> Result<&crate::data::Objects, Errno> {
        self.objects.as_ref().ok_or(Errno::EINVAL)
    }
}

impl Backend for Backing {
    type Error = Error;

    async fn read(&self, object: u64, offset: u64, len: u64) -> Result<Bytes, Error> {
        let view = self.view()?;
        view.objects()?.read_object(ObjectExtent { object: ObjectNo(object), offset, len }).await
    }

    async fn write(&self, object: u64, extents: Vec<(u64, Vec<Bytes>)>) -> Result<(), Error> {
        let view = self.view()?;
        view.objects()?.write_parts(ObjectNo(object), extents).await
    }
}

/// What the cache keeps of a write.
#[derive(Clone, Copy)]
pub(crate) enum Keep {
    /// A copy.
    Copy,
    /// The data itself, if it is long.
    Data,
}

/// The cache as one open file uses it.
pub(crate) struct Cached {
    file: CachedFile<Backing>,
    ahead: Mutex<ReadAhead>,
}

impl Cached {
    pub(crate) fn new(file: CachedFile<Backing>, read_ahead_max: u64) -> Self {
        Self { file, ahead: Mutex::new(&READ_AHEAD, ReadAhead::new(read_ahead_max)) }
    }

    /// Reads a range, given by offset and length, if all of it is in the cache.
    pub(crate) fn try_read(
        &self,
        layout: &Layout,
        (offset, len): (u64, usize),
        to: &mut Target<'_>,
        size: u64,
    ) -> bool {
        let (mut reached, begin) = (false, to.pieces());
        for (at, object, object_offset, len) in units(layout, offset, offset + len as u64) {
            let from = (at - offset).saturating_as::<usize>();
            let hit = self.file.try_read_to(object, (object_offset, len), &mut to.part(from..from + len));
            let Some(hit) = hit else {
                to.back_to(begin);
                return false;
            };
            reached |= hit.reached;
        }
        if reached {
            let ahead = self.ahead.lock().reached(offset, len as u64);
            self.read_ahead(layout, ahead, size);
        }
        true
    }

    /// Reads a range, given by offset and length, and what a sequential reader needs next.
    ///
    /// # Errors
    /// Data that is not cached could not be read.
    pub(crate) async fn read(
        &self,
        layout: &Layout,
        (offset, len): (u64, usize),
        mut to: Target<'_>,
        size: u64,
    ) -> Result<(), Error> {
        let end = offset + len as u64;
        for from in (offset..end).step_by(PART_BYTES.saturating_as::<usize>()) {
            let until = end.min(from + PART_BYTES);
            let begin = (from - offset).saturating_as::<usize>();
            let part_len = (until - from).saturating_as::<usize>();
            let mut part = to.part(begin..begin + part_len);
            if self.try_read(layout, (from, part_len), &mut part, size) {
                continue;
            }
            let ahead = self.ahead.lock().missed(from, until - from);
            self.read_ahead(layout, ahead, size);
            let extents = layout.extents(from, until - from);
            // What fails here fails again below.
            join_all(extents.map(|extent| self.file.fetch(extent.object.0, extent.offset, extent.len))).await;
            for (at, object, object_offset, len) in units(layout, from, until) {
                let begin = (at - from).saturating_as::<usize>();
                let read = self.file.read_to(object, (object_offset, len), part.part(begin..begin + len));
                read.await.map_err(of_cache)?;
            }
        }
        Ok(())
    }

    fn read_ahead(&self, layout: &Layout, range: Option<std::ops::Range<u64>>, size: u64) {
        let Some(range) = range else { return };
        let len = range.end.min(size).saturating_sub(range.start);
        for (n, extent) in layout.extents(range.start, len).enumerate() {
            self.file.read_ahead(extent.object.0, extent.offset, extent.len, n == 0);
        }
    }

    /// Writes into the cache. `wrote` hears of each part that is there, with its end.
    ///
    /// # Errors
    /// Too much is dirty, and could not be written back.
    pub(crate) async fn write(
        &self,
        layout: &Layout,
        (offset, data, keep): (u64, &Bytes, Keep),
        mut wrote: impl FnMut(u64),
    ) -> Result<(), Error> {
        for (at, object, object_offset, len) in units(layout, offset, offset + data.len() as u64) {
            let from = (at - offset).saturating_as::<usize>();
            let done = match keep {
                Keep::Copy => self.file.write(object, object_offset, &data[from..from + len]).await,
                Keep::Data => {
                    self.file.write_shared(object, object_offset, data.slice(from..from + len)).await
                }
            };
            // A part of what failed may be there.
            wrote(at + len as u64);
            done.map_err(of_cache)?;
        }
        Ok(())
    }

    /// Writes back what is dirty.
    ///
    /// # Errors
    /// That failed, now or since the file was told of the last failure.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        self.file.flush().await.map_err(of_cache)
    }

    /// Brings what is dirty to the store, for a reader or writer that passes the cache by.
    pub(crate) async fn write_back(&self) -> Result<(), Error> {
        self.file.write_back().await.map_err(of_cache)
    }

    /// Drops everything, for a reader that wants to see what others have written. What is dirty is written
    /// back before.
    pub(crate) async fn invalidate(&self) -> Result<(), Error> {
        self.file.invalidate().await.map_err(of_cache)
    }

    /// Drops a range that was written behind the cache.
    pub(crate) async fn discard(&self, layout: &Layout, offset: u64, len: u64) -> Result<(), Error> {
        for extent in layout.extents(offset, len) {
            let done = self.file.discard(extent.object.0, extent.offset, extent.len).await;
            done.map_err(of_cache)?;
        }
        Ok(())
    }
}

/// Splits a range into stripe units: offset in the file, object, offset in the object, length.
fn units(layout: &Layout, offset: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64, usize)> + use<> {
    let layout = *layout;
    let mut at = offset;
    std::iter::from_fn(move || {
        let begins = at;
        let len = (end - at).min(layout.stripe_unit() - at % layout.stripe_unit());
        let (object, object_offset) = layout.locate(begins);
        at += len;
        (len > 0).then_some((begins, object.0, object_offset, len.saturating_as::<usize>()))
    })
}

/// Returns the errno of a failure in the cache: several may hear of one, so the error itself is not passed
/// on.
pub(crate) fn of_cache(e: loligo_cache::Error<Error>) -> Error {
    match e {
        loligo_cache::Error::Read(e) => e,
        loligo_cache::Error::WriteBack(e) | loligo_cache::Error::Full(e) => Error::Os(e.errno()),
        loligo_cache::Error::GivenUp => Error::Os(Errno::EIO),
    }
}
