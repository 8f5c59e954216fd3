//! Snapshots of a group: one of each image, all of the same moment.
//!
//! The group records the snapshot as incomplete, takes the exclusive lock of each image with that
//! feature, so that no client writes to any of them, creates a snapshot of each, and records the
//! snapshot as complete. An incomplete snapshot can be removed like any other, because the images'
//! snapshots carry its id. Clients are not asked to freeze their file systems (quiesce hooks).

use std::collections::BTreeSet;

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, IoCtx, PoolId, SnapId};
use loligo_wire::Name;
use loligo_wire::rbd::{GroupSnap, ImageSnap, SnapKind};
use tokio::sync::SemaphorePermit;

use super::{Group, new_id, place_in};
use crate::call::{ask, gone, tell};
use crate::header::Snapshot;
use crate::image::resize::REMOVALS;
use crate::image::{Image, Mode, Which};
use crate::{Error, names};

/// A snapshot of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Name,
    /// Whether each image has its snapshot. If not, the snapshot is being created, or was interrupted;
    /// it can be removed.
    pub complete: bool,
}

/// Lists the snapshots of a group, by id.
///
/// # Errors
/// [`Error::NoGroup`].
pub async fn snapshots(io: &IoCtx, group: impl Into<Name>) -> Result<Vec<GroupSnapshot>, Error> {
    let group = &group.into();
    let of = |snap: GroupSnap| {
        let complete = snap.state != GroupSnap::INCOMPLETE;
        GroupSnapshot { id: snap.id, name: snap.name, complete }
    };
    Ok(Group::find(io, group).await?.snaps().await?.into_iter().map(of).collect())
}

/// Creates a snapshot of each image of a group. Images with the feature exclusive-lock are captured at
/// the same moment: their writers are asked for the lock, and can take it again afterwards. A failure
/// removes what was created.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::SnapshotExists`]; [`Error::Locked`] if a user has locked an image;
/// EINVAL if the name is not valid.
pub async fn create_snapshot(io: &IoCtx, group: impl Into<Name>, name: impl Into<Name>) -> Result<(), Error> {
    let group = &group.into();
    let name = &name.into();
    names::checked(name)?;
    let group = Group::find(io, group).await?;
    let members = group.members().await?.into_iter().map(|member| member.image);
    let mut snap = GroupSnap {
        id: new_id(io),
        name: name.to_owned(),
        state: GroupSnap::INCOMPLETE,
        snaps: members.map(|of| ImageSnap { pool: of.pool, image: of.image, snap: SnapId(0) }).collect(),
    };
    group.note_snapshot(&snap).await?;
    let images = match group.open(&snap).await {
        Ok(images) => images,
        Err(e) => {
            // The first failure is returned.
            let _ = group.forget_snapshot(&snap).await;
            return Err(e);
        }
    };
    let made = group.take(&images, &mut snap).await;
    close(images).await;
    made
}

/// Removes a snapshot of a group, and the images' snapshots. Can be repeated after a failure.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::NoSnapshot`].
pub async fn remove_snapshot(io: &IoCtx, group: impl Into<Name>, name: impl Into<Name>) -> Result<(), Error> {
    let group = &group.into();
    let name = &name.into();
    let group = Group::find(io, group).await?;
    let snap = group.snapshot(name).await?;
    group.erase_snapshot(&snap).await
}

/// Renames a snapshot of a group.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::NoSnapshot`]; [`Error::SnapshotExists`]; EINVAL if the name is not
/// valid.
pub async fn rename_snapshot(
    io: &IoCtx,
    group: impl Into<Name>,
    from: impl Into<Name>,
    to: impl Into<Name>,
) -> Result<(), Error> {
    let group = &group.into();
    let from = &from.into();
    let to = &to.into();
    names::checked(to)?;
    let group = Group::find(io, group).await?;
    let snap = group.snapshot(from).await?;
    if from == to {
        return Err(Error::SnapshotExists(to.to_owned()));
    }
    group.note_snapshot(&GroupSnap { name: to.to_owned(), ..snap }).await
}

/// Restores the images of a group from a snapshot. `progress` gets the number of objects done, and of
/// all objects.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::NoSnapshot`]; [`Error::OtherMembers`], as in releases later than 16
/// (ceph/ceph#58074). After a failure some images are restored and some are not.
pub async fn roll_back(
    io: &IoCtx,
    group: impl Into<Name>,
    name: impl Into<Name>,
    progress: impl FnMut(u64, u64),
) -> Result<(), Error> {
    let group = &group.into();
    let name = &name.into();
    let group = Group::find(io, group).await?;
    let snap = group.snapshot(name).await?;
    let members = group.members().await?;
    let now: BTreeSet<_> = members.iter().map(|of| (of.image.pool, &*of.image.image)).collect();
    let then: BTreeSet<_> = snap.snaps.iter().map(|of| (of.pool, &*of.image)).collect();
    if snap.state == GroupSnap::INCOMPLETE || now != then {
        return Err(Error::OtherMembers(name.to_owned()));
    }
    let images = group.open(&snap).await?;
    let back = group.all_become_again(&images, &snap, progress).await;
    close(images).await;
    back
}

/// The group's snapshot to which an image's snapshot belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InGroup {
    /// The group's pool. Its namespace is the image's.
    pub pool: PoolId,
    /// The group's name.
    pub group: Name,
    /// The snapshot's name.
    pub snapshot: Name,
}

impl Image {
    /// Returns the group's snapshot to which a snapshot of this kind belongs; `None` if there is none,
    /// or it was removed.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn group_snapshot(&self, kind: &SnapKind) -> Result<Option<InGroup>, Error> {
        let SnapKind::Group { pool, group, snap } = kind else { return Ok(None) };
        let io = place_in(&self.inner.io, *pool);
        let found = async {
            let name = ask(&io, names::GROUPS, "dir_get_name", |w| w.put(group)).await?;
            let snap: GroupSnap =
                ask(&io, &names::group_header(group), "group_snap_get_by_id", |w| w.put(snap)).await?;
            Ok(InGroup { pool: PoolId(*pool), group: name, snapshot: snap.name })
        };
        match found.await {
            Err::<_, Error>(e) if e.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }
}

/// The operation is complete; failures to release locks do not matter.
async fn close(images: Vec<Image>) {
    join_all(images.into_iter().map(Image::close)).await;
}

/// Takes the locks of all images, and exclusive access to each.
async fn alone(images: &[Image]) -> Result<Vec<SemaphorePermit<'_>>, Error> {
    // First all locks in parallel, since owners need time to release them.
    try_join_all(images.iter().map(Image::acquire_lock)).await?;
    // One after the other, in the order of the group's list, so that two tasks do not deadlock.
    let mut all = Vec::with_capacity(images.len());
    for image in images {
        all.push(image.inner.enter_alone().await?);
    }
    Ok(all)
}

impl Group<'_> {
    async fn snapshot(&self, name: &Name) -> Result<GroupSnap, Error> {
        let found = self.snaps().await?.into_iter().find(|snap| snap.name == name);
        found.ok_or_else(|| Error::NoSnapshot(name.to_owned()))
    }

    async fn note_snapshot(&self, snap: &GroupSnap) -> Result<(), Error> {
        match tell(self.io, &self.header, "group_snap_set", |w| w.put(snap)).await {
            Err(e) if e.errno() == Errno::EEXIST => Err(Error::SnapshotExists(snap.name.clone())),
            noted => noted,
        }
    }

    async fn forget_snapshot(&self, snap: &GroupSnap) -> Result<(), Error> {
        gone(tell(self.io, &self.header, "group_snap_remove", |w| w.put(&snap.id)).await)
    }

    /// Opens the images of a snapshot, in its order.
    async fn open(&self, snap: &GroupSnap) -> Result<Vec<Image>, Error> {
        stream::iter(snap.snaps.clone()).map(|of| self.open_one(of)).buffered(REMOVALS).try_collect().await
    }

    async fn open_one(&self, of: ImageSnap) -> Result<Image, Error> {
        Image::open_at(&self.place(of.pool), Which::Id(&of.image), None, Mode::ReadWrite).await
    }

    /// Creates the snapshots of open images.
    async fn take(&self, images: &[Image], snap: &mut GroupSnap) -> Result<(), Error> {
        let kind = self.kind(snap);
        let taken = match alone(images).await {
            Ok(_all) => {
                let taken = self.take_alone(images, snap, &kind).await;
                if taken.is_err() {
                    let undone = join_all(images.iter().map(|image| undo(image, &kind))).await;
                    if undone.iter().any(Result::is_err) {
                        // The record is kept, so that the rest can be removed later.
                        return taken;
                    }
                }
                taken
            }
            Err(e) => Err(e),
        };
        if taken.is_err() {
            // The first failure is returned.
            let _ = self.forget_snapshot(snap).await;
        }
        taken
    }

    async fn take_alone(&self, images: &[Image], snap: &mut GroupSnap, kind: &SnapKind) -> Result<(), Error> {
        let name = Name::from(format!(".group.{:x}_{}_{}", self.io.pool().0, self.id, snap.id));
        let taken = join_all(images.iter().map(|image| image.inner.take_snapshot(&name, kind))).await;
        for (of, id) in snap.snaps.iter_mut().zip(taken) {
            of.snap = id?;
        }
        snap.state = GroupSnap::COMPLETE;
        self.note_snapshot(snap).await
    }

    /// Removes the images' snapshots, then the group's record.
    pub(super) async fn erase_snapshot(&self, snap: &GroupSnap) -> Result<(), Error> {
        let kind = &self.kind(snap);
        let removed = stream::iter(snap.snaps.clone()).map(|of| self.erase_one(of, kind));
        removed.buffer_unordered(REMOVALS).try_collect::<()>().await?;
        self.forget_snapshot(snap).await
    }

    async fn erase_one(&self, of: ImageSnap, kind: &SnapKind) -> Result<(), Error> {
        let image = match self.open_one(of).await {
            // The image is gone, with its snapshots.
            Err(Error::NoImage(_)) => return Ok(()),
            image => image?,
        };
        let name = image.view().snapshot_in_group(kind).map(|snap| snap.info.name.clone());
        let removed = match name {
            Some(name) => image.remove_snapshot_of(&name, kind).await,
            None => Ok(()),
        };
        // The operation is complete; a failure to close does not matter.
        let _ = image.close().await;
        gone(removed)
    }

    async fn all_become_again(
        &self,
        images: &[Image],
        snap: &GroupSnap,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let kind = self.kind(snap);
        let _all = alone(images).await?;
        let mut states = Vec::with_capacity(images.len());
        for image in images {
            image.refresh().await?;
            let state = image.view().snapshot_in_group(&kind).cloned();
            states.push(
                state.ok_or_else(|| Error::NoSnapshot(format!("{}@{}", image.name(), snap.name).into()))?,
            );
        }
        let objects = |image: &Image, state: &Snapshot| image.layout().object_count(state.info.size);
        let counts = images.iter().zip(&states).map(|(image, state)| objects(image, state));
        let all = counts.fold(0, u64::saturating_add);
        let mut before = 0u64;
        for (image, state) in images.iter().zip(&states) {
            let told = |n, _| progress(before.saturating_add(n), all);
            image.inner.become_again(state, told).await?;
            before = before.saturating_add(objects(image, state));
        }
        Ok(())
    }
}

/// Removes an image's part of an incomplete snapshot. Needs exclusive access.
async fn undo(image: &Image, kind: &SnapKind) -> Result<(), Error> {
    image.refresh().await?;
    let made = image.view().snapshot_in_group(kind).cloned();
    match made {
        Some(made) => image.inner.erase_snapshot(&made).await,
        None => Ok(()),
    }
}
