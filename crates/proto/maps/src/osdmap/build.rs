//! Making maps: the first of a cluster, and each next one.

use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::{EntityAddrVec, Epoch, OsdId, PoolId, UTime, Uuid};

use super::{ApplyError, EncodedOsdMap, Incremental, MapFlags, OsdMap, OsdState};
use crate::crush::{CrushBuildError, CrushMap};
use crate::{Name, PgPool};

/// Release 16, whose form maps are written in.
const PACIFIC: u8 = 16;
/// Release 12, the oldest client that new clusters let in.
const LUMINOUS: u8 = 12;

/// What the first map of a cluster says; see [`OsdMap::build`].
#[derive(Clone, Debug)]
pub struct OsdMapBuilder {
    fsid: Uuid,
    created: UTime,
    osds: u32,
    host: String,
    failure_domain: String,
}

impl OsdMapBuilder {
    /// When the cluster was made; by default never.
    pub fn created(self, created: UTime) -> Self {
        Self { created, ..self }
    }

    /// How many OSDs there are; by default 1.
    pub fn osds(self, osds: u32) -> Self {
        Self { osds, ..self }
    }

    /// The host that they are on; by default `localhost`.
    pub fn host(self, host: &str) -> Self {
        Self { host: host.to_owned(), ..self }
    }

    /// The CRUSH type over which copies are spread: `osd` (the default) or `host`.
    pub fn failure_domain(self, kind: &str) -> Self {
        Self { failure_domain: kind.to_owned(), ..self }
    }

    /// The map of epoch 1: the OSDs exist and are in, but none is up; one CRUSH rule, `replicated_rule`; no
    /// pools; the settings of a new stock cluster.
    pub fn finish(self) -> Result<OsdMap, CrushBuildError> {
        let crush = CrushMap::simple(&self.host, self.osds, &self.failure_domain)?;
        let mut map = OsdMap {
            fsid: self.fsid,
            epoch: Epoch(1),
            created: self.created,
            modified: self.created,
            flags: MapFlags::SORTBITWISE
                .with(MapFlags::RECOVERY_DELETES)
                .with(MapFlags::PURGED_SNAPDIRS)
                .with(MapFlags::PGLOG_HARDLIMIT),
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

/// The next epoch, in all the forms in which it is needed.
#[derive(Clone, Debug)]
pub struct NextEpoch {
    /// The map.
    pub map: OsdMap,
    /// The map as bytes.
    pub full: EncodedOsdMap,
    /// The change that leads to it, as bytes.
    pub incremental: Bytes,
}

impl OsdMap {
    /// Starts to make the first map of cluster `fsid`.
    pub fn build(fsid: Uuid) -> OsdMapBuilder {
        OsdMapBuilder {
            fsid,
            created: UTime::default(),
            osds: 1,
            host: "localhost".to_owned(),
            failure_domain: "osd".to_owned(),
        }
    }

    /// An empty change to this map, made at `modified`: fill it, then [`OsdMap::advance`].
    pub fn next_incremental(&self, modified: UTime) -> Incremental {
        let next = Epoch(self.epoch.0.wrapping_add(1));
        Incremental { modified, ..Incremental::new(self.fsid, next) }
    }

    /// The next epoch: this map with `inc` applied. Completes `inc` with the checksum of the result.
    pub fn advance(&self, mut inc: Incremental) -> Result<NextEpoch, ApplyError> {
        let mut map = self.clone();
        map.apply_incremental(&inc)?;
        let full = map.encode(inc.encode_features);
        inc.full_crc = full.crc;
        Ok(NextEpoch { map, full, incremental: inc.encode() })
    }
}

impl Incremental {
    /// Makes a pool, with the number after the highest ever given out in `map` or here. Returns the number.
    pub fn create_pool(&mut self, map: &OsdMap, name: impl Into<Name>, pool: PgPool) -> PoolId {
        let id = PoolId(self.new_pool_max.unwrap_or(map.pool_max).0 + 1);
        self.new_pool_max = Some(id);
        self.new_pools.insert(id, PgPool { create_time: self.modified, ..pool });
        self.new_pool_names.insert(id, name.into());
        id
    }

    /// Removes a pool, with all the exceptions to the placement of its groups.
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

    /// Brings an OSD up: clients reach it at `client`, other OSDs at `cluster`, heartbeats go to both.
    pub fn osd_up(&mut self, osd: OsdId, client: EntityAddrVec, cluster: EntityAddrVec) {
        self.new_hb_front_up.insert(osd, client.clone());
        self.new_hb_back_up.insert(osd, cluster.clone());
        self.new_up_client.insert(osd, client);
        self.new_up_cluster.insert(osd, cluster);
        self.new_last_up_change = self.modified;
    }

    /// Takes an OSD down that is up.
    pub fn osd_down(&mut self, osd: OsdId) {
        self.new_state.insert(osd, OsdState::UP);
        self.new_last_up_change = self.modified;
    }

    /// Changes how much of its share an OSD takes, in 1/65536; 0 takes it out.
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
