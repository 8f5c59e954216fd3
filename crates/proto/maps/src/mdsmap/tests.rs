//! Tests of the map of metadata servers.

use loligo_wire::{EntityAddr, Fscid};

use super::*;
use crate::compat::CompatFeatures;

fn server(gid: u64, rank: i32, state: MdsState) -> MdsInfo {
    MdsInfo {
        gid: GlobalId(gid),
        name: "a".into(),
        rank: Rank(rank),
        state,
        state_seq: 3,
        addrs: EntityAddr::msgr2(([127, 0, 0, 1], 6800).into()).into(),
        export_targets: [Rank(1)].into(),
        ..MdsInfo::default()
    }
}

fn sample() -> MdsMap {
    MdsMap {
        epoch: Epoch(7),
        mds_info: [(GlobalId(10), server(10, 0, MdsState::ACTIVE))].into(),
        data_pools: vec![PoolId(3)],
        metadata_pool: PoolId(2),
        in_ranks: [Rank(0)].into(),
        up: [(Rank(0), GlobalId(10))].into(),
        inc: [(Rank(0), 4)].into(),
        enabled: true,
        fs_name: "fs".into(),
        compat: CompatSet {
            incompat: CompatFeatures::of(&[(1, "base v0.20"), (2, "client writeable ranges")]),
            ..CompatSet::default()
        },
        ..MdsMap::default()
    }
}

#[test]
fn each_version_is_read_back() {
    let mut map = sample();
    let mut again = |change: fn(&mut MdsMap)| {
        change(&mut map);
        assert_eq!(MdsMap::from_bytes(&map.to_bytes()).as_ref(), Ok(&map));
        map.extended_version()
    };
    assert_eq!(again(|_| {}), 16);
    assert_eq!(again(|map| map.bal_rank_mask = Some("-1".into())), 17);
    assert_eq!(again(|map| map.max_xattr_size = Some(65_536)), 18);
    assert_eq!(again(|map| map.quiesce = Some(QuiesceCluster::default())), 19);
    let with_compat = |map: &mut MdsMap| {
        map.mds_info.values_mut().for_each(|info| info.compat = Some(CompatSet::default()));
    };
    assert_eq!(again(with_compat), 19);
}

#[test]
fn the_first_part_is_where_kernels_read_it() {
    let bytes = sample().to_bytes();
    assert_eq!(&bytes[..2], b"\x05\x04");
    assert_eq!(&bytes[6..18], b"\x07\0\0\0\x12\0\0\0\0\0\0\0");
    assert_eq!(&bytes[22..42], b"\x3c\0\0\0\x2c\x01\0\0\0\0\0\0\0\x01\0\0\x01\0\0\0");
    assert_eq!(&bytes[42..56], b"\x01\0\0\0\x0a\0\0\0\0\0\0\0\x09\x04");
}

#[test]
fn servers_are_found_by_rank() {
    let map = sample();
    assert_eq!(map.active_ranks().collect::<Vec<_>>(), [Rank(0)]);
    assert_eq!((map.state(Rank(0)), map.state(Rank(1))), (MdsState::ACTIVE, MdsState::DNE));
    assert!(map.addrs(Rank(0)).is_some_and(|addrs| addrs.msgr2().is_some()));
    assert!(map.is_data_pool(PoolId(3)) && !map.is_data_pool(PoolId(2)));
    assert_eq!(map.mds_info[&GlobalId(10)].join_fscid, Fscid::NONE);
    assert_eq!(MdsState::ACTIVE.to_string(), "up:active");
    assert_eq!(MdsState(99).to_string(), "state 99");
}

#[test]
fn a_file_system_is_available_with_an_active_server() {
    let change = |change: fn(&mut MdsMap)| {
        let mut map = sample();
        change(&mut map);
        map.availability()
    };
    assert_eq!(change(|_| {}), Availability::Available);
    assert_eq!(change(|map| map.epoch = Epoch(0)), Availability::Transient);
    assert_eq!(change(|map| map.damaged = [Rank(1)].into()), Availability::Stuck);
    assert_eq!(change(|map| map.in_ranks.clear()), Availability::Stuck);
    assert_eq!(change(|map| map.up.clear()), Availability::Transient);
    let laggy = |map: &mut MdsMap| {
        map.mds_info.values_mut().for_each(|info| info.laggy_since = UTime { sec: 1, nsec: 0 });
    };
    assert_eq!(change(laggy), Availability::Stuck);
}

/// Goal: claims are checked before memory is allocated, and old maps are refused with their version.
#[test]
fn impossible_and_old_maps_are_refused() {
    let bytes = sample().to_bytes().to_vec();
    let mut claim = bytes.clone();
    claim[42..46].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(matches!(MdsMap::from_bytes(&claim), Err(DecodeError::Truncated { .. })));
    let empty = MdsMap::default().to_bytes();
    let mut old = empty.to_vec();
    let version_at = 6 + 36 + 4 + 4 + 8;
    assert_eq!(&old[version_at..version_at + 2], b"\x10\0");
    old[version_at] = 15;
    assert!(matches!(MdsMap::from_bytes(&old), Err(DecodeError::TooOld { version: 15, .. })));
    (0..bytes.len()).for_each(|len| assert!(MdsMap::from_bytes(&bytes[..len]).is_err(), "{len}"));
}

#[test]
fn the_shortest_server_is_not_below_the_bound() {
    let shortest = MdsInfo { compat: None, ..MdsInfo::default() }.to_bytes();
    // Version 7 has no flags.
    assert!(shortest.len() - 8 >= MdsInfo::MIN_LEN, "{}", shortest.len());
}
