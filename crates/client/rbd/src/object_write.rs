//! The change of one object: as it is for an ordinary image, behind a copy-up for a clone (`copyup.rs`), and
//! behind a copy of what is still elsewhere for an image that is being migrated (`origin/copy.rs`).

use loligo_rados::{IoCtx, Outcome, WriteOp, WriteOptions};
use loligo_stripe::ObjectExtent;

use crate::Error;
use crate::image::Inner;

/// What a change does with what was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing that was in its range is of interest.
    Replaced,
    /// Some of it stays.
    Kept,
    /// It is looked at.
    Compared,
}

impl Inner {
    /// Changes an object by `op`, which adds to a request that may begin with something else. `missing`:
    /// there was no such object when the object map was told of it.
    ///
    /// # Errors
    /// What kept the request from being answered, or the object from being copied up.
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

    /// The same of an image that is not being migrated.
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
        // On the heap, so that futures are small for images without a parent.
        Box::pin(self.change_covered(io, extent, before, missing, op)).await
    }

    /// Whether the parent may have something that a change leaves in the object.
    pub(crate) fn needs_copy(&self, extent: ObjectExtent, before: Before) -> bool {
        let covered = self.covered(extent.object.0);
        let replaces = before == Before::Replaced && extent.offset == 0 && extent.len >= covered;
        covered != 0 && (!replaces || self.has_snapshots())
    }
}
