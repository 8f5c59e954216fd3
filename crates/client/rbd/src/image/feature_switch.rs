//! Switches features of an existing image.
//!
//! Rules and order are librbd's (`librbd/operation/EnableFeaturesRequest.cc`,
//! `DisableFeaturesRequest.cc`): object-map and fast-diff are switched together; new object maps of the
//! image and its snapshots are invalid until they are [rebuilt](Image::rebuild_object_map) from the
//! objects.

use loligo_rados::{Errno, SnapId};
use loligo_wire::Encode as _;
use loligo_wire::rbd::object_map::{COUNT_MAX, NONEXISTENT};
use loligo_wire::rbd::{ObjectMap, feature};

use crate::call::tell;
use crate::features::{FAST_DIFF_INVALID, OBJECT_MAP_INVALID, text};
use crate::image::{Image, Inner};
use crate::lock::messages::Wanted;
use crate::{Error, names};

/// Features that can be switched on and off (`RBD_FEATURES_MUTABLE`).
const MUTABLE: u64 = feature::EXCLUSIVE_LOCK | feature::OBJECT_MAP | feature::FAST_DIFF | feature::JOURNALING;

/// Features that are switched together.
const MAPS: u64 = feature::OBJECT_MAP | feature::FAST_DIFF;

impl Image {
    /// Switches features on, all or none. New object maps are marked invalid until
    /// [`Image::rebuild_object_map`] rebuilds them.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image) -> Result<(), loligo_rbd::Error> {
    /// let maps = loligo_rbd::features::by_name("object-map").unwrap_or_default();
    /// image.enable_features(maps).await?;
    /// image.rebuild_object_map(|_, _| {}).await
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Switch`] if a feature cannot be switched, is on already, or needs another one that is
    /// off; [`Error::Features`] for journaling.
    pub async fn enable_features(&self, features: u64) -> Result<(), Error> {
        switchable(features, MUTABLE)?;
        if features & feature::JOURNALING != 0 {
            return Err(Error::Features(text(feature::JOURNALING)));
        }
        let inner = &self.inner;
        inner.refresh().await?;
        inner.check_view()?;
        inner.must_be_new("have features", Errno::EINVAL)?;
        // Checked here, because the owner's error has no details.
        inner.added(features)?;
        if self.has_owner_do(Wanted::Features { features, enabled: true }, |_, _| {}).await? {
            return Ok(());
        }
        let _all = inner.enter_alone().await?;
        inner.refresh().await?;
        let added = inner.added(features)?;
        inner.header_changes();
        // First, so that every client that sees the feature also sees that the map is not valid yet.
        inner.set_flags_of_all(flags_of(added), flags_of(added)).await?;
        if added & feature::OBJECT_MAP != 0 {
            inner.make_empty_maps().await?;
        }
        inner.set_features(added, added).await?;
        inner.header_changed().await
    }

    /// Switches features off, all or none. Switching off object-map also removes the object maps of the
    /// image and its snapshots.
    ///
    /// # Errors
    /// [`Error::Switch`] if a feature cannot be switched, is off already, or is needed by another one
    /// that stays on.
    pub async fn disable_features(&self, features: u64) -> Result<(), Error> {
        switchable(features, MUTABLE | feature::DEEP_FLATTEN)?;
        let inner = &self.inner;
        inner.refresh().await?;
        inner.check_view()?;
        inner.must_be_new("have features", Errno::EINVAL)?;
        inner.removed(features)?;
        if self.has_owner_do(Wanted::Features { features, enabled: false }, |_, _| {}).await? {
            return Ok(());
        }
        let _all = inner.enter_alone().await?;
        inner.refresh().await?;
        let removed = inner.removed(features)?;
        if removed & feature::OBJECT_MAP != 0 {
            inner.map.close().await?;
        }
        inner.header_changes();
        inner.set_features(0, removed).await?;
        inner.set_flags_of_all(0, flags_of(removed)).await?;
        if removed & feature::OBJECT_MAP != 0 {
            inner.remove_maps().await?;
        }
        if removed & feature::EXCLUSIVE_LOCK != 0 {
            // This also ends the cache.
            inner.give_up().await?;
        }
        inner.header_changed().await
    }
}

/// Returns an error if some features cannot be switched.
fn switchable(features: u64, allowed: u64) -> Result<(), Error> {
    if features == 0 {
        return refused(0, "is no feature");
    }
    match features & !allowed {
        0 => Ok(()),
        fixed => refused(fixed, "cannot be switched so"),
    }
}

fn refused<T>(features: u64, why: &'static str) -> Result<T, Error> {
    Err(Error::Switch { features: text(features), why })
}

fn with_its_like(features: u64) -> u64 {
    if features & MAPS == 0 { features } else { features | MAPS }
}

/// The flags that mark the data of these features invalid.
fn flags_of(features: u64) -> u64 {
    let flag = |feature: u64, flag: u64| if features & feature == 0 { 0 } else { flag };
    flag(feature::OBJECT_MAP, OBJECT_MAP_INVALID) | flag(feature::FAST_DIFF, FAST_DIFF_INVALID)
}

impl Inner {
    /// The features to switch on for these, according to the header.
    fn added(&self, features: u64) -> Result<u64, Error> {
        let view = self.view.load();
        if features & view.features != 0 {
            return refused(features & view.features, "is on already");
        }
        let added = with_its_like(features) & !view.features;
        if added & feature::OBJECT_MAP != 0 {
            if (view.features | added) & feature::EXCLUSIVE_LOCK == 0 {
                return refused(feature::OBJECT_MAP, "needs exclusive-lock");
            }
            if self.fixed.layout.object_count(view.size) > COUNT_MAX {
                return refused(feature::OBJECT_MAP, "is for images of fewer objects");
            }
        }
        Ok(added)
    }

    /// The features to switch off for these.
    fn removed(&self, features: u64) -> Result<u64, Error> {
        let view = self.view.load();
        if features & !view.features != 0 {
            return refused(features & !view.features, "is off already");
        }
        let removed = with_its_like(features) & view.features;
        let needs_lock = feature::OBJECT_MAP | feature::JOURNALING;
        if removed & feature::EXCLUSIVE_LOCK != 0 && view.features & !removed & needs_lock != 0 {
            return refused(feature::EXCLUSIVE_LOCK, "is needed by object-map or journaling");
        }
        Ok(removed)
    }

    async fn set_features(&self, features: u64, mask: u64) -> Result<(), Error> {
        tell(&self.io, &self.header, "set_features", |w| {
            w.u64(features);
            w.u64(mask);
        })
        .await
    }

    /// Sets flags of the image and its snapshots.
    async fn set_flags_of_all(&self, flags: u64, mask: u64) -> Result<(), Error> {
        if mask == 0 {
            return Ok(());
        }
        for snap in &self.view.load_full().snapshots {
            self.set_flags(flags, mask, snap.info.id).await?;
        }
        self.set_flags(flags, mask, SnapId::HEAD).await
    }

    /// Writes object maps that mark every object NONEXISTENT.
    async fn make_empty_maps(&self) -> Result<(), Error> {
        let view = self.view.load_full();
        let snaps = view.snapshots.iter().map(|snap| (Some(snap.info.id.0), snap.info.size));
        for (snap, size) in snaps.chain([(None, view.size)]) {
            let mut map = ObjectMap::default();
            map.resize(self.fixed.layout.object_count(size), NONEXISTENT);
            self.io.write_full(names::object_map(&self.id, snap), map.to_bytes()).await?;
        }
        Ok(())
    }

    async fn remove_maps(&self) -> Result<(), Error> {
        let view = self.view.load_full();
        let snaps = view.snapshots.iter().map(|snap| Some(snap.info.id.0));
        for snap in snaps.chain([None]) {
            crate::call::gone(self.io.remove(names::object_map(&self.id, snap)).await.map_err(Error::from))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_features_are_switched() {
        assert!(switchable(feature::OBJECT_MAP | feature::FAST_DIFF, MUTABLE).is_ok());
        assert!(switchable(feature::DEEP_FLATTEN, MUTABLE).is_err());
        assert!(switchable(0, MUTABLE).is_err());
        assert_eq!(with_its_like(feature::FAST_DIFF), MAPS);
        assert_eq!(with_its_like(feature::EXCLUSIVE_LOCK), feature::EXCLUSIVE_LOCK);
        assert_eq!(flags_of(MAPS), 3);
        assert_eq!(flags_of(feature::EXCLUSIVE_LOCK), 0);
    }
}
