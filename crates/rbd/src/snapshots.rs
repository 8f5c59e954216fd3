//! Snapshots of an image.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::{SnapKind, feature};

use crate::call::tell;
use crate::error::{EBUSY, ESTALE};
use crate::image::{Image, Inner};
use crate::messages::Wanted;
use crate::resize::REMOVALS;
use crate::view::Snapshot;
use crate::{Error, names};

const UNPROTECTED: u8 = 0;
const UNPROTECTING: u8 = 1;
const PROTECTED: u8 = 2;

impl Image {
    /// Makes a snapshot. What was written before is in it, what is written later is not.
    ///
    /// # Errors
    /// [`Error::SnapshotExists`]; [`Error::ReadOnly`].
    pub async fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        let wanted = Wanted::CreateSnapshot { name: name.to_owned(), kind: SnapKind::User, flags: 0 };
        match self.has_owner_do(wanted, |_, _| {}).await {
            Ok(true) => return Ok(()),
            Err(e) if e.errno() == Errno::EEXIST => return Err(Error::SnapshotExists(name.to_owned())),
            asked => asked?,
        };
        let _all = inner.enter_alone().await?;
        inner.refresh().await?;
        let view = inner.view.load_full();
        if view.snapshot(name).is_ok() {
            return Err(Error::SnapshotExists(name.to_owned()));
        }
        loop {
            let id = inner.data.create_managed_snapshot().await?;
            match inner.add_snapshot(name, id).await {
                Ok(()) => break,
                Err(e) => {
                    // The first failure is the one to tell.
                    let _ = inner.io.remove(names::object_map(&inner.id, Some(id.0))).await;
                    let _ = inner.data.remove_managed_snapshot(id).await;
                    if e.errno() != ESTALE {
                        return Err(e);
                    }
                }
            }
        }
        if view.has(feature::FAST_DIFF) {
            inner.map.begin_diff().await?;
        }
        inner.header_changed().await
    }

    /// Has the cluster refuse more snapshots than so many, with EDQUOT, or as many as can be (`None`).
    ///
    /// # Errors
    /// ERANGE if there are more already.
    pub async fn limit_snapshots(&self, limit: Option<u64>) -> Result<(), Error> {
        let inner = &self.inner;
        tell(&inner.io, &inner.header, "snapshot_set_limit", |w| w.u64(limit.unwrap_or(u64::MAX))).await?;
        inner.header_changed().await
    }

    /// Removes a snapshot. One that has clones of the second version goes to the trash of snapshots; with the last clone it is gone.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotBusy`] if it is protected.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        let wanted = Wanted::RemoveSnapshot { name: name.to_owned(), kind: SnapKind::User };
        if self.has_owner_change(name, wanted).await? {
            return Ok(());
        }
        let (_all, snap) = self.alone_with(name).await?;
        if snap.protected {
            return Err(Error::SnapshotBusy(name.to_owned()));
        }
        let inner = &self.inner;
        if snap.info.children > 0 {
            inner.header_changes();
            tell(&inner.io, &inner.header, "snapshot_trash_add", |w| w.u64(snap.info.id.0)).await?;
            return inner.header_changed().await;
        }
        inner.erase_snapshot(&snap).await
    }

    /// Removes a snapshot in the trash whose last clone is gone.
    pub(crate) async fn remove_trashed_snapshot(&self, id: SnapId) -> Result<(), Error> {
        let inner = &self.inner;
        let _all = inner.enter_alone().await?;
        inner.refresh().await?;
        let snap = inner.view.load().snapshot_by_id(id).cloned();
        match snap.filter(|snap| matches!(snap.info.kind, SnapKind::Trash { .. }) && snap.info.children == 0)
        {
            Some(snap) => inner.erase_snapshot(&snap).await,
            None => Ok(()),
        }
    }

    /// Gives a snapshot another name.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotExists`].
    pub async fn rename_snapshot(&self, from: &str, to: &str) -> Result<(), Error> {
        self.inner.refresh().await?;
        let id = self.inner.view.load().snapshot(from)?.info.id;
        let wanted = Wanted::RenameSnapshot { id, name: to.to_owned() };
        match self.has_owner_do(wanted, |_, _| {}).await {
            Ok(true) => return Ok(()),
            Err(e) if e.errno() == Errno::EEXIST => return Err(Error::SnapshotExists(to.to_owned())),
            asked => asked?,
        };
        self.rename_snapshot_of(id, to).await
    }

    /// The same for one that is known by its id.
    pub(crate) async fn rename_snapshot_of(&self, id: SnapId, to: &str) -> Result<(), Error> {
        let _all = self.inner.enter_alone().await?;
        self.inner.refresh().await?;
        let known = self.inner.view.load().snapshot_by_id(id).is_some_and(|s| s.info.kind == SnapKind::User);
        if !known {
            return Err(Errno::ENOENT.into());
        }
        if self.inner.view.load().snapshot(to).is_ok() {
            return Err(Error::SnapshotExists(to.to_owned()));
        }
        tell(&self.inner.io, &self.inner.header, "snapshot_rename", |w| {
            w.u64(id.0);
            w.put(to);
        })
        .await?;
        self.inner.header_changed().await
    }

    /// Keeps a snapshot from being removed, so that it can have clones. Done again it does nothing.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; EBUSY if it is protected already.
    pub async fn protect_snapshot(&self, name: &str) -> Result<(), Error> {
        let wanted = Wanted::ProtectSnapshot { name: name.to_owned(), kind: SnapKind::User };
        if self.has_owner_change(name, wanted).await? {
            return Ok(());
        }
        let (_all, snap) = self.alone_with(name).await?;
        if snap.protected {
            return Err(Error::SnapshotBusy(name.to_owned()));
        }
        self.inner.set_protection(snap.info.id, PROTECTED).await?;
        self.inner.header_changed().await
    }

    /// Lets a snapshot be removed again. Clones of the first version, which need its protection, are looked for in each namespace of each pool;
    /// those of the second keep it by themselves.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotBusy`] if it has clones of the first version; EINVAL if it is not protected.
    pub async fn unprotect_snapshot(&self, name: &str) -> Result<(), Error> {
        let wanted = Wanted::UnprotectSnapshot { name: name.to_owned(), kind: SnapKind::User };
        if self.has_owner_change(name, wanted).await? {
            return Ok(());
        }
        let (_all, snap) = self.alone_with(name).await?;
        if !snap.protected {
            return Err(Errno::EINVAL.into());
        }
        let inner = &self.inner;
        inner.set_protection(snap.info.id, UNPROTECTING).await?;
        // Who makes a clone of the first version enters it first, and looks whether the snapshot is protected afterwards.
        let clones = inner.old_clones(snap.info.id).await;
        let busy = !matches!(&clones, Ok(clones) if clones.is_empty());
        inner.set_protection(snap.info.id, if busy { PROTECTED } else { UNPROTECTED }).await?;
        inner.header_changed().await?;
        clones?;
        if busy { Err(Error::SnapshotBusy(name.to_owned())) } else { Ok(()) }
    }

    /// Makes the image what it was at a snapshot; tells how many objects of how many are done.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]. If it fails in between, some objects are what they were and some are not.
    pub async fn roll_back(&self, name: &str, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        let (_all, snap) = self.alone_with(name).await?;
        let inner = &self.inner;
        inner.end_caching().await?;
        let (id, layout) = (snap.info.id, inner.fixed.layout);
        if inner.view.load().size != snap.info.size {
            inner.become_of_size(snap.info.size, |_, _| {}).await?;
        }
        inner.refresh().await?;
        // What there is now and what there was then: if this ends in between the map misses nothing.
        inner.map.begin_roll_back(&inner.id, id.0, layout.object_count(snap.info.size)).await?;
        let (io, all) = (&inner.writer()?, layout.object_count(snap.info.size));
        let back = stream::iter(0..all).map(|number| async move {
            let extent = ObjectExtent { object: ObjectNo(number), offset: 0, len: 0 };
            match io.rollback(inner.object(extent), id).await {
                Err(e) if !e.is_not_found() => Err(Error::from(e)),
                _ => Ok(()),
            }
        });
        let mut back = back.buffer_unordered(REMOVALS);
        let mut done = 0;
        while back.try_next().await?.is_some() {
            done += 1;
            progress(done, all);
        }
        inner.map.roll_back(&inner.id, id.0, layout.object_count(snap.info.size)).await?;
        inner.header_changed().await
    }

    /// Has the lock's owner change a snapshot.
    async fn has_owner_change(&self, name: &str, wanted: Wanted) -> Result<bool, Error> {
        self.has_owner_do(wanted, |_, _| {}).await.map_err(|e| match e.errno() {
            Errno::ENOENT => Error::NoSnapshot(name.to_owned()),
            EBUSY => Error::SnapshotBusy(name.to_owned()),
            _ => e,
        })
    }

    /// Alone, with the lock, and a snapshot as it is now.
    async fn alone_with(&self, name: &str) -> Result<(tokio::sync::SemaphorePermit<'_>, Snapshot), Error> {
        let all = self.inner.enter_alone().await?;
        self.inner.refresh().await?;
        let snap = self.inner.view.load().snapshot(name)?.clone();
        Ok((all, snap))
    }
}

impl Inner {
    /// Enters a snapshot. Its map is there before: whoever finds the snapshot finds the map too, wherever this ends. What is left of it if it ends in
    /// between is a map of a snapshot that never was, and the image's own map says of too much that it has changed.
    async fn add_snapshot(&self, name: &str, id: SnapId) -> Result<(), Error> {
        self.map.keep_as(&self.id, id.0).await?;
        self.header_changes();
        tell(&self.io, &self.header, "snapshot_add", |w| {
            w.put(name);
            w.u64(id.0);
            w.put(&SnapKind::User);
        })
        .await
    }

    /// Removes a snapshot that nobody needs any more. To be called alone.
    async fn erase_snapshot(&self, snap: &Snapshot) -> Result<(), Error> {
        let (view, id) = (self.view.load_full(), snap.info.id);
        let next = view.snapshots.iter().map(|snap| snap.info.id).find(|other| *other > id);
        let with_parent = view.snapshots.iter().filter(|snap| snap.overlap.is_some()).count();
        if snap.overlap.is_some() && view.overlap.is_none() && with_parent == 1 {
            // It was the last that needed the parent.
            self.detach_child().await?;
        }
        if view.has(feature::FAST_DIFF) {
            self.map.pass_on(&self.id, id.0, next.map(|next| next.0)).await?;
        }
        self.header_changes();
        self.data.remove_managed_snapshot(id).await?;
        tell(&self.io, &self.header, "snapshot_remove", |w| w.u64(id.0)).await?;
        // Last: as long as the snapshot is there, so is its map.
        if view.has(feature::OBJECT_MAP) {
            self.map.forget(&self.id, id.0).await?;
        }
        self.header_changed().await
    }

    async fn set_protection(&self, snap: SnapId, status: u8) -> Result<(), Error> {
        tell(&self.io, &self.header, "set_protection_status", |w| {
            w.u64(snap.0);
            w.u8(status);
        })
        .await
    }
}
