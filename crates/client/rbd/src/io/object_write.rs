//! Changes of one object: plain for an ordinary image, after a copy-up for a clone (`clone/copyup.rs`), and
//! after a copy from the source for an image that is being migrated (`migration/origin/copy.rs`).

use loligo_rados::{Errno, IoCtx, Outcome, WriteOp, WriteOptions};
use loligo_stripe::ObjectExtent;

use crate::Error;
use crate::image::Inner;

/// How a change treats the previous data in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// All of it is overwritten.
    Replaced,
    /// Some of it is kept.
    Kept,
    /// It is compared.
    Compared,
}

/// The most attempts of a change whose object is still to be copied. One is enough, unless a clone without
/// exclusive lock is resized or flattened meanwhile.
pub(crate) const ATTEMPTS: u32 = 8;

/// A change of one object.
pub(crate) struct ObjectChange<F> {
    pub(crate) extent: ObjectExtent,
    pub(crate) before: Before,
    /// Whether the object map marked the object NONEXISTENT before this change.
    pub(crate) missing: bool,
    /// Adds the change's operations to a request that may begin with other operations.
    pub(crate) op: F,
}

impl<F> ObjectChange<F> {
    /// Whether the change overwrites the first `covered` bytes of its object.
    pub(crate) fn replaces(&self, covered: u64) -> bool {
        self.before == Before::Replaced && self.extent.offset == 0 && self.extent.len >= covered
    }
}

impl Inner {
    /// Makes a change of one object.
    ///
    /// # Errors
    /// The request got no reply, or the object could not be copied up.
    pub(crate) async fn change<F: Fn(WriteOp) -> WriteOp>(
        &self,
        io: &IoCtx,
        change: ObjectChange<F>,
    ) -> Result<Outcome, Error> {
        if self.is_migrating() {
            return Box::pin(self.change_migrating(io, change)).await;
        }
        self.change_own(io, change).await
    }

    /// As `Inner::change`, for an image that is not being migrated.
    pub(crate) async fn change_own<F: Fn(WriteOp) -> WriteOp>(
        &self,
        io: &IoCtx,
        change: ObjectChange<F>,
    ) -> Result<Outcome, Error> {
        if !self.needs_copy(&change) {
            return self.send_change(io, &change, WriteOp::new()).await;
        }
        // Boxed, so that futures stay small for images without a parent.
        Box::pin(self.change_covered(io, change)).await
    }

    /// Whether the parent may have data that the change does not overwrite, or that snapshots need.
    pub(crate) fn needs_copy<F>(&self, change: &ObjectChange<F>) -> bool {
        let covered = self.covered(change.extent.object.0);
        covered != 0 && (!change.replaces(covered) || self.has_snapshots())
    }

    /// Sends a change behind the operations of `first`, in one request.
    pub(crate) async fn send_change<F: Fn(WriteOp) -> WriteOp>(
        &self,
        io: &IoCtx,
        change: &ObjectChange<F>,
        first: WriteOp,
    ) -> Result<Outcome, Error> {
        let op = (change.op)(first);
        Ok(io.execute(self.object(change.extent), op, WriteOptions::default()).await?)
    }

    /// Sends a change behind `guard`, which fails with `unless` if the object is still to be copied. Returns
    /// `None` in that case. The first attempt is skipped for an object that the object map marked
    /// NONEXISTENT.
    pub(crate) async fn try_guarded<F: Fn(WriteOp) -> WriteOp>(
        &self,
        io: &IoCtx,
        change: &ObjectChange<F>,
        (guard, unless): (WriteOp, Errno),
        attempt: u32,
    ) -> Result<Option<Outcome>, Error> {
        if change.missing && attempt == 0 {
            return Ok(None);
        }
        let done = self.send_change(io, change, guard).await?;
        Ok((done.errno() != Some(unless)).then_some(done))
    }
}
