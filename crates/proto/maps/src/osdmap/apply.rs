//! Application of incrementals to an osdmap.

use std::collections::BTreeMap;
use std::sync::Arc;

use az::SaturatingAs as _;
use loligo_wire::{DecodeError, Epoch, OsdId, Reader, UTime, Uuid};

use super::{CrimsonChange, EncodedOsdMap, Incremental, Osd, OsdMap, OsdState, index};
use crate::crush::CrushMap;

/// The reason why an incremental was rejected. The map is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The incremental belongs to another cluster.
    #[error("the change is of cluster {theirs}, the map of cluster {ours}")]
    OtherCluster {
        /// The map's cluster.
        ours: Uuid,
        /// The incremental's cluster.
        theirs: Uuid,
    },
    /// The incremental does not lead from the map's epoch to the next.
    #[error("a change to epoch {to} does not follow a map of epoch {from}")]
    Gap {
        /// The map's epoch.
        from: Epoch,
        /// The incremental's epoch.
        to: Epoch,
    },
    /// The incremental changes an OSD beyond the size of the map.
    #[error("the change speaks of osd.{osd}, there are {max_osd} at most")]
    NoSuchOsd {
        /// The OSD.
        osd: OsdId,
        /// The number of OSDs for which the map has entries.
        max_osd: u32,
    },
    /// The incremental enlarges the map beyond the limit.
    #[error("{max_osd} OSDs are too many")]
    TooManyOsds {
        /// The number of OSDs requested.
        max_osd: u32,
    },
    /// A map inside the incremental is malformed.
    #[error("the change holds a bad map: {0}")]
    BadMap(#[from] DecodeError),
    /// The resulting map differs from the monitors' map.
    #[error("epoch {epoch} came out with checksum {actual:#010x}, the monitors have {expected:#010x}")]
    WrongResult {
        /// The epoch.
        epoch: Epoch,
        /// The checksum of the monitors' map.
        expected: u32,
        /// The checksum of the resulting map.
        actual: u32,
    },
}

/// The maximum number of OSDs to which an incremental may enlarge a map: ten times that of the largest
/// clusters. The limit is needed because an incremental of a few bytes can request any number.
const MAX_OSD_MAX: u32 = 100_000;

impl OsdMap {
    /// Advances the map to the next epoch. On an error the map is unchanged.
    ///
    /// As in every client, the result is assumed to equal the monitors' map. OSDs additionally call
    /// [`OsdMap::verify`].
    pub fn apply_incremental(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        if inc.epoch.0.checked_sub(1) != Some(self.epoch.0) {
            return Err(ApplyError::Gap { from: self.epoch, to: inc.epoch });
        }
        // Before its first epoch, the map does not belong to a cluster yet.
        if self.epoch != Epoch(0) && inc.fsid != self.fsid {
            return Err(ApplyError::OtherCluster { ours: self.fsid, theirs: inc.fsid });
        }
        if !inc.full_map.is_empty() {
            return self.replace(inc);
        }
        inc.check_osds(self.max_osd().saturating_as::<u32>())?;
        let crush = match inc.crush.is_empty() {
            true => None,
            false => Some(CrushMap::decode(&mut Reader::new(&inc.crush))?),
        };
        self.fsid = inc.fsid;
        self.epoch = inc.epoch;
        self.modified = inc.modified;
        self.apply_sizes(inc);
        self.apply_pools(inc);
        self.apply_snaps(inc);
        self.apply_osds(inc);
        self.apply_placements(inc);
        self.apply_blocklist(inc);
        self.apply_settings(inc);
        // Last, because the flags of device classes depend on the CRUSH map.
        if let Some(crush) = crush {
            self.put_crush(crush);
        }
        Ok(())
    }

    /// Checks that the map, to which `inc` was just applied, equals the monitors' map, and returns the
    /// monitors' encoding of it. OSDs detect a difference from the monitors this way, and then request
    /// the full map.
    ///
    /// An incremental without a checksum (`full_crc` 0) cannot be checked; the check passes.
    ///
    /// The check encodes the whole map. It fails wrongly only if the monitors write fields that this
    /// crate does not know, which releases after 20 may do.
    pub fn verify(&self, inc: &Incremental) -> Result<EncodedOsdMap, ApplyError> {
        let encoded = self.encode(inc.encode_features);
        if inc.full_crc != 0 && inc.full_crc != encoded.crc {
            let (expected, actual) = (inc.full_crc, encoded.crc);
            return Err(ApplyError::WrongResult { epoch: self.epoch, expected, actual });
        }
        Ok(encoded)
    }

    fn replace(&mut self, inc: &Incremental) -> Result<(), ApplyError> {
        let map = Self::decode(&inc.full_map)?;
        if map.epoch != inc.epoch {
            return Err(ApplyError::Gap { from: self.epoch, to: map.epoch });
        }
        if map.fsid != inc.fsid {
            return Err(ApplyError::OtherCluster { ours: inc.fsid, theirs: map.fsid });
        }
        *self = map;
        Ok(())
    }

    fn apply_sizes(&mut self, inc: &Incremental) {
        if let Some(flags) = inc.new_flags {
            self.flags = flags;
        }
        if let Some(max_osd) = inc.new_max_osd {
            self.set_max_osd(max_osd as usize);
        }
        if let Some(pool_max) = inc.new_pool_max {
            self.pool_max = pool_max;
        }
    }

    fn apply_pools(&mut self, inc: &Incremental) {
        for (id, pool) in &inc.new_pools {
            let mut pool = pool.clone();
            pool.last_change = self.epoch;
            self.pools.insert(*id, pool);
        }
        extend(&mut self.pool_names, &inc.new_pool_names);
        for pool in &inc.old_pools {
            self.pools.remove(pool);
            self.pool_names.remove(pool);
        }
        for name in &inc.old_erasure_code_profiles {
            self.erasure_code_profiles.remove(name);
        }
        extend(&mut self.erasure_code_profiles, &inc.new_erasure_code_profiles);
    }

    fn apply_snaps(&mut self, inc: &Incremental) {
        self.new_removed_snaps.clone_from(&inc.new_removed_snaps);
        self.new_purged_snaps.clone_from(&inc.new_purged_snaps);
        for (pool, snaps) in &inc.new_removed_snaps {
            self.removed_snaps_queue.entry(*pool).or_default().union(snaps);
        }
        for (pool, snaps) in &inc.new_purged_snaps {
            if let Some(queue) = self.removed_snaps_queue.get_mut(pool) {
                queue.subtract(snaps);
                if queue.is_empty() {
                    self.removed_snaps_queue.remove(pool);
                }
            }
        }
    }

    fn apply_osds(&mut self, inc: &Incremental) {
        for (osd, weight) in &inc.new_weight {
            self.set_weight(*osd, *weight);
            if *weight != 0 {
                self.update(*osd, |state, osd| {
                    *state = state.difference(OsdState::AUTOOUT.union(OsdState::NEW));
                    osd.xinfo.old_weight = 0;
                });
            }
        }
        for (osd, affinity) in &inc.new_primary_affinity {
            self.set_primary_affinity(*osd, *affinity);
        }
        for (osd, change) in &inc.new_state {
            self.toggle_state(*osd, if change.is_empty() { OsdState::UP } else { *change });
        }
        let epoch = self.epoch;
        for (id, addrs) in &inc.new_up_client {
            self.update(*id, |state, osd| {
                *state = state.union(OsdState::EXISTS.union(OsdState::UP)).difference(OsdState::STOP);
                osd.client_addrs.clone_from(addrs);
                osd.hb_back_addrs = inc.new_hb_back_up.get(id).cloned().unwrap_or_default();
                osd.hb_front_addrs = inc.new_hb_front_up.get(id).cloned().unwrap_or_default();
                osd.info.up_from = epoch;
            });
        }
        self.update_each(&inc.new_up_cluster, |osd, addrs| osd.cluster_addrs.clone_from(addrs));
        self.update_each(&inc.new_up_thru, |osd, epoch| osd.info.up_thru = *epoch);
        self.update_each(&inc.new_last_clean_interval, |osd, (begin, end)| {
            osd.info.last_clean_begin = *begin;
            osd.info.last_clean_end = *end;
        });
        self.update_each(&inc.new_lost, |osd, epoch| osd.info.lost_at = *epoch);
        self.update_each(&inc.new_xinfo, |osd, xinfo| osd.xinfo = *xinfo);
        self.update_each(&inc.new_uuid, |osd, uuid| osd.uuid = *uuid);
    }

    fn toggle_state(&mut self, id: OsdId, change: OsdState) {
        let (epoch, modified) = (self.epoch, self.modified);
        let is_destroyed = self.exists(id) && change.contains(OsdState::EXISTS);
        self.update(id, |state, osd| {
            if is_destroyed {
                *state = OsdState::default();
                *osd = Osd::default();
                return;
            }
            if state.contains(OsdState::UP) && change.contains(OsdState::UP) {
                osd.info.down_at = epoch;
                osd.xinfo.down_stamp = modified;
            }
            *state = state.symmetric_difference(change);
        });
        if is_destroyed {
            // As in Ceph, this also happens if all affinities have the default value; it is visible in
            // the encoding.
            self.set_primary_affinity(id, Self::WEIGHT_IN);
        }
    }

    fn apply_placements(&mut self, inc: &Incremental) {
        for (pg, osds) in &inc.new_pg_temp {
            set_or_remove(&mut self.pg_temp, pg, osds, osds.is_empty());
        }
        for (pg, primary) in &inc.new_primary_temp {
            set_or_remove(&mut self.primary_temp, pg, primary, primary.0 == -1);
        }
        extend(&mut self.pg_upmap, &inc.new_pg_upmap);
        inc.old_pg_upmap.iter().for_each(|pg| drop(self.pg_upmap.remove(pg)));
        extend(&mut self.pg_upmap_items, &inc.new_pg_upmap_items);
        inc.old_pg_upmap_items.iter().for_each(|pg| drop(self.pg_upmap_items.remove(pg)));
        extend(&mut self.pg_upmap_primaries, &inc.new_pg_upmap_primary);
        inc.old_pg_upmap_primary.iter().for_each(|pg| {
            self.pg_upmap_primaries.remove(pg);
        });
    }

    fn apply_blocklist(&mut self, inc: &Incremental) {
        let list = &mut self.blocklist;
        // An existing entry keeps its end time.
        for (addr, until) in inc.new_blocklist.iter() {
            list.addrs.insert_new(*addr, *until);
        }
        for addr in &inc.old_blocklist {
            list.addrs.remove(addr);
        }
        for (range, until) in inc.new_range_blocklist.iter() {
            list.ranges.insert_new(*range, *until);
        }
        for range in &inc.old_range_blocklist {
            list.ranges.remove(range);
        }
    }

    fn apply_settings(&mut self, inc: &Incremental) {
        for (node, flags) in &inc.new_crush_node_flags {
            set_or_remove(&mut self.crush_node_flags, node, flags, *flags == 0);
        }
        for (class, flags) in &inc.new_device_class_flags {
            set_or_remove(&mut self.device_class_flags, class, flags, *flags == 0);
        }
        self.cluster_snapshot.clone_from(&inc.cluster_snapshot);
        self.cluster_snapshot_epoch = if inc.cluster_snapshot.is_empty() { Epoch(0) } else { inc.epoch };
        set_if_some(&mut self.nearfull_ratio, inc.new_nearfull_ratio);
        set_if_some(&mut self.backfillfull_ratio, inc.new_backfillfull_ratio);
        set_if_some(&mut self.full_ratio, inc.new_full_ratio);
        set_if_some(
            &mut self.require_min_compat_client,
            inc.new_require_min_compat_client.filter(|r| *r > 0),
        );
        if let Some(release) = inc.new_require_osd_release {
            self.require_osd_release = release;
            self.flags = self.flags.implied_by_release(release);
        }
        set_if_some(&mut self.stretch, inc.new_stretch);
        match inc.allow_crimson {
            CrimsonChange::None => {}
            CrimsonChange::Allow => self.allow_crimson = true,
            CrimsonChange::Forbid => self.allow_crimson = false,
        }
        if inc.new_last_up_change != UTime::default() {
            self.last_up_change = inc.new_last_up_change;
        }
        if inc.new_last_in_change != UTime::default() {
            self.last_in_change = inc.new_last_in_change;
        }
    }

    fn put_crush(&mut self, crush: CrushMap) {
        self.crush = Arc::new(crush);
        self.crush_version = self.crush_version.wrapping_add(1);
        let classes = &self.crush.class_names;
        self.device_class_flags.retain(|class, _| classes.contains_key(class));
    }

    /// Changes an OSD. An id beyond the map has no effect; `check_osds` has rejected it before.
    fn update(&mut self, id: OsdId, change: impl FnOnce(&mut OsdState, &mut Osd)) {
        let places = index(id).map(|i| (self.osd_state.get_mut(i), self.osds.get_mut(i)));
        if let Some((Some(state), Some(osd))) = places {
            change(state, osd);
        }
    }

    fn update_each<T>(&mut self, values: &BTreeMap<OsdId, T>, change: impl Fn(&mut Osd, &T)) {
        for (id, value) in values {
            self.update(*id, |_, osd| change(osd, value));
        }
    }
}

impl Incremental {
    /// Checks that the map has entries for all OSDs that the incremental changes.
    fn check_osds(&self, max_osd: u32) -> Result<(), ApplyError> {
        let room = max_osd;
        let max_osd = self.new_max_osd.unwrap_or(room);
        if max_osd > MAX_OSD_MAX.max(room) {
            return Err(ApplyError::TooManyOsds { max_osd });
        }
        let bad = |osd: &&OsdId| u32::try_from(osd.0).map_or(true, |osd| osd >= max_osd);
        let osds = (self.new_weight.keys())
            .chain(self.new_primary_affinity.keys())
            .chain(self.new_state.keys())
            .chain(self.new_up_client.keys())
            .chain(self.new_up_cluster.keys())
            .chain(self.new_up_thru.keys())
            .chain(self.new_last_clean_interval.keys())
            .chain(self.new_lost.keys())
            .chain(self.new_xinfo.keys())
            .chain(self.new_uuid.keys());
        match osds.into_iter().find(bad) {
            Some(osd) => Err(ApplyError::NoSuchOsd { osd: *osd, max_osd }),
            None => Ok(()),
        }
    }
}

fn extend<K: Ord + Clone, V: Clone>(into: &mut BTreeMap<K, V>, from: &BTreeMap<K, V>) {
    into.extend(from.iter().map(|(key, value)| (key.clone(), value.clone())));
}

fn set_or_remove<K: Ord + Copy, V: Clone>(map: &mut BTreeMap<K, V>, key: &K, value: &V, remove: bool) {
    if remove {
        map.remove(key);
    } else {
        map.insert(*key, value.clone());
    }
}

fn set_if_some<T: Copy>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}
