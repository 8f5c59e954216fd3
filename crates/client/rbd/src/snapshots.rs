//! Snapshots of an image.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::Name;
use loligo_wire::rbd::{SnapKind, feature};

use crate::call::tell;
use crate::header::{Format, Snapshot};
use crate::image::resize::REMOVALS;
use crate::image::{Image, Inner};
use crate::lock::messages::Wanted;
use crate::progress::report;
use crate::{Error, names};

const UNPROTECTED: u8 = 0;
const UNPROTECTING: u8 = 1;
const PROTECTED: u8 = 2;

impl Image {
    /// Creates a snapshot. It has all data written before, and none written later.
    ///
    /// # Errors
    /// [`Error::SnapshotExists`]; [`Error::ReadOnly`].
    pub async fn create_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        let name = &name.into();
        self.create_snapshot_of(name, &SnapKind::User).await
    }

    /// As `Image::create_snapshot`, for any kind of snapshot.
    pub(crate) async fn create_snapshot_of(&self, name: &Name, kind: &SnapKind) -> Result<(), Error> {
        let wanted = Wanted::CreateSnapshot { name: name.to_owned(), kind: kind.clone(), flags: 0 };
        match self.has_owner_do(wanted, |_, _| {}).await {
            Ok(true) => return Ok(()),
            Err(e) if e.errno() == Errno::EEXIST => return Err(Error::SnapshotExists(name.to_owned())),
            asked => asked?,
        };
        let _all = self.inner.enter_alone().await?;
        self.inner.take_snapshot(name, kind).await.map(drop)
    }

    /// Makes the cluster refuse more than `limit` snapshots, with EDQUOT; `None` removes the limit.
    ///
    /// # Errors
    /// ERANGE if the image already has more.
    pub async fn limit_snapshots(&self, limit: Option<u64>) -> Result<(), Error> {
        let inner = &self.inner;
        inner.check_header().await?;
        tell(&inner.io, &inner.header, "snapshot_set_limit", |w| w.u64(limit.unwrap_or(u64::MAX))).await?;
        inner.header_changed().await
    }

    /// Removes a snapshot. A snapshot with clones of version 2 is moved to the snapshot trash, and
    /// removed with its last clone.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotBusy`] if it is protected.
    pub async fn remove_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        let name = &name.into();
        self.remove_snapshot_of(name, &SnapKind::User).await
    }

    /// As `Image::remove_snapshot`, for any kind of snapshot.
    pub(crate) async fn remove_snapshot_of(&self, name: &Name, kind: &SnapKind) -> Result<(), Error> {
        let wanted = Wanted::RemoveSnapshot { name: name.to_owned(), kind: kind.clone() };
        if self.has_owner_change(name, wanted).await? {
            return Ok(());
        }
        let (_all, snap) = self.alone_with(name, kind).await?;
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

    /// Removes a snapshot from the snapshot trash if its last clone is gone.
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

    /// Renames a snapshot.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotExists`].
    pub async fn rename_snapshot(&self, from: impl Into<Name>, to: impl Into<Name>) -> Result<(), Error> {
        let from = &from.into();
        let to = &to.into();
        self.inner.refresh().await?;
        self.inner.check_view()?;
        let id = self.inner.view.load().snapshot(from)?.info.id;
        let wanted = Wanted::RenameSnapshot { id, name: to.to_owned() };
        match self.has_owner_do(wanted, |_, _| {}).await {
            Ok(true) => return Ok(()),
            Err(e) if e.errno() == Errno::EEXIST => return Err(Error::SnapshotExists(to.to_owned())),
            asked => asked?,
        };
        self.rename_snapshot_of(id, to).await
    }

    /// As `Image::rename_snapshot`, for a snapshot known by its id.
    pub(crate) async fn rename_snapshot_of(&self, id: SnapId, to: &Name) -> Result<(), Error> {
        let _all = self.inner.enter_alone().await?;
        self.inner.refresh().await?;
        let known = self.inner.view.load().snapshot_by_id(id).is_some_and(|s| s.info.kind == SnapKind::User);
        if !known {
            return Err(Errno::ENOENT.into());
        }
        if self.inner.view.load().snapshot(to).is_ok() {
            return Err(Error::SnapshotExists(to.to_owned()));
        }
        let method = match self.inner.fixed.format {
            Format::First => "snap_rename",
            Format::Second => "snapshot_rename",
        };
        tell(&self.inner.io, &self.inner.header, method, |w| {
            w.u64(id.0);
            w.put(to);
        })
        .await?;
        self.inner.header_changed().await
    }

    /// Protects a snapshot from removal, so that it can have clones.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; EBUSY if it is protected already.
    pub async fn protect_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        let name = &name.into();
        let wanted = Wanted::ProtectSnapshot { name: name.to_owned(), kind: SnapKind::User };
        if self.has_owner_change(name, wanted).await? {
            return Ok(());
        }
        let (_all, snap) = self.alone_with(name, &SnapKind::User).await?;
        if snap.protected {
            return Err(Error::SnapshotBusy(name.to_owned()));
        }
        self.inner.set_protection(snap.info.id, PROTECTED).await?;
        self.inner.header_changed().await
    }

    /// Removes the protection of a snapshot. Clones of version 1, which need it, are searched for in
    /// each namespace of each pool; clones of version 2 do not need it.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotBusy`] if it has clones of version 1; EINVAL if it is not
    /// protected.
    pub async fn unprotect_snapshot(&self, name: impl Into<Name>) -> Result<(), Error> {
        let name = &name.into();
        let wanted = Wanted::UnprotectSnapshot { name: name.to_owned(), kind: SnapKind::User };
        if self.has_owner_change(name, wanted).await? {
            return Ok(());
        }
        let (_all, snap) = self.alone_with(name, &SnapKind::User).await?;
        if !snap.protected {
            return Err(Errno::EINVAL.into());
        }
        let inner = &self.inner;
        inner.set_protection(snap.info.id, UNPROTECTING).await?;
        // A client that creates a clone of version 1 first registers it and then checks the protection.
        let clones = inner.old_clones(snap.info.id).await;
        let busy = !matches!(&clones, Ok(clones) if clones.is_empty());
        inner.set_protection(snap.info.id, if busy { PROTECTED } else { UNPROTECTED }).await?;
        inner.header_changed().await?;
        clones?;
        if busy { Err(Error::SnapshotBusy(name.to_owned())) } else { Ok(()) }
    }

    /// Restores the image's data from a snapshot. `progress` gets the number of objects done, and of all
    /// objects.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]. After a failure some objects are restored and some are not.
    pub async fn roll_back(
        &self,
        name: impl Into<Name>,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let name = &name.into();
        let (_all, snap) = self.alone_with(name, &SnapKind::User).await?;
        self.inner.become_again(&snap, progress).await
    }

    /// Asks the lock's owner to change a snapshot.
    async fn has_owner_change(&self, name: &Name, wanted: Wanted) -> Result<bool, Error> {
        self.has_owner_do(wanted, |_, _| {}).await.map_err(|e| match e.errno() {
            Errno::ENOENT => Error::NoSnapshot(name.to_owned()),
            Errno::EBUSY => Error::SnapshotBusy(name.to_owned()),
            _ => e,
        })
    }

    /// Takes exclusive access with the lock, and returns the current state of a snapshot.
    async fn alone_with(
        &self,
        name: &Name,
        kind: &SnapKind,
    ) -> Result<(tokio::sync::SemaphorePermit<'_>, Snapshot), Error> {
        let all = self.inner.enter_alone().await?;
        self.inner.refresh().await?;
        let snap = self.inner.view.load().snapshot_of(name, kind)?.clone();
        Ok((all, snap))
    }
}

impl Inner {
    /// Creates a snapshot and returns its id. Needs exclusive access.
    pub(crate) async fn take_snapshot(&self, name: &Name, kind: &SnapKind) -> Result<SnapId, Error> {
        self.refresh().await?;
        let view = self.view.load_full();
        if view.snapshot_of(name, kind).is_ok() {
            return Err(Error::SnapshotExists(name.to_owned()));
        }
        let id = loop {
            let id = self.data.create_managed_snapshot().await?;
            match self.add_snapshot(name, kind, id).await {
                Ok(()) => break id,
                Err(e) => {
                    // The first failure is returned.
                    let _ = self.io.remove(names::object_map(&self.id, Some(id.0))).await;
                    let _ = self.data.remove_managed_snapshot(id).await;
                    if e.errno() != Errno::ESTALE {
                        return Err(e);
                    }
                }
            }
        };
        if view.has(feature::FAST_DIFF) {
            self.map.begin_diff().await?;
        }
        self.header_changed().await?;
        Ok(id)
    }

    /// Restores the image's data from a snapshot. Needs exclusive access.
    pub(crate) async fn become_again(
        &self,
        snap: &Snapshot,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        // During a migration, a missing object means one that is still to be copied.
        self.check_whole("roll it back when the migration is executed")?;
        self.end_caching().await?;
        let (id, layout) = (snap.info.id, self.fixed.layout);
        if self.view.load().size != snap.info.size {
            self.become_of_size(snap.info.size, |_, _| {}).await?;
        }
        self.refresh().await?;
        // The map gets the objects of both states, so that it is correct if the roll-back is
        // interrupted.
        self.map.begin_roll_back(&self.id, id.0, layout.object_count(snap.info.size)).await?;
        let (io, all) = (&self.writer()?, layout.object_count(snap.info.size));
        let back = stream::iter(0..all).map(|number| async move {
            let extent = ObjectExtent { object: ObjectNo(number), offset: 0, len: 0 };
            match io.rollback(self.object(extent), id).await {
                Err(e) if !e.is_not_found() => Err(Error::from(e)),
                _ => Ok(()),
            }
        });
        let mut back = back.buffer_unordered(REMOVALS);
        let mut done = 0;
        while back.try_next().await?.is_some() {
            done += 1;
            report(&mut progress, done, all).await;
        }
        self.map.roll_back(&self.id, id.0, layout.object_count(snap.info.size)).await?;
        self.header_changed().await
    }

    /// Adds a snapshot to the header. Its object map is stored before, so that every snapshot in the
    /// header has a map. An interruption in between leaves a map of a snapshot that does not exist, and
    /// the image's own map marks too many objects as changed.
    async fn add_snapshot(&self, name: &Name, kind: &SnapKind, id: SnapId) -> Result<(), Error> {
        self.map.keep_as(&self.id, id.0).await?;
        self.header_changes();
        let is_old = self.fixed.format == Format::First;
        tell(&self.io, &self.header, if is_old { "snap_add" } else { "snapshot_add" }, |w| {
            w.put(name);
            w.u64(id.0);
            if !is_old {
                w.put(kind);
            }
        })
        .await
    }

    /// Removes a snapshot that is not needed any more. Needs exclusive access.
    pub(crate) async fn erase_snapshot(&self, snap: &Snapshot) -> Result<(), Error> {
        let (view, id) = (self.view.load_full(), snap.info.id);
        let next = view.snapshots.iter().map(|snap| snap.info.id).find(|other| *other > id);
        let with_parent = view.snapshots.iter().filter(|snap| snap.overlap.is_some()).count();
        if snap.overlap.is_some() && view.overlap.is_none() && with_parent == 1 {
            // It was the last snapshot that needed the parent.
            self.detach_child().await?;
        }
        if view.has(feature::FAST_DIFF) {
            self.map.pass_on(&self.id, id.0, next.map(|next| next.0)).await?;
        }
        self.header_changes();
        self.data.remove_managed_snapshot(id).await?;
        match self.fixed.format {
            Format::First => tell(&self.io, &self.header, "snap_remove", |w| w.put(&snap.info.name)).await?,
            Format::Second => tell(&self.io, &self.header, "snapshot_remove", |w| w.u64(id.0)).await?,
        }
        // Last, so that an existing snapshot has its map.
        if view.has(feature::OBJECT_MAP) {
            self.map.forget(&self.id, id.0).await?;
        }
        self.header_changed().await
    }

    async fn set_protection(&self, snap: SnapId, status: u8) -> Result<(), Error> {
        self.must_be_new("have protected snapshots", Errno::ENOSYS)?;
        tell(&self.io, &self.header, "set_protection_status", |w| {
            w.u64(snap.0);
            w.u8(status);
        })
        .await
    }
}
