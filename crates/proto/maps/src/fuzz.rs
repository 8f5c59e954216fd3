//! Entry points for fuzzing. Each decodes a map from arbitrary bytes, uses it, encodes it, and checks
//! that decoding the result yields the same map.
//!
//! A map's checksum is corrected first; otherwise every mutation would be rejected by the checksum test.

use std::sync::Arc;

use loligo_wire::{Decode, Encode, Epoch, OsdId, PgId, Reader, Writer, features};

use crate::crush::{CrushMap, Workspace};
use crate::{Features, FsMap, FsMapUser, Incremental, MdsMap, MonMap, OsdMap, Targets};

/// All bits that change the encoding of maps.
const ALL: Features = Features(Features::TENTACLE.0 | features::SERVER_QUINCY | features::CRUSH_MSR);

/// Decodes a monitor map.
pub fn monmap(data: &[u8]) {
    let Ok(map) = MonMap::from_bytes(data) else { return };
    (0..map.len()).for_each(|rank| assert!(map.mon(rank).is_some()));
    assert_eq!(MonMap::from_bytes(&map.to_bytes()).as_ref(), Ok(&map));
}

/// Decodes a map of metadata servers and looks up its servers.
pub fn mdsmap(data: &[u8]) {
    let Ok(map) = MdsMap::from_bytes(data) else { return };
    map.active_ranks().for_each(|rank| assert!(map.addrs(rank).is_some()));
    let _ = map.availability();
    assert_eq!(MdsMap::from_bytes(&map.to_bytes()).as_ref(), Ok(&map));
}

/// Decodes both kinds of maps of file systems.
pub fn fsmap(data: &[u8]) {
    if let Ok(map) = FsMapUser::from_bytes(data) {
        map.filesystems.iter().for_each(|fs| assert!(map.by_name(&fs.name).is_some()));
        assert_eq!(FsMapUser::from_bytes(&map.to_bytes()), Ok(map));
    }
    let Ok(map) = FsMap::from_bytes(data) else { return };
    map.filesystems.iter().for_each(|fs| assert!(map.by_name(&fs.mds_map.fs_name).is_some()));
    assert_eq!(FsMap::from_bytes(&map.to_bytes()).as_ref(), Ok(&map));
}

/// Decodes a CRUSH map and computes placements with it.
pub fn crush(data: &[u8]) {
    let Ok(map) = CrushMap::decode(&mut Reader::new(data)) else { return };
    let mut workspace = Workspace::new();
    let weights = [0x1_0000, 0x8000, 0, 0x1_0000, 0x1_0000, 0xffff_ffff];
    for rule in 0..map.rules.len().min(4) {
        let args = map.choose_args_for(1);
        let placed = map.do_rule(rule, 7, 5, &weights, args, &mut workspace);
        assert!(placed.len() <= 5);
    }
    let encode = |map: &CrushMap| {
        let mut w = Writer::new();
        map.encode(ALL, &mut w);
        w.into_bytes()
    };
    let written = encode(&map);
    let again = CrushMap::decode(&mut Reader::new(&written)).expect("what we wrote opens");
    assert!(encode(&again) == written);
}

/// Decodes an OSD map and looks up placements in it.
pub fn osdmap(data: &[u8]) {
    let data = with_checksum(data);
    let Ok(map) = OsdMap::decode(&data) else { return };
    check_osdmap(map);
}

/// Opens an incremental and applies it to a small map.
pub fn incremental(data: &[u8]) {
    let data = with_checksum(data);
    let Ok(inc) = Incremental::decode(&data) else { return };
    let written = inc.encode();
    assert!(Incremental::decode(&written).expect("what we wrote opens").encode() == written);

    let mut map = OsdMap::build(inc.fsid).osds(4).finish().expect("it can be built");
    map.epoch = Epoch(inc.epoch.0.wrapping_sub(1));
    let before = map.clone();
    match map.apply_incremental(&inc) {
        Ok(()) => check_osdmap(map),
        Err(_) => assert!(map == before),
    }
}

fn check_osdmap(map: OsdMap) {
    // Decoding adds the flags that the release implies; an incremental can have cleared them.
    let reread = |map: &OsdMap| OsdMap::decode(&map.encode(ALL).bytes).expect("what we wrote opens");
    let read = reread(&map);
    assert!(reread(&read).encode(ALL) == read.encode(ALL), "epoch {}", map.epoch);

    let targets = Targets::new(Arc::new(map));
    let map = targets.map();
    for (id, pool) in map.pools.iter().take(4) {
        for seed in [0, 1, pool.pg_num().wrapping_sub(1), u32::MAX] {
            let placed = map.pg_to_up_acting(PgId { pool: *id, seed });
            assert_eq!(map.acting_primary(PgId { pool: *id, seed }), placed.acting_primary);
        }
        let target = targets.target(*id, b"ns", b"", b"name").expect("the pool is there");
        assert_eq!(target, targets.target(*id, b"ns", b"name", b"other").expect("the pool is there"));
    }
    for addrs in (-2..8).filter_map(|osd| map.client_addrs(OsdId(osd))) {
        map.blocklist.contains(addrs);
    }
}

/// Returns the bytes with a corrected checksum, if they are long enough to hold one.
fn with_checksum(data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    if let Some((at, crc)) = checksum(&data) {
        data[at..at + 4].copy_from_slice(&crc.to_le_bytes());
    }
    data
}

/// Returns the offset and the correct value of the checksum, which follows the two parts in the
/// envelope.
fn checksum(data: &[u8]) -> Option<(usize, u32)> {
    let mut outer = Reader::new(data);
    outer.skip(2).ok()?;
    let mut r = outer.sized().ok()?;
    let end = data.len() - outer.remaining();
    for _ in 0..2 {
        r.skip(2).ok()?;
        r.sized().ok()?;
    }
    let at = end - r.remaining();
    (r.remaining() >= 4).then(|| (at, loligo_wire::crc::crc32c_of([&data[..at], &data[at + 4..end]])))
}
