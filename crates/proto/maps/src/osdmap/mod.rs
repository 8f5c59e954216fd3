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
use bytes::Bytes;
use loligo_wire::{EntityAddrVec, Epoch, OsdId, PgId, PoolId, UTime, Uuid};

pub use addr_times::AddrTimes;
pub use apply::ApplyError;
pub use blocklist::Blocklist;
pub use build::{NextEpoch, OsdMapBuilder};
pub use incremental::{CrimsonChange, Incremental};
pub use osd::{Osd, OsdInfo, OsdState, OsdXInfo};
pub use placement::{HOLE, OsdSet, UpActing};
pub use targets::{Target, Targets};

use crate::crush::CrushMap;
use crate::{Name, PgPool, SnapSet};

/// The state of a cluster's OSDs and pools in one epoch.
///
/// The fields are open because a map is data; what belongs together in number (the OSDs' states and weights)
/// is not, and is changed by methods. A map is meant to be shared: to change it, change a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct OsdMap {
    /// The cluster.
    pub fsid: Uuid,
    /// The map's version.
    pub epoch: Epoch,
    /// When the cluster was made.
    pub created: UTime,
    /// When this epoch was made.
    pub modified: UTime,
    /// Pools.
    pub pools: BTreeMap<PoolId, PgPool>,
    /// Their names.
    pub pool_names: BTreeMap<PoolId, Name>,
    /// The highest pool number ever given out.
    pub pool_max: PoolId,
    /// Flags of the whole cluster.
    pub flags: MapFlags,
    osd_state: Vec<OsdState>,
    osd_weight: Vec<u32>,
    osds: Vec<Osd>,
    /// `None` while every OSD has the default.
    primary_affinity: Option<Vec<u32>>,
    /// Placements that hold instead of CRUSH's until backfilling is done.
    pub pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Primaries that hold instead of the first OSD.
    pub primary_temp: BTreeMap<PgId, OsdId>,
    /// Explicit placements.
    pub pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Exchanges of single OSDs, from and to, applied one after the other.
    pub pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Explicit primaries (release 18 and up).
    pub pg_upmap_primaries: BTreeMap<PgId, OsdId>,
    /// How data is placed.
    pub crush: Arc<CrushMap>,
    /// How often the CRUSH map has changed.
    pub crush_version: u32,
    /// Profiles of erasure codes.
    pub erasure_code_profiles: BTreeMap<Name, BTreeMap<Name, Name>>,
    /// Snapshots removed in this epoch, by pool.
    pub new_removed_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots whose removal was finished in this epoch, by pool.
    pub new_purged_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots being removed, by pool.
    pub removed_snaps_queue: BTreeMap<PoolId, SnapSet>,
    /// When an OSD last went up or down.
    pub last_up_change: UTime,
    /// When an OSD last went in or out.
    pub last_in_change: UTime,
    /// Addresses that may not talk to OSDs.
    pub blocklist: Blocklist,
    /// The epoch of `cluster_snapshot`.
    pub cluster_snapshot_epoch: Epoch,
    /// The name of a snapshot of the whole cluster; empty.
    pub cluster_snapshot: Name,
    /// Fullness from which the cluster warns.
    pub nearfull_ratio: f32,
    /// Fullness from which writes stop.
    pub full_ratio: f32,
    /// Fullness from which backfilling stops.
    pub backfillfull_ratio: f32,
    /// The oldest release that clients must be of; 0: not said.
    pub require_min_compat_client: u8,
    /// The oldest release that OSDs must be of.
    pub require_osd_release: u8,
    /// States that hold for all OSDs below a CRUSH bucket.
    pub crush_node_flags: BTreeMap<i32, u32>,
    /// States that hold for all OSDs of a device class.
    pub device_class_flags: BTreeMap<i32, u32>,
    /// For clusters over two sites.
    pub stretch: StretchMode,
    /// Whether OSDs of the new kind may join.
    pub allow_crimson: bool,
}

/// Flags of the whole cluster (`CEPH_OSDMAP_*` in `src/include/rados.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MapFlags(pub u32);

impl MapFlags {
    /// Some OSD is full; before release 14.
    pub const FULL: Self = Self(1 << 1);
    /// Reads wait.
    pub const PAUSERD: Self = Self(1 << 2);
    /// Writes wait.
    pub const PAUSEWR: Self = Self(1 << 3);
    /// No OSD goes up.
    pub const NOUP: Self = Self(1 << 5);
    /// No OSD goes down.
    pub const NODOWN: Self = Self(1 << 6);
    /// No OSD goes out by itself.
    pub const NOOUT: Self = Self(1 << 7);
    /// No OSD comes in by itself.
    pub const NOIN: Self = Self(1 << 8);
    /// Objects sort by their reversed hash's bits.
    pub const SORTBITWISE: Self = Self(1 << 15);
    /// Nothing is scrubbed unless it is asked for.
    pub const NOSCRUB: Self = Self(1 << 11);
    /// Nothing is scrubbed deeply unless it is asked for.
    pub const NODEEP_SCRUB: Self = Self(1 << 12);
    /// Said releases 10, 11 and 12 once; cleared since 12.
    const LEGACY_REQUIRE: Self = Self(1 << 16 | 1 << 17 | 1 << 18);
    /// Deleting is recovered separately.
    pub const RECOVERY_DELETES: Self = Self(1 << 19);
    /// Snapshot directories have been purged.
    pub const PURGED_SNAPDIRS: Self = Self(1 << 20);
    /// PG logs have a hard limit.
    pub const PGLOG_HARDLIMIT: Self = Self(1 << 22);

    /// Whether all flags of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the flags of `other` set too.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// With the flags of `other` cleared.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// With the flags that follow from the release that OSDs must be of, whatever was encoded.
    fn implied_by_release(self, release: u8) -> Self {
        const LUMINOUS: u8 = 12;
        const NAUTILUS: u8 = 14;
        let mut flags = self;
        if release >= LUMINOUS {
            flags = flags.without(Self::LEGACY_REQUIRE).with(Self::RECOVERY_DELETES);
        }
        if release >= NAUTILUS {
            flags = flags.with(Self::PGLOG_HARDLIMIT);
        }
        flags
    }
}

/// The state of a cluster over two sites and a tiebreaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StretchMode {
    /// Whether it is on.
    pub enabled: bool,
    /// How many sites there are.
    pub bucket_count: u32,
    /// How many of them are missing.
    pub degraded: u32,
    /// Whether one is coming back.
    pub recovering: u32,
    /// The CRUSH type of a site.
    pub bucket: i32,
}

/// A map as bytes, with the checksum that stands in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedOsdMap {
    /// What goes over the wire.
    pub bytes: Bytes,
    /// The checksum of the map, which an incremental that leads to it names as `full_crc`.
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
    /// A weight of "all in" and the default primary affinity, in 1/65536.
    pub const WEIGHT_IN: u32 = 0x1_0000;

    /// A weight or an affinity as maps hold it, in 1/65,536. What is below zero is 0; what is too much is the
    /// most that there is.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast of a float stops at the bounds; of what is no number it makes 0"
    )]
    pub fn fixed_weight(weight: f64) -> u32 {
        (weight * f64::from(Self::WEIGHT_IN)) as u32
    }

    /// One more than the highest OSD number.
    pub fn max_osd(&self) -> usize {
        self.osds.len()
    }

    /// The numbers of the OSDs that exist.
    pub fn osd_ids(&self) -> impl Iterator<Item = OsdId> {
        (0..self.max_osd().saturating_as::<i32>()).map(OsdId).filter(|osd| self.exists(*osd))
    }

    /// What is known of an OSD that exists.
    pub fn osd(&self, osd: OsdId) -> Option<&Osd> {
        self.osds.get(index(osd)?).filter(|_| self.exists(osd))
    }

    /// An OSD's state; nothing for one beyond the map.
    #[inline]
    pub fn state(&self, osd: OsdId) -> OsdState {
        index(osd).and_then(|i| self.osd_state.get(i)).copied().unwrap_or_default()
    }

    /// Whether the OSD exists.
    #[inline]
    pub fn exists(&self, osd: OsdId) -> bool {
        self.state(osd).has(OsdState::EXISTS)
    }

    /// Whether the OSD exists and runs.
    #[inline]
    pub fn is_up(&self, osd: OsdId) -> bool {
        self.state(osd).has(OsdState::EXISTS.with(OsdState::UP))
    }

    /// Whether the OSD exists and takes data.
    pub fn is_in(&self, osd: OsdId) -> bool {
        self.exists(osd) && self.weight(osd) != 0
    }

    /// How much of its share an OSD takes, in 1/65536; 0 means out.
    pub fn weight(&self, osd: OsdId) -> u32 {
        index(osd).and_then(|i| self.osd_weight.get(i)).copied().unwrap_or(0)
    }

    /// How much of its share as a primary an OSD takes, in 1/65536.
    pub fn primary_affinity(&self, osd: OsdId) -> u32 {
        let affinities = self.primary_affinity.as_deref().unwrap_or_default();
        index(osd).and_then(|i| affinities.get(i)).copied().unwrap_or(Self::WEIGHT_IN)
    }

    /// The addresses that clients reach an OSD at, if it is up.
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

    /// Changes how many OSDs there is room for. New ones do not exist yet.
    pub fn set_max_osd(&mut self, max_osd: usize) {
        self.osd_state.resize(max_osd, OsdState::default());
        self.osd_weight.resize(max_osd, 0);
        self.osds.resize_with(max_osd, Osd::default);
        if let Some(affinities) = &mut self.primary_affinity {
            affinities.resize(max_osd, Self::WEIGHT_IN);
        }
    }

    /// An OSD's state, to be changed. `None` beyond the map.
    pub fn state_mut(&mut self, osd: OsdId) -> Option<&mut OsdState> {
        self.osd_state.get_mut(index(osd)?)
    }

    /// What is known of an OSD, to be changed. `None` beyond the map.
    pub fn osd_mut(&mut self, osd: OsdId) -> Option<&mut Osd> {
        self.osds.get_mut(index(osd)?)
    }

    /// Says how much of its share an OSD takes, in 1/65536. One that takes some exists. Nothing happens
    /// beyond the map.
    pub fn set_weight(&mut self, osd: OsdId, weight: u32) {
        let Some(index) = index(osd).filter(|i| *i < self.max_osd()) else { return };
        self.osd_weight[index] = weight;
        if weight != 0 {
            self.osd_state[index] = self.osd_state[index].with(OsdState::EXISTS);
        }
    }

    /// Says how much of its share as a primary an OSD takes, in 1/65536. Nothing happens beyond the map.
    pub fn set_primary_affinity(&mut self, osd: OsdId, affinity: u32) {
        let max_osd = self.max_osd();
        let Some(index) = index(osd).filter(|i| *i < max_osd) else { return };
        let affinities = self.primary_affinity.get_or_insert_with(|| vec![Self::WEIGHT_IN; max_osd]);
        affinities[index] = affinity;
    }
}

/// An OSD's place in the map's tables.
#[inline]
fn index(osd: OsdId) -> Option<usize> {
    usize::try_from(osd.0).ok()
}
