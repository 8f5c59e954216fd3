//! OSD ids that `ceph osd new` has reserved. They are in the map, but this server has no OSD for them.
//! All of this server's data belongs to the OSDs that it serves; reserved ids are added and removed as
//! in a stock cluster.

use loligo_cephx::keyring::Entry;
use loligo_maps::crush::{CrushBuildError, CrushMap};
use loligo_maps::{OsdMap, OsdState};
use loligo_wire::{EntityName, EntityType, OsdId, UTime, Uuid};

use super::State;
use crate::failure::{Errno, Failure};

/// The maximum number of OSDs in a map (`mon_max_osd`).
pub const MAX_OSD_MAX: i32 = 10_000;

impl State {
    /// Whether this server serves the OSD: it exists, and is not only a reserved id.
    pub fn is_served(&self, osd: OsdId) -> bool {
        self.osdmap().exists(osd) && !self.reserved_osds.contains(&osd)
    }

    /// The OSDs that this server serves.
    pub fn served_osds(&self) -> impl Iterator<Item = OsdId> {
        self.osdmap().osd_ids().filter(|osd| self.is_served(*osd))
    }

    /// Reserves an id for the OSD with this `uuid`: the one that it already has, the `wanted` one, or
    /// the first free one.
    ///
    /// # Errors
    /// The id or the uuid belongs to another OSD; the id is out of range.
    pub fn reserve_osd(&mut self, now: UTime, uuid: Uuid, wanted: Option<OsdId>) -> Result<OsdId, Failure> {
        let map = self.osdmap();
        let known = (uuid != Uuid::default())
            .then(|| map.osd_ids().find(|osd| map.osd(*osd).is_some_and(|facts| facts.uuid == uuid)));
        let osd = match (known.flatten(), wanted) {
            (Some(known), Some(wanted)) if known != wanted => {
                let status = format!("uuid {uuid} already in use for different id {known}");
                return Err(Failure::new(Errno::EEXIST, status));
            }
            (Some(known), _) => return Ok(known),
            (None, Some(wanted))
                if map.exists(wanted) && !map.state(wanted).contains(OsdState::DESTROYED) =>
            {
                let status = format!("id {wanted} already in use and does not match uuid {uuid}");
                return Err(Failure::invalid(status));
            }
            (None, Some(wanted)) => wanted,
            (None, None) => (0..).map(OsdId).find(|osd| !map.exists(*osd)).unwrap_or_default(),
        };
        if !(0..MAX_OSD_MAX).contains(&osd.0) {
            let status =
                format!("osd.{osd} is beyond the {MAX_OSD_MAX} OSDs that a map may have (mon_max_osd)");
            return Err(Failure::new(Errno::ERANGE, status));
        }
        self.change_osdmap(now, |map, inc| {
            let exists = map.exists(osd);
            if usize::try_from(osd.0).is_ok_and(|id| id >= map.max_osd()) {
                inc.new_max_osd = u32::try_from(osd.0 + 1).ok();
            }
            // An OSD with a weight exists: setting the weight adds it to the map.
            inc.new_state.insert(osd, if exists { OsdState::DESTROYED } else { OsdState::NEW });
            inc.new_uuid.insert(osd, uuid);
            if !exists {
                inc.osd_weight(osd, OsdMap::WEIGHT_IN);
            }
        })?;
        self.reserved_osds.insert(osd);
        self.changes.other = true;
        Ok(osd)
    }

    /// Marks a reserved OSD destroyed and removes its secrets. Its id stays reserved.
    ///
    /// # Errors
    /// A change cannot be applied.
    pub fn destroy_reserved_osd(&mut self, now: UTime, osd: OsdId) -> Result<(), Failure> {
        self.forget_secrets_of(osd);
        if self.osdmap().state(osd).contains(OsdState::DESTROYED) {
            return Ok(());
        }
        self.change_osdmap(now, |_, inc| {
            inc.new_state.insert(osd, OsdState::DESTROYED);
            inc.new_uuid.insert(osd, Uuid::default());
        })?;
        Ok(())
    }

    /// Removes reserved OSDs from the map; `purge` also removes them from CRUSH and removes their keys.
    ///
    /// # Errors
    /// The CRUSH map cannot be built without the OSD.
    pub fn remove_reserved_osds(&mut self, now: UTime, osds: &[OsdId], purge: bool) -> Result<(), Failure> {
        let mut crush = CrushMap::clone(&self.osdmap().crush);
        if purge {
            let taken = osds.iter().try_for_each(|osd| take_out(&mut crush, osd.0));
            taken.map_err(|e| Failure::new(Errno::EBUSY, format!("the CRUSH map needs it: {e}")))?;
            osds.iter().for_each(|osd| self.forget_secrets_of(*osd));
        }
        self.change_osdmap(now, |map, inc| {
            if crush != *map.crush {
                inc.set_crush(&crush);
            }
            inc.new_state.extend(osds.iter().map(|osd| (*osd, map.state(*osd))));
        })?;
        self.reserved_osds.retain(|osd| !osds.contains(osd));
        self.changes.other = true;
        Ok(())
    }

    /// Sets the key of an OSD, with the capabilities of OSDs.
    pub fn set_osd_key(&mut self, osd: OsdId, entry: Entry) {
        let caps = [("mgr", "allow profile osd"), ("mon", "allow profile osd"), ("osd", "allow *")];
        let entry = caps.into_iter().fold(entry, |entry, (service, cap)| entry.with_caps(service, cap));
        self.set_key(name_of(osd), entry);
    }

    /// Removes the secrets of an OSD: its key, its lockbox's key, and its disk encryption keys.
    fn forget_secrets_of(&mut self, osd: OsdId) {
        self.remove_key(&name_of(osd));
        let Some(uuid) = self.osdmap().osd(osd).map(|facts| facts.uuid) else { return };
        self.remove_key(&EntityName::client(&format!("osd-lockbox.{uuid}")));
        for prefix in [format!("dm-crypt/osd/{uuid}/"), format!("daemon-private/osd.{osd}/")] {
            let keys: Vec<_> =
                self.config_keys.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
            keys.iter().for_each(|key| self.remove_config_key(key));
        }
    }
}

fn name_of(osd: OsdId) -> EntityName {
    EntityName { kind: EntityType::OSD, id: osd.to_string() }
}

fn take_out(crush: &mut CrushMap, device: i32) -> Result<(), CrushBuildError> {
    if !crush.names.contains_key(&device) {
        return Ok(());
    }
    let shadows: Vec<i32> = crush.class_buckets.values().flat_map(|ids| ids.values().copied()).collect();
    let holds = |bucket: &&loligo_maps::crush::Bucket| {
        bucket.items.contains(&device) && !shadows.contains(&bucket.id)
    };
    let buckets: Vec<i32> = crush.buckets.iter().flatten().filter(holds).map(|bucket| bucket.id).collect();
    buckets.into_iter().try_for_each(|bucket| crush.remove_item(device, bucket))?;
    crush.names.remove(&device);
    crush.classes.remove(&device);
    crush.rebuild_class_trees()
}
