//! Copy-up: before a clone changes a part of an object that it does not have yet, the parent's data is
//! copied into the object.
//!
//! If the parent may have data of an object, a change is first sent with the condition that the object
//! exists. This attempt is skipped if the object map marked the object NONEXISTENT. If the object does
//! not exist, the parent is read, and copy and change are sent as one request. The method `copyup` does
//! nothing if the object exists, so concurrent copy-ups are harmless.
//!
//! If there are snapshots, copy and change are two requests, sent back to back without waiting. The copy
//! has no snapshot context, so that it is as old as the image; the change then preserves it for all
//! snapshots. The snapshots' object maps are updated before. (Flattening with the feature deep-flatten
//! relies on this: for an object that the image has, its snapshots do not need the parent.) Copy and
//! change are also two requests if the change compares data, because a request compares the state before
//! it. Zeros are not copied: the image gets an empty object, its snapshots none. Facts:
//! `librbd/io/CopyupRequest.cc`, `librbd/io/ObjectRequest.cc`, `cls/rbd/cls_rbd.cc`.
//!
//! If the task is dropped in between, the object has the parent's data, is changed, or does not exist.

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, IoCtx, Outcome, SnapId, WriteOp};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::feature;
use loligo_wire::rbd::object_map::{EXISTS, EXISTS_CLEAN};

use crate::call::{self, telling};
use crate::features::OBJECT_MAP_INVALID;
use crate::image::Inner;
use crate::image::resize::REMOVALS;
use crate::io::object_write::{ATTEMPTS, Before, ObjectChange};
use crate::io::turns::Turn;
use crate::{Error, names};

/// The most snapshots' maps updated in parallel for one object; many objects may be copied up at once.
const MAPS_AT_ONCE: usize = 4;

/// The parent's data of an object, up to the last byte that is not zero, and the turn to copy it up.
struct Copy<'a> {
    data: Bytes,
    _turn: Turn<'a>,
}

impl Inner {
    /// Changes an object that the parent may have data for.
    pub(crate) async fn change_covered<F: Fn(WriteOp) -> WriteOp>(
        &self,
        io: &IoCtx,
        change: ObjectChange<F>,
    ) -> Result<Outcome, Error> {
        for attempt in 0..ATTEMPTS {
            if !self.needs_copy(&change) {
                return self.send_change(io, &change, WriteOp::new()).await;
            }
            let guard = (WriteOp::new().assert_exists(), Errno::ENOENT);
            if let Some(done) = self.try_guarded(io, &change, guard, attempt).await? {
                return Ok(done);
            }
            if let Some(copy) = self.copy_of(change.extent.object.0).await? {
                return self.change_copy(io, &change, copy).await;
            }
        }
        Err(Errno::EBUSY.into())
    }

    /// Copies an object up, and changes it.
    async fn change_copy<F: Fn(WriteOp) -> WriteOp>(
        &self,
        io: &IoCtx,
        change: &ObjectChange<F>,
        copy: Copy<'_>,
    ) -> Result<Outcome, Error> {
        let number = change.extent.object.0;
        let (is_empty, has_snapshots) = (copy.data.is_empty(), self.has_snapshots());
        let first = match is_empty {
            true => WriteOp::new().create(false),
            false => WriteOp::new().exec(call::CLASS, "copyup", &copy.data),
        };
        if change.before != Before::Compared && (is_empty || !has_snapshots) {
            return self.send_change(io, change, first).await;
        }
        if !is_empty && self.view.load().has(feature::OBJECT_MAP) {
            self.tell_snapshots(number, &self.snapshots_over(number)).await?;
        }
        let copying = if is_empty { io } else { &self.data };
        // The OSD executes one client's requests for an object in order.
        let (copied, changed) = futures_util::join!(
            copying.operate(self.object(change.extent), first),
            self.send_change(io, change, WriteOp::new().assert_exists()),
        );
        copied?;
        changed
    }

    /// Copies an object up if only the parent has it, so that the parent is not needed for it any more.
    /// The caller must hold a permit of the gate.
    pub(crate) async fn take_over(&self, number: u64) -> Result<(), Error> {
        if self.covered(number) == 0 || self.has_object(number).await? {
            return Ok(());
        }
        let _held = self.map.holding(number).await;
        let Some(copy) = self.copy_of(number).await?.filter(|copy| !copy.data.is_empty()) else {
            return Ok(());
        };
        let snaps = self.snapshots_over(number);
        // The oldest snapshot has the same data, so it is unchanged since the newest one.
        let clean = !snaps.is_empty() && self.view.load().has(feature::FAST_DIFF);
        self.map.copying(number, if clean { EXISTS_CLEAN } else { EXISTS }).await?;
        if self.view.load().has(feature::OBJECT_MAP) {
            self.tell_snapshots(number, &snaps).await?;
        }
        let op = WriteOp::new().exec(call::CLASS, "copyup", &copy.data);
        Ok(self.data.operate(self.fixed.object(number), op).await?)
    }

    /// Only the mark NONEXISTENT is trusted: a dropped change may have left an object marked EXISTS that
    /// does not exist.
    async fn has_object(&self, number: u64) -> Result<bool, Error> {
        if self.map.is_missing(number) {
            return Ok(false);
        }
        match self.data.stat(self.fixed.object(number)).await {
            Err(e) if e.is_not_found() => Ok(false),
            done => Ok(done.map(|_| true)?),
        }
    }

    /// Waits for the turn to copy an object up. Returns `None` if another task has just done it.
    async fn copy_of(&self, number: u64) -> Result<Option<Copy<'_>>, Error> {
        let Some(turn) = self.copies.turn(number).await else { return Ok(None) };
        let extent = ObjectExtent { object: ObjectNo(number), offset: 0, len: self.covered(number) };
        let data = self.read_parent(extent).await?;
        let used = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Ok(Some(Copy { data: data.slice(..used), _turn: turn }))
    }

    /// Marks an object in the maps of snapshots: EXISTS in the oldest one's, EXISTS_CLEAN in the others'
    /// (with fast-diff).
    async fn tell_snapshots(&self, number: u64, snaps: &[(SnapId, u64)]) -> Result<(), Error> {
        let is_clean = self.view.load().has(feature::FAST_DIFF);
        let mut told = Vec::with_capacity(snaps.len());
        for (place, (snap, flags)) in snaps.iter().enumerate() {
            if flags & OBJECT_MAP_INVALID == 0 {
                told.push((*snap, if place > 0 && is_clean { EXISTS_CLEAN } else { EXISTS }));
            }
        }
        let told = told.into_iter().map(|(snap, state)| self.tell_snapshot(number, snap, state));
        stream::iter(told).buffer_unordered(MAPS_AT_ONCE).try_collect::<()>().await
    }

    pub(crate) async fn tell_snapshot(&self, number: u64, snap: SnapId, state: u8) -> Result<(), Error> {
        let op = telling(WriteOp::new(), "object_map_update", |w| {
            w.u64(number);
            w.u64(number + 1);
            w.u8(state);
            w.put(&None::<u8>);
        });
        match self.io.operate(names::object_map(&self.id, Some(snap.0)), op).await {
            // A map that is missing, too short or damaged is marked invalid.
            Err(e) if [Errno::ENOENT, Errno::EINVAL, Errno::ERANGE, Errno::ESTALE].contains(&e.errno()) => {
                self.set_flags(OBJECT_MAP_INVALID, OBJECT_MAP_INVALID, snap).await
            }
            done => Ok(done?),
        }
    }

    /// Copies up the objects that snapshots would lose if the parent's overlap were reduced to `size`.
    pub(crate) async fn keep_for_snapshots(&self, size: u64) -> Result<(), Error> {
        let (overlap, layout) = (self.overlap(), self.fixed.layout);
        if overlap <= size || !self.has_snapshots() {
            return Ok(());
        }
        let from = layout.object_count(size).saturating_sub(layout.stripe_count());
        let behind = |number: &u64| self.covered(*number) > layout.object_len(ObjectNo(*number), size);
        let kept = (from..layout.object_count(overlap)).filter(behind).map(|number| self.take_over(number));
        stream::iter(kept).buffer_unordered(REMOVALS).try_collect::<()>().await
    }
}
