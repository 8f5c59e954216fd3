//! Creation of maps: the first map of a cluster, and each following epoch.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{EntityAddrVec, Epoch, OsdId, PoolId, UTime, Uuid};

use super::{ApplyError, EncodedOsdMap, Incremental, MapFlags, OsdMap, OsdState};
use crate::crush::{CrushBuildError, CrushMap};
use crate::{Name, PgPool};

/// Release 16, whose encoding is used for maps.
const PACIFIC: u8 = 16;
/// Release 12, the oldest client release that new clusters accept.
const LUMINOUS: u8 = 12;

/// Parameters of the first map of a cluster; see [`OsdMap::build`].
#[derive(Clone, Debug)]
pub struct OsdMapBuilder {
    fsid: Uuid,
    created: UTime,
    osds: u32,
    host: String,
    failure_domain: String,
}

impl OsdMapBuilder {
    /// Sets the time at which the cluster was created; not set by default.
    pub fn created(self, created: UTime) -> Self {
        Self { created, ..self }
    }

    /// Sets the number of OSDs; 1 by default.
    pub fn osds(self, osds: u32) -> Self {
        Self { osds, ..self }
    }

    /// Sets the name of the host that contains the OSDs; `localhost` by default.
    pub fn host(self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self }
    }

    /// Sets the CRUSH type over which replicas are spread: `osd` (the default) or `host`.
    pub fn failure_domain(self, kind: &str) -> Self {
        Self { failure_domain: kind.to_owned(), ..self }
    }

    /// Creates the map of epoch 1. The OSDs exist and are in, but none is up. The map has one CRUSH
    /// rule, `replicated_rule`, no pools, and the settings of a new stock cluster.
    pub fn finish(self) -> Result<OsdMap, CrushBuildError> {
        let crush = CrushMap::simple(&self.host, self.osds, &self.failure_domain)?;
        let mut map = OsdMap {
            fsid: self.fsid,
            epoch: Epoch(1),
            created: self.created,
            modified: self.created,
            flags: MapFlags::SORTBITWISE
                .union(MapFlags::RECOVERY_DELETES)
                .union(MapFlags::PURGED_SNAPDIRS)
                .union(MapFlags::PGLOG_HARDLIMIT),
            crush: Arc::new(crush),
            nearfull_ratio: 0.85,
            full_ratio: 0.95,
            backfillfull_ratio: 0.9,
            require_min_compat_client: LUMINOUS,
            require_osd_release: PACIFIC,
            ..OsdMap::default()
        };
        let profile = [("k", "2"), ("m", "2"), ("plugin", "jerasure"), ("technique", "reed_sol_van")];
        let profile = profile.map(|(key, value)| (Name::from(key), Name::from(value)));
        map.erasure_code_profiles.insert("default".into(), profile.into());
        map.set_max_osd(self.osds as usize);
        for osd in 0..self.osds.cast_signed() {
            map.set_weight(OsdId(osd), OsdMap::WEIGHT_IN);
        }
        Ok(map)
    }
}

/// The next epoch, as a map and in its encoded forms.
#[derive(Clone, Debug)]
pub struct NextEpoch {
    /// The new map.
    pub map: OsdMap,
    /// The encoded map.
    pub full: EncodedOsdMap,
    /// The encoded incremental that leads to the map.
    pub incremental: Bytes,
}

impl OsdMap {
    /// Starts the construction of the first map of cluster `fsid`.
    pub fn build(fsid: Uuid) -> OsdMapBuilder {
        OsdMapBuilder {
            fsid,
            created: UTime::default(),
            osds: 1,
            host: "localhost".to_owned(),
            failure_domain: "osd".to_owned(),
        }
    }

    /// Creates an empty incremental for this map, with the time `modified`. The caller fills it and
    /// passes it to [`OsdMap::advance`].
    pub fn next_incremental(&self, modified: UTime) -> Incremental {
        let next = Epoch(self.epoch.0.wrapping_add(1));
        Incremental { modified, ..Incremental::new(self.fsid, next) }
    }

    /// Creates the next epoch by applying `inc` to this map, and sets the checksum of the result in
    /// `inc`.
    pub fn advance(&self, mut inc: Incremental) -> Result<NextEpoch, ApplyError> {
        let mut map = self.clone();
        map.apply_incremental(&inc)?;
        let full = map.encode(inc.encode_features);
        inc.full_crc = full.crc;
        Ok(NextEpoch { map, full, incremental: inc.encode() })
    }
}

impl Incremental {
    /// Adds a pool. Its number follows the highest number ever used in `map` or in this incremental.
    /// Returns the number.
    pub fn create_pool(&mut self, map: &OsdMap, name: impl Into<Name>, pool: PgPool) -> PoolId {
        let id = PoolId(self.new_pool_max.unwrap_or(map.pool_max).0 + 1);
        self.new_pool_max = Some(id);
        self.new_pools.insert(id, PgPool { create_time: self.modified, ..pool });
        self.new_pool_names.insert(id, name.into());
        id
    }

    /// Removes a pool, with all placement exceptions of its groups.
    pub fn remove_pool(&mut self, map: &OsdMap, pool: PoolId) {
        self.old_pools.insert(pool);
        self.new_pools.remove(&pool);
        self.new_pool_names.remove(&pool);
        let of_pool = |pg: &&loligo_wire::PgId| pg.pool == pool;
        self.new_pg_temp.extend(map.pg_temp.keys().filter(of_pool).map(|pg| (*pg, Vec::new())));
        self.new_primary_temp.extend(map.primary_temp.keys().filter(of_pool).map(|pg| (*pg, OsdId(-1))));
        self.old_pg_upmap.extend(map.pg_upmap.keys().filter(of_pool));
        self.old_pg_upmap_items.extend(map.pg_upmap_items.keys().filter(of_pool));
        self.old_pg_upmap_primary.extend(map.pg_upmap_primaries.keys().filter(of_pool));
    }

    /// Marks an OSD up. Clients reach it at `client`, other OSDs at `cluster`; heartbeats use both.
    pub fn osd_up(&mut self, osd: OsdId, client: EntityAddrVec, cluster: EntityAddrVec) {
        self.new_hb_front_up.insert(osd, client.clone());
        self.new_hb_back_up.insert(osd, cluster.clone());
        self.new_up_client.insert(osd, client);
        self.new_up_cluster.insert(osd, cluster);
        self.new_last_up_change = self.modified;
    }

    /// Marks an OSD down. The OSD must be up.
    pub fn osd_down(&mut self, osd: OsdId) {
        self.new_state.insert(osd, OsdState::UP);
        self.new_last_up_change = self.modified;
    }

    /// Sets the fraction of its share that an OSD accepts, in 1/65536; 0 marks it out.
    pub fn osd_weight(&mut self, osd: OsdId, weight: u32) {
        self.new_weight.insert(osd, weight);
        self.new_last_in_change = self.modified;
    }

    /// Replaces the CRUSH map.
    pub fn set_crush(&mut self, crush: &CrushMap) {
        let mut w = loligo_wire::Writer::new();
        crush.encode(self.encode_features, &mut w);
        self.crush = w.into_bytes();
    }
}
