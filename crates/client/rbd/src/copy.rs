//! Copying an image's data into a new image.

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{IoCtx, PoolId};
use loligo_wire::Encode as _;
use loligo_wire::Name;

use crate::call::tell;
use crate::diff::{Change, Grain};
use crate::image::{Image, Mode};
use crate::images::{CREATABLE, NewImage, create, remove};
use crate::sparse::nonzero_runs;
use crate::{Error, metadata};

/// Bytes that are read at once at most.
pub(crate) const CHUNK: u64 = 4 << 20;

/// Reads and writes under way (`rbd_concurrent_management_ops`).
pub(crate) const AT_ONCE: usize = 10;

/// A copy's shape. What is not said is the source's.
#[derive(Clone, Debug)]
pub struct NewCopy {
    /// Of an object's size, to the base 2: 12 to 25.
    pub order: Option<u8>,
    /// `RBD_FEATURE_*`; of the source's those that cannot be given here are left out.
    pub features: Option<u64>,
    /// Stripe unit in bytes, and stripe count.
    pub striping: Option<(u64, u64)>,
    /// The pool of its data; not the source's, if that is another one.
    pub data_pool: Option<PoolId>,
    /// Whether the pool of its data is taken to support images without a look
    /// ([`pools::validate`](crate::pools::validate)).
    pub pool_unchecked: bool,
    /// Blocks of so many bytes that are all zeros are not written (`--sparse-size`).
    pub sparse_bytes: usize,
}

impl Default for NewCopy {
    fn default() -> Self {
        Self {
            order: None,
            features: None,
            striping: None,
            data_pool: None,
            pool_unchecked: false,
            sparse_bytes: 4096,
        }
    }
}

impl Image {
    /// Makes an image that has the data of what is open, the image or a snapshot, its parent's among them,
    /// and the image's metadata, but no snapshots; tells how many bytes of how many are done. If it fails
    /// what was made is removed again.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image, pool: loligo_rados::IoCtx) -> Result<(), loligo_rbd::Error> {
    /// image.copy(&pool, "copy", loligo_rbd::NewCopy::default(), |_, _| {}).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`create`](crate::create()); it cannot be read or written to.
    pub async fn copy(
        &self,
        io: &IoCtx,
        name: impl Into<Name>,
        new: NewCopy,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let name = &name.into();
        let sparse_bytes = new.sparse_bytes;
        create(io, name, self.like(&new)).await?;
        let copied = async {
            let copy = Self::open(io, name, Mode::ReadWrite).await?;
            let filled = self.fill(&copy, sparse_bytes, progress).await;
            let closed = copy.close().await;
            filled.and(closed)
        };
        let copied = copied.await;
        if copied.is_err() {
            // As far as it goes: the first failure is the one to tell.
            let _ = remove(io, name, |_, _| {}).await;
        }
        copied
    }

    pub(crate) fn like(&self, new: &NewCopy) -> NewImage {
        let layout = self.layout();
        // One object after the other is no striping that a copy with other objects would have to keep.
        let is_plain = layout.stripe_count() == 1 && layout.stripe_unit() == layout.object_size();
        let striping = (!is_plain).then(|| (layout.stripe_unit(), layout.stripe_count()));
        NewImage {
            size: self.size(),
            order: new.order.unwrap_or(self.order()),
            features: new.features.unwrap_or(self.view().features & CREATABLE),
            striping: new.striping.or(striping),
            data_pool: new.data_pool,
            pool_unchecked: new.pool_unchecked,
        }
    }

    async fn fill(
        &self,
        copy: &Self,
        sparse_bytes: usize,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let inner = &self.inner;
        let pairs = metadata::load_for_copy(&inner.io, &inner.header).await?;
        if !pairs.is_empty() {
            tell(&copy.inner.io, &copy.inner.header, "metadata_set", |w| w.raw(&pairs.to_bytes())).await?;
        }
        let size = self.size();
        let chunks =
            self.diff(None, Grain::Bytes).await?.map_ok(|change| chunks(change, CHUNK)).try_flatten();
        let copied = chunks.map_ok(|Change { offset, len, .. }| async move {
            let data = self.read(offset, len).await?;
            copy.write_sparsely(offset, &data, sparse_bytes).await?;
            Ok::<_, Error>(offset + len)
        });
        let mut copied = std::pin::pin!(copied.try_buffer_unordered(AT_ONCE));
        let mut done = 0;
        while let Some(end) = copied.try_next().await? {
            done = end.max(done);
            progress(done, size);
        }
        progress(size, size);
        Ok(())
    }

    /// Writes what is not zeros, where there was nothing.
    async fn write_sparsely(&self, offset: u64, data: &Bytes, sparse_bytes: usize) -> Result<(), Error> {
        for run in nonzero_runs(data, sparse_bytes) {
            self.write(offset + run.start as u64, data.slice(run)).await?;
        }
        Ok(())
    }
}

/// A change in pieces of at most so many bytes.
pub(crate) fn chunks(
    change: Change,
    max: u64,
) -> impl futures_util::Stream<Item = Result<Change, Error>> + Send + Unpin {
    let end = change.offset + change.len;
    let starts = (change.offset..end).step_by(max as usize);
    futures_util::stream::iter(
        starts.map(move |offset| Ok(Change { offset, len: max.min(end - offset), ..change })),
    )
}
