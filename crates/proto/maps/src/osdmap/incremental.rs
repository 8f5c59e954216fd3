//! Incremental maps: the changes from one epoch to the next (`OSDMap::Incremental`).
//!
//! | part | version | written by | adds |
//! |---|---|---|---|
//! | clients | 8 | 16, 17 | |
//! | | 9 | 18 to 20 | explicit primaries |
//! | OSDs | 9 | 16 to 20 | |
//! | | 10 | with a change of stretch mode | stretch mode |
//! | | 11 | with a change of blocked networks | changes of blocked networks |
//! | | 12 | with a change of whether Crimson OSDs are allowed | that change |

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use loligo_wire::{
    DecodeError, EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId, Reader, SnapSet, UTime, Uuid, Writer,
    features,
};

use super::addr_times::AddrTimes;
use super::codec::{decode_ratio, encode_pools};
use super::{MapFlags, OsdState, OsdXInfo, StretchMode, sealed};
use crate::{Features, Name, PgPool};

/// The changes from one epoch to the next.
///
/// Empty containers and `None` change nothing. Maps keyed by pool, OSD or PG hold new values; the
/// `old_*` sets hold removed entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Incremental {
    /// The cluster's id.
    pub fsid: Uuid,
    /// The epoch that results from applying the incremental to the previous epoch.
    pub epoch: Epoch,
    /// The time at which the incremental was created.
    pub modified: UTime,
    /// The highest pool number ever used.
    pub new_pool_max: Option<PoolId>,
    /// Cluster-wide flags.
    pub new_flags: Option<MapFlags>,
    /// A full map that replaces all following fields; empty if there is none.
    pub full_map: Bytes,
    /// An encoded CRUSH map; empty if there is none.
    pub crush: Bytes,
    /// The number of OSDs for which the map has entries.
    pub new_max_osd: Option<u32>,
    /// New and changed pools.
    pub new_pools: BTreeMap<PoolId, PgPool>,
    /// Names of pools.
    pub new_pool_names: BTreeMap<PoolId, Name>,
    /// Removed pools.
    pub old_pools: BTreeSet<PoolId>,
    /// OSDs that come up, with their addresses for clients.
    pub new_up_client: BTreeMap<OsdId, EntityAddrVec>,
    /// State bits to toggle, by OSD; 0 toggles the bit "up", as old encodings require.
    pub new_state: BTreeMap<OsdId, OsdState>,
    /// Weights of OSDs, in 1/65536.
    pub new_weight: BTreeMap<OsdId, u32>,
    /// Temporary placements; an empty list removes one.
    pub new_pg_temp: BTreeMap<PgId, Vec<OsdId>>,
    /// Temporary primaries; −1 removes one.
    pub new_primary_temp: BTreeMap<PgId, OsdId>,
    /// Primary affinities of OSDs, in 1/65536.
    pub new_primary_affinity: BTreeMap<OsdId, u32>,
    /// Erasure code profiles.
    pub new_erasure_code_profiles: BTreeMap<Name, BTreeMap<Name, Name>>,
    /// Removed erasure code profiles, in their encoded order.
    pub old_erasure_code_profiles: Vec<Name>,
    /// Explicit placements.
    pub new_pg_upmap: BTreeMap<PgId, Vec<OsdId>>,
    /// Removed explicit placements.
    pub old_pg_upmap: BTreeSet<PgId>,
    /// Replacements of single OSDs.
    pub new_pg_upmap_items: BTreeMap<PgId, Vec<(OsdId, OsdId)>>,
    /// Removed replacements.
    pub old_pg_upmap_items: BTreeSet<PgId>,
    /// Explicit primaries (release 18 and up).
    pub new_pg_upmap_primary: BTreeMap<PgId, OsdId>,
    /// Removed explicit primaries.
    pub old_pg_upmap_primary: BTreeSet<PgId>,
    /// Snapshots to remove.
    pub new_removed_snaps: BTreeMap<PoolId, SnapSet>,
    /// Snapshots whose removal is finished.
    pub new_purged_snaps: BTreeMap<PoolId, SnapSet>,
    /// The time at which an OSD went up or down; zero if none did in this epoch.
    pub new_last_up_change: UTime,
    /// The time at which an OSD went in or out; zero if none did in this epoch.
    pub new_last_in_change: UTime,
    /// Heartbeat addresses on the cluster network, of OSDs that come up.
    pub new_hb_back_up: BTreeMap<OsdId, EntityAddrVec>,
    /// The latest epochs through which OSDs are known to have been up.
    pub new_up_thru: BTreeMap<OsdId, Epoch>,
    /// The last clean intervals of OSDs.
    pub new_last_clean_interval: BTreeMap<OsdId, (Epoch, Epoch)>,
    /// OSDs declared lost, with the epoch.
    pub new_lost: BTreeMap<OsdId, Epoch>,
    /// Addresses to add to the blocklist.
    pub new_blocklist: AddrTimes,
    /// Addresses to remove from the blocklist, in their encoded order.
    pub old_blocklist: Vec<EntityAddr>,
    /// Addresses for other OSDs, of OSDs that come up.
    pub new_up_cluster: BTreeMap<OsdId, EntityAddrVec>,
    /// The name of a snapshot of the whole cluster; always empty.
    pub cluster_snapshot: Name,
    /// UUIDs of OSDs.
    pub new_uuid: BTreeMap<OsdId, Uuid>,
    /// Extended histories of OSDs.
    pub new_xinfo: BTreeMap<OsdId, OsdXInfo>,
    /// Heartbeat addresses on the client network, of OSDs that come up.
    pub new_hb_front_up: BTreeMap<OsdId, EntityAddrVec>,
    /// The feature bits with which the resulting map must be encoded to match the checksum `full_crc`.
    pub encode_features: Features,
    /// The fraction of used space from which the cluster warns.
    pub new_nearfull_ratio: Option<f32>,
    /// The fraction of used space from which writes stop.
    pub new_full_ratio: Option<f32>,
    /// The fraction of used space from which backfill stops.
    pub new_backfillfull_ratio: Option<f32>,
    /// The oldest release that clients may run.
    pub new_require_min_compat_client: Option<u8>,
    /// The oldest release that OSDs may run.
    pub new_require_osd_release: Option<u8>,
    /// State flags for CRUSH buckets; 0 removes them.
    pub new_crush_node_flags: BTreeMap<i32, u32>,
    /// State flags for device classes; 0 removes them.
    pub new_device_class_flags: BTreeMap<i32, u32>,
    /// The state of stretch mode.
    pub new_stretch: Option<StretchMode>,
    /// Networks to add to the blocklist.
    pub new_range_blocklist: AddrTimes,
    /// Networks to remove from the blocklist, in their encoded order.
    pub old_range_blocklist: Vec<EntityAddr>,
    /// A change of whether Crimson OSDs may join.
    pub allow_crimson: CrimsonChange,
    /// The checksum of the resulting map; 0 if the writer did not know it.
    pub full_crc: u32,
}

/// A change of whether Crimson OSDs may join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrimsonChange {
    /// No change.
    #[default]
    None,
    /// Crimson OSDs may join.
    Allow,
    /// Crimson OSDs may not join.
    Forbid,
}

impl Incremental {
    /// Creates an incremental that leads to `epoch` and changes nothing else.
    pub fn new(fsid: Uuid, epoch: Epoch) -> Self {
        Self {
            fsid,
            epoch,
            modified: UTime::default(),
            new_pool_max: None,
            new_flags: None,
            full_map: Bytes::new(),
            crush: Bytes::new(),
            new_max_osd: None,
            new_pools: BTreeMap::new(),
            new_pool_names: BTreeMap::new(),
            old_pools: BTreeSet::new(),
            new_up_client: BTreeMap::new(),
            new_state: BTreeMap::new(),
            new_weight: BTreeMap::new(),
            new_pg_temp: BTreeMap::new(),
            new_primary_temp: BTreeMap::new(),
            new_primary_affinity: BTreeMap::new(),
            new_erasure_code_profiles: BTreeMap::new(),
            old_erasure_code_profiles: Vec::new(),
            new_pg_upmap: BTreeMap::new(),
            old_pg_upmap: BTreeSet::new(),
            new_pg_upmap_items: BTreeMap::new(),
            old_pg_upmap_items: BTreeSet::new(),
            new_pg_upmap_primary: BTreeMap::new(),
            old_pg_upmap_primary: BTreeSet::new(),
            new_removed_snaps: BTreeMap::new(),
            new_purged_snaps: BTreeMap::new(),
            new_last_up_change: UTime::default(),
            new_last_in_change: UTime::default(),
            new_hb_back_up: BTreeMap::new(),
            new_up_thru: BTreeMap::new(),
            new_last_clean_interval: BTreeMap::new(),
            new_lost: BTreeMap::new(),
            new_blocklist: AddrTimes::default(),
            old_blocklist: Vec::new(),
            new_up_cluster: BTreeMap::new(),
            cluster_snapshot: Name::default(),
            new_uuid: BTreeMap::new(),
            new_xinfo: BTreeMap::new(),
            new_hb_front_up: BTreeMap::new(),
            encode_features: Features::PACIFIC,
            new_nearfull_ratio: None,
            new_full_ratio: None,
            new_backfillfull_ratio: None,
            new_require_min_compat_client: None,
            new_require_osd_release: None,
            new_crush_node_flags: BTreeMap::new(),
            new_device_class_flags: BTreeMap::new(),
            new_stretch: None,
            new_range_blocklist: AddrTimes::default(),
            old_range_blocklist: Vec::new(),
            allow_crimson: CrimsonChange::None,
            full_crc: 0,
        }
    }

    /// Encodes the incremental in the form that a monitor with `self.encode_features` writes, with
    /// checksums. The caller sets `full_crc` first.
    pub fn encode(&self) -> Bytes {
        let front = |w: &mut Writer| {
            self.encode_for_clients(w);
            self.encode_for_osds(w);
        };
        sealed::seal(front, |w| w.u32(self.full_crc)).0
    }

    /// Decodes an incremental and verifies its checksum.
    ///
    /// # Errors
    /// Malformed bytes, or an incremental in a form older than release 16.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut inc, _, mut tail) = sealed::open("OSDMap::Incremental", bytes, |r| {
            let mut inc = r.versioned("OSDMap::Incremental client data", 8, 9, Self::decode_for_clients)?;
            r.versioned("OSDMap::Incremental osd data", 9, 12, |r, version| inc.decode_for_osds(r, version))?;
            Ok(inc)
        })?;
        inc.full_crc = tail.u32()?;
        Ok(inc)
    }

    fn encode_for_clients(&self, w: &mut Writer) {
        let has_primaries = self.encode_features.has(features::SERVER_REEF);
        w.versioned(if has_primaries { 9 } else { 8 }, 1, |w| {
            w.put(&self.fsid);
            w.put(&self.epoch);
            w.put(&self.modified);
            w.i64(self.new_pool_max.map_or(-1, |pool| pool.0));
            w.i32(self.new_flags.map_or(-1, |flags| flags.bits().cast_signed()));
            w.put(&self.full_map);
            w.put(&self.crush);
            w.i32(self.new_max_osd.map_or(-1, |max| max.cast_signed()));
            encode_pools(&self.new_pools, self.encode_features, w);
            w.put(&self.new_pool_names);
            w.put(&self.old_pools);
            w.put(&self.new_up_client);
            w.put(&self.new_state);
            w.put(&self.new_weight);
            w.put(&self.new_pg_temp);
            w.put(&self.new_primary_temp);
            w.put(&self.new_primary_affinity);
            w.put(&self.new_erasure_code_profiles);
            w.put(&self.old_erasure_code_profiles);
            w.put(&self.new_pg_upmap);
            w.put(&self.old_pg_upmap);
            w.put(&self.new_pg_upmap_items);
            w.put(&self.old_pg_upmap_items);
            w.put(&self.new_removed_snaps);
            w.put(&self.new_purged_snaps);
            w.put(&self.new_last_up_change);
            w.put(&self.new_last_in_change);
            if has_primaries {
                w.put(&self.new_pg_upmap_primary);
                w.put(&self.old_pg_upmap_primary);
            }
        });
    }

    fn encode_for_osds(&self, w: &mut Writer) {
        let changes_ranges = !self.new_range_blocklist.is_empty() || !self.old_range_blocklist.is_empty();
        let version = match self {
            _ if self.allow_crimson != CrimsonChange::None => 12,
            _ if changes_ranges => 11,
            _ if self.new_stretch.is_some() => 10,
            _ => 9,
        };
        w.versioned(version, 1, |w| {
            w.put(&self.new_hb_back_up);
            w.put(&self.new_up_thru);
            w.put(&self.new_last_clean_interval);
            w.put(&self.new_lost);
            w.put(&self.new_blocklist);
            w.put(&self.old_blocklist);
            w.put(&self.new_up_cluster);
            w.put(&self.cluster_snapshot);
            w.put(&self.new_uuid);
            w.put(&self.new_xinfo);
            w.put(&self.new_hb_front_up);
            w.u64(self.encode_features.0);
            for ratio in [self.new_nearfull_ratio, self.new_full_ratio, self.new_backfillfull_ratio] {
                w.u32(ratio.unwrap_or(-1.0).to_bits());
            }
            w.u8(self.new_require_min_compat_client.unwrap_or(UNSAID_RELEASE));
            w.u8(self.new_require_osd_release.unwrap_or(UNSAID_RELEASE));
            w.put(&self.new_crush_node_flags);
            w.put(&self.new_device_class_flags);
            self.encode_osd_additions(version, w);
        });
    }

    fn encode_osd_additions(&self, version: u8, w: &mut Writer) {
        if version >= 10 {
            let stretch = self.new_stretch.unwrap_or_default();
            w.bool(self.new_stretch.is_some());
            w.u32(stretch.bucket_count);
            w.u32(stretch.degraded);
            w.u32(stretch.recovering);
            w.i32(stretch.bucket);
            w.bool(stretch.enabled);
        }
        if version >= 11 {
            w.put(&self.new_range_blocklist);
            w.put(&self.old_range_blocklist);
        }
        if version >= 12 {
            w.u8(match self.allow_crimson {
                CrimsonChange::None => 0,
                CrimsonChange::Allow => 1,
                CrimsonChange::Forbid => 2,
            });
        }
    }

    fn decode_for_clients(r: &mut Reader<'_>, version: u8) -> Result<Self, DecodeError> {
        let mut inc = Self::new(r.get()?, r.get()?);
        inc.modified = r.get()?;
        inc.new_pool_max = Some(r.i64()?).filter(|pool| *pool != -1).map(PoolId);
        inc.new_flags = u32::try_from(r.i32()?).ok().map(MapFlags::from_bits_retain);
        inc.full_map = r.get()?;
        inc.crush = r.get()?;
        inc.new_max_osd = u32::try_from(r.i32()?).ok();
        inc.new_pools = r.get()?;
        inc.new_pool_names = r.get()?;
        inc.old_pools = r.get()?;
        inc.new_up_client = r.get()?;
        inc.new_state = r.get()?;
        inc.new_weight = r.get()?;
        inc.new_pg_temp = r.get()?;
        inc.new_primary_temp = r.get()?;
        inc.new_primary_affinity = r.get()?;
        inc.new_erasure_code_profiles = r.get()?;
        inc.old_erasure_code_profiles = r.get()?;
        inc.new_pg_upmap = r.get()?;
        inc.old_pg_upmap = r.get()?;
        inc.new_pg_upmap_items = r.get()?;
        inc.old_pg_upmap_items = r.get()?;
        inc.new_removed_snaps = r.get()?;
        inc.new_purged_snaps = r.get()?;
        inc.new_last_up_change = r.get()?;
        inc.new_last_in_change = r.get()?;
        if version >= 9 {
            inc.new_pg_upmap_primary = r.get()?;
            inc.old_pg_upmap_primary = r.get()?;
        }
        Ok(inc)
    }

    fn decode_for_osds(&mut self, r: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        self.new_hb_back_up = r.get()?;
        self.new_up_thru = r.get()?;
        self.new_last_clean_interval = r.get()?;
        self.new_lost = r.get()?;
        self.new_blocklist = r.get()?;
        self.old_blocklist = r.get()?;
        self.new_up_cluster = r.get()?;
        self.cluster_snapshot = r.get()?;
        self.new_uuid = r.get()?;
        self.new_xinfo = r.get()?;
        self.new_hb_front_up = r.get()?;
        self.encode_features = Features(r.u64()?);
        let ratio =
            |r: &mut Reader<'_>| decode_ratio(r).map(|ratio| Some(ratio).filter(|ratio| *ratio >= 0.0));
        self.new_nearfull_ratio = ratio(r)?;
        self.new_full_ratio = ratio(r)?;
        self.new_backfillfull_ratio = ratio(r)?;
        self.new_require_min_compat_client = decode_release(r)?;
        self.new_require_osd_release = decode_release(r)?;
        self.new_crush_node_flags = r.get()?;
        self.new_device_class_flags = r.get()?;
        self.decode_osd_additions(r, version)
    }

    fn decode_osd_additions(&mut self, r: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
        if version >= 10 {
            let changes = r.bool()?;
            let mut stretch = StretchMode {
                enabled: false,
                bucket_count: r.u32()?,
                degraded: r.u32()?,
                recovering: r.u32()?,
                bucket: r.i32()?,
            };
            stretch.enabled = r.bool()?;
            self.new_stretch = changes.then_some(stretch);
        }
        if version >= 11 {
            self.new_range_blocklist = r.get()?;
            self.old_range_blocklist = r.get()?;
        }
        if version >= 12 {
            self.allow_crimson = match r.u8()? {
                1 => CrimsonChange::Allow,
                2 => CrimsonChange::Forbid,
                _ => CrimsonChange::None,
            };
        }
        Ok(())
    }
}

/// The value for "no change" in a release field. Ceph treats the field as signed, so it accepts every
/// value of 0x80 or more as "no change".
const UNSAID_RELEASE: u8 = 0xff;

fn decode_release(r: &mut Reader<'_>) -> Result<Option<u8>, DecodeError> {
    r.u8().map(|release| Some(release).filter(|release| *release < 0x80))
}
