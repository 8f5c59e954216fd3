//! Random OSD maps.

use std::net::SocketAddr;
use std::sync::Arc;

use loligo_maps::{
    HOLE, MapFlags, Name, ObjectHash, OsdMap, OsdState, PeeringCrush, PgPool, PoolFlags, PoolKind, PoolOpt,
    PoolOptKey, PoolSnap, ShardSet,
};
use loligo_wire::{
    AddrKind, EntityAddr, EntityAddrVec, Epoch, Eversion, OsdId, PgId, PoolId, SnapId, UTime, Uuid,
};

use super::{Shape, crush_map};
use crate::rng::Rng;

/// Creates a random OSD map over a random CRUSH map. `release` limits the features in use.
pub(crate) fn osd_map(rng: &mut Rng, release: u32) -> OsdMap {
    let crush = crush_map(rng, Shape::Wild);
    let max_osd = (crush.max_devices + rng.range(-3, 3)).max(1);
    let mut map = OsdMap::default();
    map.fsid = Uuid([7; 16]);
    map.epoch = Epoch(9);
    map.crush = Arc::new(crush);
    map.require_osd_release = release as u8;
    map.set_max_osd(max_osd as usize);
    for osd in (0..max_osd).map(OsdId) {
        let weight = if rng.chance(70) { OsdMap::WEIGHT_IN } else { rng.below(0x1_0001) as u32 & 0x1_f000 };
        map.set_weight(osd, weight);
        let state = map.state_mut(osd).expect("it is in the map");
        *state = OsdState::from_bits_retain(*rng.pick(&[3, 3, 3, 3, 3, 3, 3, 1, 0]));
    }
    if rng.chance(50) {
        for osd in (0..max_osd).map(OsdId) {
            map.set_primary_affinity(osd, *rng.pick(&[0x1_0000, 0x1_0000, 0x8000, 0x100, 0]));
        }
    }
    for id in 1..=rng.range(1, 4) {
        let pool = pool(rng, &map, release);
        let (id, size) = (PoolId(i64::from(id)), usize::from(pool.size));
        map.pools.insert(id, pool);
        map.pool_names.insert(id, format!("pool{id}").into());
        map.pool_max = id;
        exceptions(rng, &mut map, id, size, release);
    }
    map
}

fn pool(rng: &mut Rng, map: &OsdMap, release: u32) -> PgPool {
    let pg_num = rng.range(1, 40) as u32;
    let mut pool = PgPool::replicated(rng.range(1, 6) as u8, pg_num);
    pool.set_pgp_num(rng.range(1, pg_num as i32) as u32);
    pool.crush_rule = rng.below(map.crush.rules.len()) as u8;
    pool.object_hash = *rng.pick(&[ObjectHash::RJENKINS, ObjectHash::LINUX]);
    pool.flags = *rng.pick(&[PoolFlags::HASHPSPOOL, PoolFlags::default()]);
    if rng.chance(40) {
        pool.kind = PoolKind::ERASURE;
        if release >= 20 && rng.chance(40) {
            pool.nonprimary_shards = ShardSet(rng.below(1 << pool.size) as u128);
            pool.flags = pool.flags.union(PoolFlags::EC_OPTIMIZATIONS);
        }
    }
    pool
}

/// Adds temporary and explicit placements for some of a pool's PGs.
fn exceptions(rng: &mut Rng, map: &mut OsdMap, pool: PoolId, size: usize, release: u32) {
    let max_osd = map.max_osd() as i32;
    let pg_num = map.pools[&pool].pg_num();
    let is_erasure = map.pools[&pool].is_erasure();
    let osds = |rng: &mut Rng| -> Vec<OsdId> {
        let hole = |rng: &mut Rng| is_erasure && rng.chance(10);
        (0..size).map(|_| if hole(rng) { HOLE } else { OsdId(rng.range(0, max_osd)) }).collect()
    };
    for seed in 0..pg_num {
        let pg = PgId { pool, seed };
        if rng.chance(15) {
            map.pg_temp.insert(pg, osds(rng));
        }
        if rng.chance(10) {
            map.primary_temp.insert(pg, OsdId(rng.range(0, max_osd - 1)));
        }
        if rng.chance(15) {
            map.pg_upmap.insert(pg, osds(rng));
        }
        if rng.chance(30) {
            let pairs = osds(rng).into_iter().zip(osds(rng)).collect();
            map.pg_upmap_items.insert(pg, pairs);
        }
        if release >= 18 && rng.chance(20) {
            map.pg_upmap_primaries.insert(pg, OsdId(rng.range(0, max_osd)));
        }
    }
}

/// Fills the fields of a map that do not affect placement.
pub(crate) fn details(rng: &mut Rng, map: &mut OsdMap, release: u32) {
    let time = |rng: &mut Rng| UTime { sec: rng.next() as u32, nsec: rng.below(1_000_000_000) as u32 };
    map.created = time(rng);
    map.last_up_change = time(rng);
    map.last_in_change = time(rng);
    map.crush_version = rng.below(1000) as u32;
    map.nearfull_ratio = rng.below(100) as f32 / 100.0;
    map.full_ratio = rng.below(100) as f32 / 100.0;
    map.backfillfull_ratio = rng.below(100) as f32 / 100.0;
    map.require_min_compat_client = rng.range(0, 16) as u8;
    map.flags = MapFlags::SORTBITWISE.union(MapFlags::RECOVERY_DELETES).union(MapFlags::PGLOG_HARDLIMIT);
    let profile = [("k", "2"), ("m", "1")].map(|(k, v)| (Name::from(k), Name::from(v)));
    map.erasure_code_profiles.insert("p".into(), profile.into());
    for osd in 0..map.max_osd() as i32 {
        let address = |rng: &mut Rng| address(rng).into();
        let Some(osd) = map.osd_mut(OsdId(osd)) else { continue };
        osd.client_addrs = EntityAddrVec(vec![self::address(rng), self::address(rng)]);
        osd.cluster_addrs = address(rng);
        osd.hb_back_addrs = address(rng);
        osd.hb_front_addrs = address(rng);
        osd.uuid = Uuid(std::array::from_fn(|_| rng.next() as u8));
        osd.info.up_from = Epoch(rng.below(100) as u32);
        osd.info.up_thru = Epoch(rng.below(100) as u32);
        osd.info.down_at = Epoch(rng.below(100) as u32);
        osd.info.last_clean_begin = Epoch(rng.below(100) as u32);
        osd.info.last_clean_end = Epoch(rng.below(100) as u32);
        osd.info.lost_at = Epoch(rng.below(100) as u32);
        osd.xinfo.features = rng.next();
        osd.xinfo.old_weight = rng.below(0x1_0000) as u32;
        osd.xinfo.laggy_interval_s = rng.below(100) as u32;
        osd.xinfo.down_stamp = time(rng);
        osd.xinfo.dead_epoch = Epoch(rng.below(100) as u32);
    }
    for _ in 0..rng.below(8) {
        let addr = EntityAddr { kind: AddrKind::Any, ..address(rng) };
        map.blocklist.addrs.insert(addr, time(rng));
        if rng.chance(30) && release >= 17 {
            map.blocklist.ranges.insert(EntityAddr { kind: AddrKind::Cidr, nonce: 16, ..addr }, time(rng));
        }
    }
    map.crush_node_flags.insert(-1, 1 << 8);
    let ids: Vec<PoolId> = map.pools.keys().copied().collect();
    for id in ids {
        let snaps = (0..rng.below(5)).map(|_| SnapId(rng.below(40) as u64 + 1)).collect();
        map.removed_snaps_queue.insert(id, snaps);
        pool_details(rng, map.pools.get_mut(&id).expect("it is there"), release);
    }
}

fn pool_details(rng: &mut Rng, pool: &mut PgPool, release: u32) {
    pool.last_change = Epoch(rng.below(9) as u32);
    pool.snap_seq = SnapId(7);
    pool.snap_epoch = Epoch(3);
    pool.flags = pool.flags.union(PoolFlags::POOL_SNAPS);
    let snap = PoolSnap { id: SnapId(7), stamp: UTime { sec: 1, nsec: 2 }, name: "snap".into() };
    pool.snaps.insert(SnapId(7), snap);
    pool.quota_max_bytes = rng.next();
    pool.quota_max_objects = rng.next();
    pool.tier.hit_set_period_s = rng.below(100) as u32;
    pool.tier.target_max_bytes = rng.next();
    pool.tier.min_flush_age_s = rng.below(100) as u32;
    pool.tier.min_read_recency_for_promote = rng.below(10) as u32;
    pool.stripe_width = 4096 * rng.below(4) as u32;
    pool.expected_num_objects = rng.next();
    pool.last_force_op_resend = Epoch(rng.below(9) as u32);
    pool.last_force_op_resend_prenautilus = Epoch(rng.below(9) as u32);
    pool.last_force_op_resend_preluminous = Epoch(rng.below(9) as u32);
    pool.opts.0.insert(PoolOptKey::PG_NUM_MIN, PoolOpt::Int(rng.below(9) as i64));
    pool.opts.0.insert(PoolOptKey(3), PoolOpt::Double(0.5));
    pool.opts.0.insert(PoolOptKey(4), PoolOpt::Text("deep".into()));
    pool.application_metadata.insert("rbd".into(), [("key".into(), "value".into())].into());
    pool.create_time = UTime { sec: rng.next() as u32, nsec: 5 };
    pool.pg_autoscale_mode = rng.below(3) as u8;
    pool.last_pg_merge_meta.ready_epoch = Epoch(rng.below(9) as u32);
    pool.last_pg_merge_meta.source_version = Eversion { epoch: Epoch(1), version: rng.next() };
    // The encoding differs between releases 16 to 18 and release 20.
    if rng.chance(30) && release != 19 {
        pool.peering_crush = Some(PeeringCrush {
            bucket_count: 1 + rng.below(3) as u32,
            bucket_target: rng.below(4) as u32,
            bucket_barrier: rng.below(4) as u32,
            mandatory_member: rng.range(-9, 9),
        });
    }
}

fn address(rng: &mut Rng) -> EntityAddr {
    let port = rng.next() as u16;
    let sock = match rng.chance(70) {
        true => SocketAddr::from(([10, 0, rng.next() as u8, rng.next() as u8], port)),
        false => SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, rng.next() as u16], port)),
    };
    EntityAddr {
        kind: *rng.pick(&[AddrKind::Msgr2, AddrKind::Legacy]),
        nonce: rng.next() as u32,
        sock: Some(sock),
    }
}
