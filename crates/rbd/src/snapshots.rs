//! Snapshots of an image.

use std::collections::BTreeSet;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{Errno, IoCtx, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::{SnapKind, feature};

use crate::call::{ask, tell};
use crate::error::ESTALE;
use crate::image::{Image, Inner};
use crate::resize::REMOVALS;
use crate::view::Snapshot;
use crate::{Error, names, namespaces};

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

    /// Removes a snapshot.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotBusy`] if it is protected or has clones.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        let inner = &self.inner;
        let _all = inner.enter_alone().await?;
        inner.refresh().await?;
        let view = inner.view.load_full();
        let snap = view.snapshot(name)?;
        if snap.protected || snap.info.children > 0 {
            return Err(Error::SnapshotBusy(name.to_owned()));
        }
        let id = snap.info.id;
        let next = view.snapshots.iter().map(|snap| snap.info.id).find(|other| *other > id);
        if view.has(feature::FAST_DIFF) {
            inner.map.pass_on(&inner.id, id.0, next.map(|next| next.0)).await?;
        }
        inner.data.remove_managed_snapshot(id).await?;
        tell(&inner.io, &inner.header, "snapshot_remove", |w| w.u64(id.0)).await?;
        // Last: as long as the snapshot is there, so is its map.
        if view.has(feature::OBJECT_MAP) {
            inner.map.forget(&inner.id, id.0).await?;
        }
        inner.header_changed().await
    }

    /// Gives a snapshot another name.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotExists`].
    pub async fn rename_snapshot(&self, from: &str, to: &str) -> Result<(), Error> {
        let (_all, snap) = self.alone_with(from).await?;
        if self.inner.view.load().snapshot(to).is_ok() {
            return Err(Error::SnapshotExists(to.to_owned()));
        }
        tell(&self.inner.io, &self.inner.header, "snapshot_rename", |w| {
            w.u64(snap.info.id.0);
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
        let (_all, snap) = self.alone_with(name).await?;
        if snap.protected {
            return Err(Error::SnapshotBusy(name.to_owned()));
        }
        self.inner.set_protection(snap.info.id, PROTECTED).await?;
        self.inner.header_changed().await
    }

    /// Lets a snapshot be removed again. Clones of the second version are counted in its header; those of the first are looked for in each namespace
    /// of each pool.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::SnapshotBusy`] if it has clones; EINVAL if it is not protected.
    pub async fn unprotect_snapshot(&self, name: &str) -> Result<(), Error> {
        let (_all, snap) = self.alone_with(name).await?;
        if !snap.protected {
            return Err(Errno::EINVAL.into());
        }
        let inner = &self.inner;
        inner.set_protection(snap.info.id, UNPROTECTING).await?;
        // Who makes a clone of the first version enters it first, and looks whether the snapshot is protected afterwards.
        let clones = inner.has_old_clones(snap.info.id).await;
        let busy = snap.info.children > 0 || !matches!(clones, Ok(false));
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
        let (id, layout) = (snap.info.id, inner.fixed.layout);
        let now = inner.view.load().size;
        if now != snap.info.size {
            if snap.info.size < now {
                inner.trim(snap.info.size, |_, _| {}).await?;
            }
            tell(&inner.io, &inner.header, "set_size", |w| w.u64(snap.info.size)).await?;
        }
        inner.refresh().await?;
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
        tell(&self.io, &self.header, "snapshot_add", |w| {
            w.put(name);
            w.u64(id.0);
            w.put(&SnapKind::User);
        })
        .await
    }

    async fn set_protection(&self, snap: SnapId, status: u8) -> Result<(), Error> {
        tell(&self.io, &self.header, "set_protection_status", |w| {
            w.u64(snap.0);
            w.u8(status);
        })
        .await
    }

    /// Whether a snapshot has clones of the first version, in any namespace of any pool.
    async fn has_old_clones(&self, snap: SnapId) -> Result<bool, Error> {
        for (pool, _) in self.io.rados().pools() {
            let io = self.io.rados().ioctx_by_id(pool);
            let namespaces = match namespaces::list(&io).await {
                // An OSD without the class knows no clones.
                Err(e) if e.errno() == Errno::EOPNOTSUPP => continue,
                namespaces => namespaces?,
            };
            if self.has_old_clones_in(&io, snap).await? {
                return Ok(true);
            }
            for namespace in namespaces {
                if self.has_old_clones_in(&io.with_namespace(namespace), snap).await? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    async fn has_old_clones_in(&self, io: &IoCtx, snap: SnapId) -> Result<bool, Error> {
        let children: Result<BTreeSet<String>, Error> = ask(io, names::CHILDREN, "get_children", |w| {
            w.i64(self.io.pool().0);
            w.put(&self.id);
            w.u64(snap.0);
        })
        .await;
        match children {
            Ok(children) => Ok(!children.is_empty()),
            Err(e) if e.is_not_found() => Ok(false),
            Err(e) => Err(e),
        }
    }
}
