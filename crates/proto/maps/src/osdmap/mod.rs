//! The OSD map (`OSDMap` in `src/osd/OSDMap.h`).

mod addr_times;
mod apply;
mod blocklist;
mod build;
mod codec;
mod incremental;
mod osd;
mod placement;
mod sealed;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use az::SaturatingAs as _;
use bitflags::bitflags;
use bytes::Bytes;
use loligo_wire::{EntityAddrVec, Epoch, OsdId, PgId, PoolId, SnapSet, UTime, Uuid};

pub use addr_times::AddrTimes;
pub use apply::ApplyError;
pub use blocklist::Blocklist;
pub use build::{NextEpoch, OsdMapBuilder};
pub use incremental::{CrimsonChange, Incremental};
pub use osd::{Osd, OsdInfo, OsdState, OsdXInfo};
pub use placement::{HOLE, OsdSet, UpActing};
pub use targets::{Target, Targets};

use crate::crush::CrushMap;
use crate::{Name, PgPool};

/// The state of a cluster's OSDs and pools in one epoch.
///
/// The fields are public because a map is data. The exceptions are the per-OSD tables (states, weights,
/// …), which must have equal lengths and are changed by methods. A map is meant to be shared: to change
/// it, clone it and change the clone.
#[derive(Clone, Debug, PartialEq)]
pub struct OsdMap {
    /// The cluster's id.
    pub fsid: Uuid,
    /// The map's version.
    pub epoch: Epoch,
    /// The time at which the cluster was created.
    pub created: UTime,
    /// The time at which this epoch was created.
    pub modified: UTime,
    /// Pools.
    pub pools: BTreeMap<PoolId, PgPool>,
    /// Names of the pools.
    pub pool_names: BTreeMap<PoolId, Name>,
    /// The highest pool number ever used.
    pub pool_max: PoolId,
    /// Cluster-wide flags.
    pub flags: MapFlags,
    osd_state: Vec<OsdState>,
    osd_weight: Vec<u32>,
    osds: Vec<Osd>,
    /// `None` while every OSD has the default affinity.
    primary_affinity: Option<Vec<u32>>,
    /// Temporary placements, which replace those of CRUSH until backfill completes.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Temporary primaries, which replace the first OSD.
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// Explicit placements.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Replacements of single OSDs, as pairs (from, to) that are applied in order.
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Explicit primaries (release 18 and up).
    pub pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    /// The CRUSH map.
    pub crush: Arc<CrushMap>,
    /// The number of changes of the CRUSH map.
    pub crush_version: u32,
    /// Erasure code profiles.
    pub erasure_code_profiles: BTreeMap<Name, BTreeMap<Name, Name>>,
    /// Snapshots removed in this epoch, by pool.
    pub new_removed_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots whose removal completed in this epoch, by pool.
    pub new_purged_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots being removed, by pool.
    pub removed_snaps_queue: BTreeMap<PoolId, SnapSet>,
    /// The last time an OSD went up or down.
    pub last_up_change: UTime,
    /// The last time an OSD went in or out.
    pub last_in_change: UTime,
    /// Addresses that must not access OSDs.
    pub blocklist: Blocklist,
    /// The epoch of `cluster_snapshot`.
    pub cluster_snapshot_epoch: Epoch,
    /// The name of a snapshot of the whole cluster; always empty.
    pub cluster_snapshot: Name,
    /// The fraction of used space from which the cluster warns.
    pub nearfull_ratio: f32,
    /// The fraction of used space from which writes stop.
    pub full_ratio: f32,
    /// The fraction of used space from which backfill stops.
    pub backfillfull_ratio: f32,
    /// The oldest release that clients may run; 0 if not set.
    pub require_min_compat_client: u8,
    /// The oldest release that OSDs may run.
    pub require_osd_release: u8,
    /// State flags that apply to all OSDs below a CRUSH bucket.
    pub crush_node_flags: BTreeMap<i32, u32>,
    /// State flags that apply to all OSDs of a device class.
    pub device_class_flags: BTreeMap<i32, u32>,
    /// The state of stretch mode, for clusters on two sites.
    pub stretch: StretchMode,
    /// Whether Crimson OSDs may join.
    pub allow_crimson: bool,
}

bitflags! {
    /// Cluster-wide flags (`CEPH_OSDMAP_*` in `src/include/rados.h`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MapFlags: u32 {
        /// An OSD is full; used before release 14.
        const FULL = 1 << 1;
        /// Reads are paused.
        const PAUSERD = 1 << 2;
        /// Writes are paused.
        const PAUSEWR = 1 << 3;
        /// OSDs are not marked up.
        const NOUP = 1 << 5;
        /// OSDs are not marked down.
        const NODOWN = 1 << 6;
        /// OSDs are not marked out automatically.
        const NOOUT = 1 << 7;
        /// OSDs are not marked in automatically.
        const NOIN = 1 << 8;
        /// Objects are sorted by their bit-reversed hash.
        const SORTBITWISE = 1 << 15;
        /// No scrubs except on request.
        const NOSCRUB = 1 << 11;
        /// No deep scrubs except on request.
        const NODEEP_SCRUB = 1 << 12;
        /// Recovery handles deletions separately.
        const RECOVERY_DELETES = 1 << 19;
        /// Snapshot directories have been purged.
        const PURGED_SNAPDIRS = 1 << 20;
        /// Placement group logs have a hard length limit.
        const PGLOG_HARDLIMIT = 1 << 22;
        // Bits that newer releases may send are kept.
        const _ = !0;
    }
}

impl MapFlags {
    /// Formerly marked releases 10, 11 and 12; cleared since release 12.
    const LEGACY_REQUIRE: Self = Self::from_bits_retain(1 << 16 | 1 << 17 | 1 << 18);

    /// Returns the flags with those that the required OSD release implies, regardless of the encoded
    /// flags.
    fn implied_by_release(self, release: u8) -> Self {
        const LUMINOUS: u8 = 12;
        const NAUTILUS: u8 = 14;
        let mut flags = self;
        if release >= LUMINOUS {
            flags = flags.difference(Self::LEGACY_REQUIRE).union(Self::RECOVERY_DELETES);
        }
        if release >= NAUTILUS {
            flags = flags.union(Self::PGLOG_HARDLIMIT);
        }
        flags
    }
}

/// The state of a cluster on two sites with a tiebreaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StretchMode {
    /// Whether stretch mode is enabled.
    pub enabled: bool,
    /// The number of sites.
    pub bucket_count: u32,
    /// The number of sites that are missing.
    pub degraded: u32,
    /// Nonzero while a site is recovering.
    pub recovering: u32,
    /// The CRUSH type of a site.
    pub bucket: i32,
}

/// An encoded map and the checksum that it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedOsdMap {
    /// The encoded map.
    pub bytes: Bytes,
    /// The checksum of the map; an incremental that leads to this map has it as `full_crc`.
    pub crc: u32,
}

impl Default for OsdMap {
    fn default() -> Self {
        Self {
            fsid: Uuid::default(),
            epoch: Epoch(0),
            created: UTime::default(),
            modified: UTime::default(),
            pools: BTreeMap::new(),
            pool_names: BTreeMap::new(),
            pool_max: PoolId(0),
            flags: MapFlags::default(),
            osd_state: Vec::new(),
            osd_weight: Vec::new(),
            osds: Vec::new(),
            primary_affinity: None,
            pg_temp: BTreeMap::new(),
            primary_temp: BTreeMap::new(),
            pg_upmap: BTreeMap::new(),
            pg_upmap_items: BTreeMap::new(),
            pg_upmap_primaries: BTreeMap::new(),
            crush: Arc::default(),
            crush_version: 1,
            erasure_code_profiles: BTreeMap::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            removed_snaps_queue: BTreeMap::new(),
            last_up_change: UTime::default(),
            last_in_change: UTime::default(),
            blocklist: Blocklist::default(),
            cluster_snapshot_epoch: Epoch(0),
            cluster_snapshot: Name::default(),
            nearfull_ratio: 0.0,
            full_ratio: 0.0,
            backfillfull_ratio: 0.0,
            require_min_compat_client: 0,
            require_osd_release: 0,
            crush_node_flags: BTreeMap::new(),
            device_class_flags: BTreeMap::new(),
            stretch: StretchMode::default(),
            allow_crimson: false,
        }
    }
}

impl OsdMap {
    /// The weight of an OSD that accepts its full share, and the default primary affinity, in 1/65536.
    pub const WEIGHT_IN: u32 = 0x1_0000;

    /// Converts a weight or an affinity to the form of maps, in 1/65,536. The result saturates at 0 and
    /// at `u32::MAX`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast of a float stops at the bounds; of what is no number it makes 0"
    )]
    pub fn fixed_weight(weight: f64) -> u32 {
        (weight * f64::from(Self::WEIGHT_IN)) as u32
    }

    /// The number of OSD entries: one more than the highest possible OSD number.
    pub fn max_osd(&self) -> usize {
        self.osds.len()
    }

    /// The numbers of the OSDs that exist.
    pub fn osd_ids(&self) -> impl Iterator<Item = OsdId> {
        (0..self.max_osd().saturating_as::<i32>()).map(OsdId).filter(|osd| self.exists(*osd))
    }

    /// Returns the data of an OSD, if the OSD exists.
    pub fn osd(&self, osd: OsdId) -> Option<&Osd> {
        self.osds.get(index(osd)?).filter(|_| self.exists(osd))
    }

    /// Returns an OSD's state; the default, empty state for a number beyond the map.
    #[inline]
    pub fn state(&self, osd: OsdId) -> OsdState {
        index(osd).and_then(|i| self.osd_state.get(i)).copied().unwrap_or_default()
    }

    /// Whether the OSD exists.
    #[inline]
    pub fn exists(&self, osd: OsdId) -> bool {
        self.state(osd).contains(OsdState::EXISTS)
    }

    /// Whether the OSD exists and is up.
    #[inline]
    pub fn is_up(&self, osd: OsdId) -> bool {
        self.state(osd).contains(OsdState::EXISTS.union(OsdState::UP))
    }

    /// Whether the OSD exists and is in: its weight is not 0.
    pub fn is_in(&self, osd: OsdId) -> bool {
        self.exists(osd) && self.weight(osd) != 0
    }

    /// The fraction of its share that an OSD accepts, in 1/65536; 0 means out.
    pub fn weight(&self, osd: OsdId) -> u32 {
        index(osd).and_then(|i| self.osd_weight.get(i)).copied().unwrap_or(0)
    }

    /// The fraction of its share of primaries that an OSD accepts, in 1/65536.
    pub fn primary_affinity(&self, osd: OsdId) -> u32 {
        let affinities = self.primary_affinity.as_deref().unwrap_or_default();
        index(osd).and_then(|i| affinities.get(i)).copied().unwrap_or(Self::WEIGHT_IN)
    }

    /// The addresses at which clients reach an OSD, if it is up.
    pub fn client_addrs(&self, osd: OsdId) -> Option<&EntityAddrVec> {
        self.osd(osd).filter(|_| self.is_up(osd)).map(|osd| &osd.client_addrs)
    }

    /// The pool with this number.
    #[inline]
    pub fn pool(&self, pool: PoolId) -> Option<&PgPool> {
        self.pools.get(&pool)
    }

    /// The number of the pool with this name.
    pub fn pool_by_name(&self, name: &[u8]) -> Option<PoolId> {
        self.pool_names.iter().find(|(_, n)| n.as_bytes() == name).map(|(pool, _)| *pool)
    }

    /// The name of a pool.
    pub fn pool_name(&self, pool: PoolId) -> Option<&Name> {
        self.pool_names.get(&pool)
    }

    /// Sets the number of OSD entries. New entries are OSDs that do not exist yet.
    pub fn set_max_osd(&mut self, max_osd: usize) {
        self.osd_state.resize(max_osd, OsdState::default());
        self.osd_weight.resize(max_osd, 0);
        self.osds.resize_with(max_osd, Osd::default);
        if let Some(affinities) = &mut self.primary_affinity {
            affinities.resize(max_osd, Self::WEIGHT_IN);
        }
    }

    /// The state of an OSD, for changes; `None` for a number beyond the map.
    pub fn state_mut(&mut self, osd: OsdId) -> Option<&mut OsdState> {
        self.osd_state.get_mut(index(osd)?)
    }

    /// The data of an OSD, for changes; `None` for a number beyond the map.
    pub fn osd_mut(&mut self, osd: OsdId) -> Option<&mut Osd> {
        self.osds.get_mut(index(osd)?)
    }

    /// Sets the fraction of its share that an OSD accepts, in 1/65536. A nonzero weight also marks the
    /// OSD as existing. Does nothing for a number beyond the map.
    pub fn set_weight(&mut self, osd: OsdId, weight: u32) {
        let Some(index) = index(osd).filter(|i| *i < self.max_osd()) else { return };
        self.osd_weight[index] = weight;
        if weight != 0 {
            self.osd_state[index] = self.osd_state[index].union(OsdState::EXISTS);
        }
    }

    /// Sets the fraction of its share of primaries that an OSD accepts, in 1/65536. Does nothing for a
    /// number beyond the map.
    pub fn set_primary_affinity(&mut self, osd: OsdId, affinity: u32) {
        let max_osd = self.max_osd();
        let Some(index) = index(osd).filter(|i| *i < max_osd) else { return };
        let affinities = self.primary_affinity.get_or_insert_with(|| vec![Self::WEIGHT_IN; max_osd]);
        affinities[index] = affinity;
    }
}

/// The index of an OSD in the map's tables; `None` for a negative number.
#[inline]
fn index(osd: OsdId) -> Option<usize> {
    usize::try_from(osd.0).ok()
}
