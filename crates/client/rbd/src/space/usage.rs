//! The space used by an image, and checks of its object map.

use std::collections::HashSet;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use loligo_rados::{IoCtx, SnapId};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::Name;
use loligo_wire::rbd::object_map::{EXISTS, NONEXISTENT};
use loligo_wire::rbd::{ObjectMap, SnapKind, feature};

use crate::features::{FAST_DIFF_INVALID, OBJECT_MAP_INVALID};
use crate::header::{Snapshot, View};
use crate::image::resize::REMOVALS;
use crate::image::{Image, Inner};
use crate::lock::messages::Wanted;
use crate::object_map::load;
use crate::progress::report;
use crate::{Error, names};

/// The space used by one state of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The snapshot; `None`: the image's head.
    pub snapshot: Option<(SnapId, Name)>,
    /// The size in bytes.
    pub provisioned: u64,
    /// Bytes of objects created or changed since the previous snapshot; each object counts as a whole.
    pub used: u64,
}

impl Image {
    /// Returns the usage of each user's snapshot and of the image, oldest first; of a clone, without the
    /// parent's data. Valid object maps with fast-diff are used if there are any; otherwise each object
    /// is queried, which is slow.
    ///
    /// # Errors
    /// The maps or the objects cannot be read.
    pub async fn usage(&self) -> Result<Vec<Usage>, Error> {
        let inner = &self.inner;
        inner.write_back().await?;
        inner.refresh().await?;
        let view = inner.view.load_full();
        view.check_readable(inner.moving)?;
        let valid = |flags: u64| flags & (OBJECT_MAP_INVALID | FAST_DIFF_INVALID) == 0;
        let usable = view.has(feature::OBJECT_MAP | feature::FAST_DIFF) && valid(view.flags);
        if !usable || view.snapshots.iter().any(|snap| !valid(snap.flags)) {
            return inner.usage_by_objects(&view).await;
        }
        let snaps = view.snapshots.iter().map(|snap| (Some(&snap.info), snap.info.size));
        let (mut all, mut changed, mut is_first) = (Vec::new(), HashSet::new(), true);
        for (snap, provisioned) in snaps.chain([(None, view.size)]) {
            let map = load(&inner.io, &names::object_map(&inner.id, snap.map(|snap| snap.id.0))).await?;
            let counts = |state: u8| state == EXISTS || (is_first && state != NONEXISTENT);
            changed.extend((0..map.count()).filter(|n| counts(map.get(*n))));
            is_first = false;
            if snap.is_some_and(|snap| snap.kind != SnapKind::User) {
                // In the trash, or of a group: its objects count for the next state.
                continue;
            }
            let there = changed.drain().filter(|n| *n < map.count() && map.get(*n) != NONEXISTENT);
            let used = there.map(|n| inner.share(n, provisioned)).sum();
            all.push(Usage { snapshot: snap.map(|snap| (snap.id, snap.name.clone())), provisioned, used });
        }
        Ok(all)
    }

    /// Compares the image's object map with its objects. Returns the numbers of the objects missing in
    /// the map; if there are any, the map is marked invalid.
    ///
    /// # Errors
    /// [`Error::NoObjectMap`].
    pub async fn check_object_map(&self) -> Result<Vec<u64>, Error> {
        let inner = &self.inner;
        if !inner.view.load().has(feature::OBJECT_MAP) {
            return Err(Error::NoObjectMap);
        }
        let _all = inner.enter_alone().await?;
        if !inner.map.is_open() {
            return Err(Error::NoObjectMap);
        }
        let count = inner.fixed.layout.object_count(inner.view.load().size);
        let there = inner.existing(&inner.data, count, |_, _| {}).await?;
        let missed: Vec<u64> =
            (0..count).filter(|n| there.get(*n) != NONEXISTENT && inner.map.is_missing(*n)).collect();
        if !missed.is_empty() {
            inner.invalidate_map().await?;
        }
        Ok(missed)
    }

    /// Compares a snapshot's object map with its objects. Returns the numbers of the objects missing in
    /// the map. If there are any, or the map is missing or too short, the map is marked invalid.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::NoObjectMap`].
    pub async fn check_snapshot_object_map(&self, name: impl Into<Name>) -> Result<Vec<u64>, Error> {
        let name = &name.into();
        let (inner, snap) = (&self.inner, self.mapped_snapshot(name).await?);
        let _all = inner.enter_alone().await?;
        let (id, count) = (snap.info.id, inner.fixed.layout.object_count(snap.info.size));
        let map = match load(&inner.io, &names::object_map(&inner.id, Some(id.0))).await {
            Err(e) if e.is_not_found() => None,
            map => Some(map?),
        };
        let there = inner.existing(&inner.data.at_snapshot(id), count, |_, _| {}).await?;
        // Objects behind the map's end are missing in it.
        let is_missing =
            |n: &u64| map.as_ref().is_none_or(|map| *n >= map.count() || map.get(*n) == NONEXISTENT);
        let missed: Vec<u64> = (0..count).filter(|n| there.get(*n) != NONEXISTENT && is_missing(n)).collect();
        if map.is_none_or(|map| map.count() < count) || !missed.is_empty() {
            let invalid = OBJECT_MAP_INVALID | FAST_DIFF_INVALID;
            inner.set_flags(invalid, invalid, id).await?;
            inner.header_changed().await?;
        }
        Ok(missed)
    }

    /// Rebuilds a snapshot's object map from its existing objects. `progress` gets the number of objects
    /// checked, and of all objects. The map marks each existing object as changed since the previous
    /// snapshot.
    ///
    /// # Errors
    /// [`Error::NoSnapshot`]; [`Error::NoObjectMap`] if the image has no feature object-map.
    pub async fn rebuild_snapshot_object_map(
        &self,
        name: impl Into<Name>,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), Error> {
        let name = &name.into();
        let (inner, snap) = (&self.inner, self.mapped_snapshot(name).await?);
        let _all = inner.enter_alone().await?;
        inner.make_snapshot_map(&snap, progress).await?;
        inner.header_changed().await
    }

    /// Returns a snapshot of an image with the feature object-map.
    async fn mapped_snapshot(&self, name: &Name) -> Result<Snapshot, Error> {
        self.inner.check_header().await?;
        let view = self.inner.view.load();
        match view.has(feature::OBJECT_MAP) {
            true => view.snapshot(name).cloned(),
            false => Err(Error::NoObjectMap),
        }
    }

    /// Rebuilds the object maps of the image and its snapshots from the existing objects. `progress`
    /// gets the number of objects checked, and of all objects. The maps mark each existing object as
    /// changed since the previous snapshot.
    ///
    /// # Errors
    /// [`Error::NoObjectMap`] if the image has no feature object-map.
    pub async fn rebuild_object_map(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        let inner = &self.inner;
        inner.check_header().await?;
        if !inner.view.load().has(feature::OBJECT_MAP) {
            return Err(Error::NoObjectMap);
        }
        if self.has_owner_do(Wanted::RebuildObjectMap, &mut progress).await? {
            return Ok(());
        }
        let _all = inner.enter_alone().await?;
        let view = inner.view.load_full();
        let invalid = OBJECT_MAP_INVALID | FAST_DIFF_INVALID;
        for snap in &view.snapshots {
            inner.make_snapshot_map(snap, &mut progress).await?;
        }
        let count = inner.fixed.layout.object_count(view.size);
        let map = inner.existing(&inner.data, count, &mut progress).await?;
        inner.map.make(map).await?;
        inner.set_flags(0, invalid, SnapId::HEAD).await?;
        inner.header_changed().await
    }
}

impl Inner {
    /// Rebuilds a snapshot's object map from the existing objects.
    async fn make_snapshot_map(&self, snap: &Snapshot, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
        let (id, count) = (snap.info.id, self.fixed.layout.object_count(snap.info.size));
        let map = self.existing(&self.data.at_snapshot(id), count, progress).await?;
        let oid = names::object_map(&self.id, Some(id.0));
        self.io.write_full(oid, loligo_wire::Encode::to_bytes(&map)).await?;
        self.set_flags(0, OBJECT_MAP_INVALID | FAST_DIFF_INVALID, id).await
    }

    /// Computes the usage of each state from the objects' histories.
    async fn usage_by_objects(&self, view: &View) -> Result<Vec<Usage>, Error> {
        let snaps = view.snapshots.iter().map(|snap| &snap.info);
        // Objects of a snapshot in the trash or of a group count for the next state.
        let kept = snaps.filter(|snap| snap.kind == SnapKind::User);
        let mut all: Vec<Usage> = kept
            .map(|snap| (Some((snap.id, snap.name.clone())), snap.size))
            .chain([(None, view.size)])
            .map(|(snapshot, provisioned)| Usage { snapshot, provisioned, used: 0 })
            .collect();
        let states: Vec<SnapId> =
            all.iter().map(|usage| usage.snapshot.as_ref().map_or(SnapId::HEAD, |(id, _)| *id)).collect();
        let size = all.iter().map(|usage| usage.provisioned).max().unwrap_or(0);
        let states = &states;
        let looked = stream::iter(0..self.fixed.layout.object_count(size)).map(|number| async move {
            let history = self.history(ObjectNo(number)).await?;
            Ok::<_, Error>((number, history.changed_in(states)))
        });
        let mut looked = looked.buffer_unordered(REMOVALS);
        while let Some((number, changed)) = looked.try_next().await? {
            for (usage, _) in all.iter_mut().zip(changed).filter(|(_, changed)| *changed) {
                usage.used += self.share(number, usage.provisioned);
            }
        }
        Ok(all)
    }

    /// The bytes of an object that belong to an image of this size.
    fn share(&self, number: u64, size: u64) -> u64 {
        self.fixed.layout.object_len(ObjectNo(number), size)
    }

    /// Builds an object map of the existing objects.
    async fn existing(
        &self,
        io: &IoCtx,
        count: u64,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<ObjectMap, Error> {
        let mut map = ObjectMap::default();
        map.resize(count, NONEXISTENT);
        let looked = stream::iter(0..count).map(|number| async move {
            let extent = ObjectExtent { object: ObjectNo(number), offset: 0, len: 0 };
            match io.stat(self.object(extent)).await {
                Err(e) if e.is_not_found() => Ok((number, NONEXISTENT)),
                Err(e) => Err(Error::from(e)),
                Ok(_) => Ok((number, EXISTS)),
            }
        });
        let mut looked = looked.buffer_unordered(REMOVALS);
        let mut done = 0;
        while let Some((number, state)) = looked.try_next().await? {
            map.set(number, state);
            done += 1;
            report(&mut progress, done, count).await;
        }
        Ok(map)
    }
}
