//! Snapshots of a group: one of each image, all of the same moment.
//!
//! The group notes the snapshot as incomplete, takes the exclusive lock of each image that has that feature,
//! so that nobody writes to any of them, makes a snapshot in each, and notes that it is complete. Whoever
//! finds an incomplete one removes it as any other: what images have of it is known by its id. Clients that
//! freeze file systems (quiesce hooks) are not asked to.

use std::collections::BTreeSet;

use futures_util::future::{join_all, try_join_all};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, IoCtx, PoolId, SnapId};
use loligo_wire::Name;
use loligo_wire::rbd::{GroupSnap, ImageSnap, SnapKind};
use tokio::sync::SemaphorePermit;

use super::{Group, new_id, place_in};
use crate::call::{ask, tell};
use crate::header::Snapshot;
use crate::image::{Image, Mode, Which};
use crate::images::gone;
use crate::resize::REMOVALS;
use crate::{Error, names};

/// A snapshot of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: Name,
    /// Whether each image has its snapshot. If not, it is being made, or whoever made it was interrupted; it
    /// can be removed.
    pub complete: bool,
}

/// The snapshots of a group, by id.
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

/// Makes a snapshot of each of a group's images, all of the same moment as far as they have the feature
/// exclusive-lock: who writes to one is asked for the lock, and gets it back. If it fails what was made is
/// removed again.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::SnapshotExists`]; [`Error::Locked`] if somebody has locked an image by hand;
/// EINVAL if it is no name.
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
            // The first failure is the one to tell.
            let _ = group.forget_snapshot(&snap).await;
            return Err(e);
        }
    };
    let made = group.take(&images, &mut snap).await;
    close(images).await;
    made
}

/// Removes a snapshot of a group, and the images'. If it fails in between it can be repeated.
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

/// Gives a snapshot of a group another name.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::NoSnapshot`]; [`Error::SnapshotExists`]; EINVAL if it is no name.
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

/// Makes the images of a group what they were at a snapshot; tells how many objects of how many are done.
///
/// # Errors
/// [`Error::NoGroup`]; [`Error::NoSnapshot`]; [`Error::OtherMembers`], as later releases than 16 have it
/// (ceph/ceph#58074). If it fails in between some images are what they were and some are not.
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

/// The snapshot of a group with which one of an image was made.
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
    /// With which snapshot of a group one of the image was made; `None` if with none, or if that is no more.
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

/// What is done is done, whether the locks could be given up or not.
async fn close(images: Vec<Image>) {
    join_all(images.into_iter().map(Image::close)).await;
}

/// The locks of all images, and nobody who writes to one.
async fn alone(images: &[Image]) -> Result<Vec<SemaphorePermit<'_>>, Error> {
    // First, since owners need their time: all at the same time.
    try_join_all(images.iter().map(Image::acquire_lock)).await?;
    // One after the other, in the order of the group's list: of two who want all images one waits for the
    // other.
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

    /// Makes the snapshots of images that are open.
    async fn take(&self, images: &[Image], snap: &mut GroupSnap) -> Result<(), Error> {
        let kind = self.kind(snap);
        let taken = match alone(images).await {
            Ok(_all) => {
                let taken = self.take_alone(images, snap, &kind).await;
                if taken.is_err() {
                    let undone = join_all(images.iter().map(|image| undo(image, &kind))).await;
                    if undone.iter().any(Result::is_err) {
                        // By the note of it what is left can still be removed.
                        return taken;
                    }
                }
                taken
            }
            Err(e) => Err(e),
        };
        if taken.is_err() {
            // The first failure is the one to tell.
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

    /// Removes what images have of a snapshot, then the group's note of it.
    pub(super) async fn erase_snapshot(&self, snap: &GroupSnap) -> Result<(), Error> {
        let kind = &self.kind(snap);
        let removed = stream::iter(snap.snaps.clone()).map(|of| self.erase_one(of, kind));
        removed.buffer_unordered(REMOVALS).try_collect::<()>().await?;
        self.forget_snapshot(snap).await
    }

    async fn erase_one(&self, of: ImageSnap, kind: &SnapKind) -> Result<(), Error> {
        let image = match self.open_one(of).await {
            // It is gone, and its snapshots with it.
            Err(Error::NoImage(_)) => return Ok(()),
            image => image?,
        };
        let name = image.view().snapshot_in_group(kind).map(|snap| snap.info.name.clone());
        let removed = match name {
            Some(name) => image.remove_snapshot_of(&name, kind).await,
            None => Ok(()),
        };
        // What is done is done.
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

/// Removes what an image has of a snapshot that was not completed. To be called alone.
async fn undo(image: &Image, kind: &SnapKind) -> Result<(), Error> {
    image.refresh().await?;
    let made = image.view().snapshot_in_group(kind).cloned();
    match made {
        Some(made) => image.inner.erase_snapshot(&made).await,
        None => Ok(()),
    }
}
