//! Changes of one object: plain for an ordinary image, after a copy-up for a clone (`copyup.rs`), and
//! after a copy from the source for an image that is being migrated (`origin/copy.rs`).

use loligo_rados::{IoCtx, Outcome, WriteOp, WriteOptions};
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

impl Inner {
    /// Changes an object by `op`, which extends a request that may begin with other operations.
    /// `missing`: the object map marked the object NONEXISTENT before this change.
    ///
    /// # Errors
    /// The request got no reply, or the object could not be copied up.
    pub(crate) async fn change(
        &self,
        io: &IoCtx,
        extent: ObjectExtent,
        before: Before,
        missing: bool,
        op: impl Fn(WriteOp) -> WriteOp,
    ) -> Result<Outcome, Error> {
        if self.is_migrating() {
            return Box::pin(self.change_migrating(io, extent, before, missing, op)).await;
        }
        self.change_own(io, extent, before, missing, op).await
    }

    /// As `Inner::change`, for an image that is not being migrated.
    pub(crate) async fn change_own(
        &self,
        io: &IoCtx,
        extent: ObjectExtent,
        before: Before,
        missing: bool,
        op: impl Fn(WriteOp) -> WriteOp,
    ) -> Result<Outcome, Error> {
        if !self.needs_copy(extent, before) {
            let op = op(WriteOp::new());
            return Ok(io.execute(self.object(extent), op, WriteOptions::default()).await?);
        }
        // Boxed, so that futures stay small for images without a parent.
        Box::pin(self.change_covered(io, extent, before, missing, op)).await
    }

    /// Whether the parent may have data that the change does not overwrite, or that snapshots need.
    pub(crate) fn needs_copy(&self, extent: ObjectExtent, before: Before) -> bool {
        let covered = self.covered(extent.object.0);
        let replaces = before == Before::Replaced && extent.offset == 0 && extent.len >= covered;
        covered != 0 && (!replaces || self.has_snapshots())
    }
}
