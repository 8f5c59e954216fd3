//! Detaches clones from their parents.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_wire::rbd::feature;

use crate::Error;
use crate::call::tell;
use crate::image::resize::REMOVALS;
use crate::image::{Image, Inner};
use crate::lock::messages::Wanted;
use crate::progress::report;

impl Image {
    /// Copies all of the parent's data into a clone, then detaches the clone from its parent. `progress`
    /// gets the number of objects done, and of all objects. Data may be changed meanwhile. With the
    /// feature deep-flatten the snapshots are detached too; without it they keep the parent until they
    /// are removed.
    ///
    /// # Errors
    /// [`Error::NoParent`]; [`Error::ReadOnly`]. After a failure, or if it is dropped, it can be
    /// repeated: objects already copied stay.
    pub async fn flatten(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        let inner = &self.inner;
        inner.refresh().await?;
        // As in librbd, a read-only image is reported first.
        inner.check_view()?;
        inner.check_whole("flatten it when the migration is executed")?;
        if inner.view.load().overlap.is_none() {
            return Err(Error::NoParent);
        }
        if self.has_owner_do(Wanted::Flatten, &mut progress).await? {
            return Ok(());
        }
        drop(inner.enter().await?);
        inner.refresh().await?;
        if inner.view.load().overlap.is_none() {
            return Err(Error::NoParent);
        }
        let all = inner.fixed.layout.object_count(inner.overlap());
        let taken = stream::iter(0..all).map(|number| async move {
            let _place = inner.enter().await?;
            inner.take_over(number).await
        });
        let mut taken = taken.buffer_unordered(REMOVALS);
        let mut done = 0;
        while taken.try_next().await?.is_some() {
            done += 1;
            report(&mut progress, done, all).await;
        }
        drop(taken);
        inner.part().await
    }
}

impl Inner {
    /// Removes the parent of an image that does not need it any more.
    async fn part(&self) -> Result<(), Error> {
        let _all = self.enter_alone().await?;
        self.refresh().await?;
        let view = self.view.load_full();
        let snapshots_need_it =
            !view.has(feature::DEEP_FLATTEN) && view.snapshots.iter().any(|snap| snap.overlap.is_some());
        if !snapshots_need_it {
            self.detach_child().await?;
        }
        self.header_changes();
        match tell(&self.io, &self.header, "parent_detach", |_| {}).await {
            // Another client was faster.
            Err(e) if e.is_not_found() => {}
            done => done?,
        }
        self.header_changed().await
    }
}
