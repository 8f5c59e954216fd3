//! Changes of an image's size.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::Errno;
use loligo_stripe::{ObjectExtent, ObjectNo};

use crate::Error;
use crate::call::tell;
use crate::header::Format;
use crate::header::format1::SIZE_OFFSET;
use crate::image::{Image, Inner};
use crate::lock::messages::Wanted;
use crate::progress::report;

/// Objects removed in parallel (`rbd_concurrent_management_ops` is 10).
pub(crate) const REMOVALS: usize = 32;

/// Whether an image may shrink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shrink {
    /// Data behind the new end is lost.
    Allowed,
    /// Shrinking fails with [`Error::WouldShrink`].
    Refused,
}

impl Image {
    /// Resizes the image to `size` bytes. Other changes of data wait.
    ///
    /// # Errors
    /// [`Error::WouldShrink`]. After a failure some data behind the new end may be lost.
    pub async fn resize(&self, size: u64, shrink: Shrink) -> Result<(), Error> {
        self.resize_telling(size, shrink, |_, _| {}).await
    }

    /// As [`Image::resize`]; `progress` gets the number of objects removed, and of all objects to
    /// remove.
    ///
    /// # Errors
    /// As [`Image::resize`].
    pub async fn resize_telling(
        &self,
        size: u64,
        shrink: Shrink,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let inner = &self.inner;
        let may_shrink = shrink == Shrink::Allowed;
        let asked = self.has_owner_do(Wanted::Resize { size, may_shrink }, &mut progress).await;
        let from = inner.view.load().size;
        match asked {
            Ok(true) => return Ok(()),
            Err(e) if e.errno() == Errno::EINVAL && size < from && !may_shrink => {
                return Err(Error::WouldShrink { from, to: size });
            }
            asked => asked?,
        };
        let _all = inner.enter_alone().await?;
        let from = inner.view.load().size;
        if size < from && shrink == Shrink::Refused {
            return Err(Error::WouldShrink { from, to: size });
        }
        inner.end_caching().await?;
        inner.become_of_size(size, progress).await?;
        inner.header_changed().await
    }
}

impl Inner {
    /// Resizes the image without notifying other clients. Needs exclusive access.
    pub(crate) async fn become_of_size(
        &self,
        size: u64,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let objects = self.fixed.layout.object_count(size);
        if size >= self.view.load().size {
            self.map.resize(objects).await?;
            return self.set_size(size).await;
        }
        // Data cut off would reappear from the source when the image grows again.
        self.check_whole("make it smaller when the migration is executed")?;
        self.trim(size, progress).await?;
        self.set_size(size).await?;
        self.map.resize(objects).await
    }

    pub(crate) async fn set_size(&self, size: u64) -> Result<(), Error> {
        self.header_changes();
        if self.fixed.format == Format::First {
            return self.set_old_size(size).await;
        }
        tell(&self.io, &self.header, "set_size", |w| w.u64(size)).await
    }

    /// Sets the size in the header.
    async fn set_old_size(&self, size: u64) -> Result<(), Error> {
        Ok(self.io.write(&*self.header, SIZE_OFFSET, Bytes::copy_from_slice(&size.to_le_bytes())).await?)
    }

    /// Removes the data behind `size`.
    pub(crate) async fn trim(&self, size: u64, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        let layout = self.fixed.layout;
        self.keep_for_snapshots(size).await?;
        let (from, io) = (self.view.load().size, &self.writer()?);
        let (kept, all) = (layout.object_count(size), layout.object_count(from));
        // The objects of the last object set that stay may have data behind the new end.
        let cut = (kept.saturating_sub(layout.stripe_count())..kept).filter_map(|n| self.behind(n, size));
        let gone = (kept..all).filter_map(|n| self.behind(n, size));
        let cleared = stream::iter(cut.chain(gone)).map(|extent| self.cut(io, extent));
        let mut cleared = cleared.buffer_unordered(REMOVALS);
        let (mut done, total) = (0, all - kept);
        while cleared.try_next().await?.is_some() {
            done += 1;
            report(&mut progress, done.min(total), total).await;
        }
        Ok(())
    }

    /// The part of an object behind the image's first `size` bytes.
    fn behind(&self, number: u64, size: u64) -> Option<ObjectExtent> {
        let object = ObjectNo(number);
        let layout = self.fixed.layout;
        let (offset, end) =
            (layout.object_len(object, size), layout.object_len(object, self.view.load().size));
        (offset < end).then_some(ObjectExtent { object, offset, len: end - offset })
    }
}
