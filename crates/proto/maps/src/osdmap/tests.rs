//! Tests of the first map of a cluster and its changes, as this project's server makes them.

use std::sync::Arc;

use loligo_wire::{EntityAddr, EntityAddrVec, Epoch, OsdId, PgId, PoolId, SnapId, UTime, Uuid};

use super::*;
use crate::{PgPool, PoolKind, SnapSet};

const NOW: UTime = UTime { sec: 1000, nsec: 1 };

fn first_map(osds: u32) -> OsdMap {
    OsdMap::build(Uuid([1; 16])).osds(osds).created(NOW).finish().expect("it can be built")
}

fn addrs(port: u16) -> EntityAddrVec {
    EntityAddr::msgr2(([127, 0, 0, 1], port).into()).into()
}

/// A map with all OSDs up and one pool of 32 PGs.
fn running(osds: u32, size: u8) -> OsdMap {
    let map = first_map(osds);
    let mut inc = map.next_incremental(NOW);
    (0..osds.cast_signed()).for_each(|osd| inc.osd_up(OsdId(osd), addrs(6800), addrs(6801)));
    inc.create_pool(&map, "data", PgPool::replicated(size, 32));
    map.advance(inc).expect("it follows").map
}

const POOL: PoolId = PoolId(1);

#[test]
fn each_epoch_comes_in_three_forms_that_agree() {
    let map = first_map(1);
    let mut inc = map.next_incremental(NOW);
    inc.osd_up(OsdId(0), addrs(6800), addrs(6801));
    assert_eq!(inc.create_pool(&map, "a", PgPool::replicated(1, 128)), PoolId(1));
    assert_eq!(inc.create_pool(&map, "b", PgPool::replicated(1, 128)), PoolId(2));
    let next = map.advance(inc).expect("it follows");

    assert_eq!(OsdMap::decode(&next.full.bytes).as_ref(), Ok(&next.map));
    let inc = Incremental::decode(&next.incremental).expect("what we wrote");
    let mut followed = map.clone();
    followed.apply_incremental(&inc).expect("it follows");
    assert_eq!(followed, next.map);
    assert_eq!(followed.verify(&inc), Ok(next.full));
    assert_eq!(followed.client_addrs(OsdId(0)), Some(&addrs(6800)));
    assert_eq!(followed.pool_by_name(b"b"), Some(PoolId(2)));
    assert_eq!(followed.pool(POOL).map(|pool| pool.last_change), Some(Epoch(2)));
}

#[test]
fn a_different_result_is_noticed() {
    let map = first_map(1);
    let next = map.advance(map.next_incremental(NOW)).expect("it follows");
    let inc = Incremental::decode(&next.incremental).expect("what we wrote");
    let mut other = next.map;
    other.set_weight(OsdId(0), 7);
    assert!(matches!(other.verify(&inc), Err(ApplyError::WrongResult { epoch: Epoch(2), .. })));
}

#[test]
fn a_removed_pool_is_forgotten() {
    let mut map = running(2, 2);
    let pg = PgId { pool: POOL, seed: 3 };
    map.pg_temp.insert(pg, vec![OsdId(1)]);
    map.pg_upmap_items.insert(pg, vec![(OsdId(0), OsdId(1))]);
    let mut inc = map.next_incremental(NOW);
    inc.remove_pool(&map, POOL);
    let map = map.advance(inc).expect("it follows").map;
    assert!(map.pools.is_empty() && map.pool_names.is_empty() && map.pg_temp.is_empty());
    assert!(map.pg_upmap_items.is_empty());
    let mut inc = map.next_incremental(NOW);
    assert_eq!(
        inc.create_pool(&map, "again", PgPool::replicated(1, 8)),
        PoolId(2),
        "numbers are not used again"
    );
}

#[test]
fn osds_go_down_and_out() {
    let map = running(3, 2);
    let mut inc = map.next_incremental(NOW);
    inc.osd_down(OsdId(1));
    inc.osd_weight(OsdId(2), 0);
    let map = map.advance(inc).expect("it follows").map;
    assert!(map.exists(OsdId(1)) && !map.is_up(OsdId(1)) && map.client_addrs(OsdId(1)).is_none());
    assert_eq!(map.osd(OsdId(1)).map(|osd| osd.info.down_at), Some(Epoch(3)));
    for seed in 0..32 {
        let placed = map.pg_to_up_acting(PgId { pool: POOL, seed });
        assert_eq!(placed.acting.as_slice(), [OsdId(0)]);
    }
}

#[test]
fn an_osd_that_the_map_has_no_room_for_is_refused() {
    let mut map = first_map(2);
    let before = map.clone();
    for osd in [-1, 2, i32::MAX] {
        let mut inc = map.next_incremental(NOW);
        inc.osd_up(OsdId(osd), addrs(1), addrs(2));
        assert_eq!(map.apply_incremental(&inc), Err(ApplyError::NoSuchOsd { osd: OsdId(osd), max_osd: 2 }));
    }
    let mut inc = map.next_incremental(NOW);
    inc.new_max_osd = Some(u32::MAX >> 1);
    assert_eq!(map.apply_incremental(&inc), Err(ApplyError::TooManyOsds { max_osd: u32::MAX >> 1 }));
    assert_eq!(map, before);
}

#[test]
fn removed_snapshots_wait_until_they_are_purged() {
    let map = running(1, 1);
    let snaps: SnapSet = [1, 2, 3, 7].map(SnapId).into_iter().collect();
    let purged: SnapSet = [1, 2, 3].map(SnapId).into_iter().collect();
    let mut inc = map.next_incremental(NOW);
    inc.new_removed_snaps.insert(POOL, snaps.clone());
    let map = map.advance(inc).expect("it follows").map;
    assert_eq!(map.removed_snaps_queue.get(&POOL), Some(&snaps));
    let mut inc = map.next_incremental(NOW);
    inc.new_purged_snaps.insert(POOL, purged);
    let map = map.advance(inc).expect("it follows").map;
    assert_eq!(map.removed_snaps_queue[&POOL].intervals().collect::<Vec<_>>(), [(SnapId(7), 1)]);
    assert!(map.new_removed_snaps.is_empty());
}

#[test]
fn targets_are_what_the_map_says() {
    let mut map = running(6, 3);
    map.set_primary_affinity(OsdId(2), 0);
    let erasure = PgPool { kind: PoolKind::ERASURE, ..PgPool::replicated(4, 13) };
    map.pools.insert(PoolId(2), erasure);
    map.pools.insert(PoolId(3), PgPool { crush_rule: 9, ..PgPool::replicated(3, 8) });
    let targets = Targets::new(Arc::new(map));
    let map = targets.map();
    for _ in 0..2 {
        for pool in [1, 2, 3].map(PoolId) {
            for i in 0..200 {
                let name = format!("object{i}");
                let target = targets.target(pool, b"ns", b"", name.as_bytes()).expect("the pool is there");
                let raw = map.object_to_pg(pool, b"ns", b"", name.as_bytes()).expect("the pool is there");
                assert_eq!(raw, PgId { pool, seed: target.hash });
                assert_eq!(map.raw_pg_to_pg(raw), Some(target.pg));
                assert_eq!(map.pg_to_up_acting(raw).acting_primary, target.primary);
                assert_eq!(target.primary.is_some(), pool == POOL, "the others' rules do not fit");
            }
        }
    }
    assert_eq!(targets.target(PoolId(9), b"", b"", b"x"), None);
    assert_eq!(targets.primary(PgId { pool: PoolId(9), seed: 0 }), None);
}

#[test]
fn a_locator_key_is_hashed_instead_of_the_name() {
    let map = running(1, 1);
    assert_eq!(map.object_to_pg(POOL, b"n", b"key", b"name"), map.object_to_pg(POOL, b"n", b"", b"key"));
    assert_ne!(map.object_to_pg(POOL, b"n", b"key", b"name"), map.object_to_pg(POOL, b"", b"", b"key"));
}
