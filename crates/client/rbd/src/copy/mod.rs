//! Copies of an image's data; `deep.rs`: with its snapshots and its parent.

mod deep;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{IoCtx, PoolId};
use loligo_wire::Encode as _;
use loligo_wire::Name;

pub use self::deep::Ancestry;
use crate::Error;
use crate::call::tell;
use crate::clone::CloneFormat;
use crate::diff::{Change, Grain};
use crate::image::{Image, Mode, metadata};
use crate::pool::create::{CREATABLE, NewImage, create};
use crate::pool::remove;
use crate::progress::report;
use crate::space::nonzero_runs;

/// The most bytes of one read.
pub(crate) const CHUNK: u64 = 4 << 20;

/// Reads and writes in flight (`rbd_concurrent_management_ops`).
pub(crate) const AT_ONCE: usize = 10;

/// The properties of a copy. Unset ones are the source's.
#[derive(Clone, Debug)]
pub struct NewCopy {
    /// The base-2 logarithm of the object size: 12 to 25.
    pub order: Option<u8>,
    /// `RBD_FEATURE_*`. If unset, the source's features, without those that cannot be given to a new
    /// image.
    pub features: Option<u64>,
    /// Stripe unit in bytes, and stripe count.
    pub striping: Option<(u64, u64)>,
    /// The data pool. If unset, the copy's pool; the source's data pool is not inherited.
    pub data_pool: Option<PoolId>,
    /// Whether to skip the check that the data pool supports images
    /// ([`pools::validate`](crate::pools::validate)).
    pub pool_unchecked: bool,
    /// Blocks of this many bytes that are all zeros are not written (`--sparse-size`).
    pub sparse_bytes: usize,
    /// How the copy of a clone refers to the parent. [Auto](CloneFormat::Auto): as the source does.
    pub clone_format: CloneFormat,
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
            clone_format: CloneFormat::Auto,
        }
    }
}

impl NewCopy {
    /// Whether the copy of a clone refers to the parent in the second way, as the source does or not.
    pub(crate) fn is_second(&self, is_source_s: bool) -> bool {
        match self.clone_format {
            CloneFormat::Auto => is_source_s,
            CloneFormat::First => false,
            CloneFormat::Second => true,
        }
    }
}

impl Image {
    /// Creates a copy with the data of the open image or snapshot, including the parent's, and the
    /// image's metadata, without snapshots. `progress` gets the number of bytes done, and of all bytes.
    /// A failure removes the incomplete copy.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image, pool: loligo_rados::IoCtx) -> Result<(), loligo_rbd::Error> {
    /// image.copy(&pool, "copy", loligo_rbd::NewCopy::default(), |_, _| {}).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`create`](crate::create()); errors of reads and writes.
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
            // Best effort; the first failure is returned.
            let _ = remove(io, name, |_, _| {}).await;
        }
        copied
    }

    pub(crate) fn like(&self, new: &NewCopy) -> NewImage {
        let layout = self.layout();
        // An image without striping imposes none on a copy with a different object size.
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
            report(&mut progress, done, size).await;
        }
        report(&mut progress, size, size).await;
        Ok(())
    }

    /// Writes data that is not zeros to an empty range.
    async fn write_sparsely(&self, offset: u64, data: &Bytes, sparse_bytes: usize) -> Result<(), Error> {
        for run in nonzero_runs(data, sparse_bytes) {
            self.write(offset + run.start as u64, data.slice(run)).await?;
        }
        Ok(())
    }
}

/// Splits a change into pieces of at most `max` bytes.
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
