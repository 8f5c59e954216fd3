//! Goal: maps that monitors of releases 16, 18 and 20 wrote are decoded, applied and encoded again byte
//! for byte. Method: the complete histories of stock clusters that were changed in every way that the
//! `ceph` program offers. Each change is applied, and the checksum of the result is compared with the
//! monitors' checksum.
//!
//! A history is a full map followed by incrementals, each preceded by its length in 32 bits.

use std::path::Path;

use bytes::Bytes;
use loligo_maps::crush::CrushMap;
use loligo_maps::{Availability, Features, FsMap, FsMapUser, Incremental, MdsMap, MdsState, MonMap, OsdMap};
use loligo_wire::{Decode, Encode, Rank, Reader, Writer, features};

fn history(name: &str) -> Vec<Bytes> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("maps-{name}.bin"));
    let file = std::fs::read(path).expect("the history is there");
    let mut r = Reader::new(&file);
    let mut maps = Vec::new();
    while !r.is_empty() {
        maps.push(r.get().expect("a whole entry"));
    }
    maps
}

/// Applies a history to its end.
fn replay(name: &str) -> OsdMap {
    let maps = history(name);
    let (first, changes) = maps.split_first().expect("it starts with a full map");
    let mut map = OsdMap::decode(first).expect("a full map");
    for bytes in changes {
        let inc = Incremental::decode(bytes).expect("an incremental");
        assert_eq!(inc.encode(), bytes, "{name}, the change to {}", inc.epoch);
        map.apply_incremental(&inc).expect("it follows");
        assert_ne!(inc.full_crc, 0);
        let full = map.verify(&inc).expect("the monitors have the same");
        assert_eq!(OsdMap::decode(&full.bytes).as_ref(), Ok(&map), "{name}, epoch {}", map.epoch);
    }
    map
}

#[test]
fn histories_lead_to_the_maps_that_the_monitors_had() {
    for (name, epochs, release) in [
        ("16.2.15", 89, 16),
        ("18.2.7", 115, 18),
        ("20.2.4", 92, 20),
        ("20.2.4-ec", 32, 20),
        ("20.2.4-more", 36, 20),
    ] {
        let map = replay(name);
        assert_eq!(map.epoch.0, epochs, "{name}");
        assert_eq!(map.require_osd_release, release, "{name}");
    }
}

#[test]
fn a_history_holds_what_was_done_to_the_cluster() {
    let map = replay("18.2.7");
    let pool = map.pool_by_name(b"q2").expect("it was renamed to that");
    assert_eq!(map.pool(pool).map(|pool| (pool.pg_num(), pool.quota_max_objects)), Some((24, 1000)));
    assert_eq!(map.pool_by_name(b"gone"), None);
    assert_eq!(map.blocklist.ranges.len(), 1);
    assert_eq!(map.crush.rule_by_name("onssd"), Some(2));
    assert_eq!(map.crush.choose_args.len(), 2);
    assert_eq!(map.erasure_code_profiles.len(), 2);
    assert_eq!((map.nearfull_ratio, map.full_ratio), (0.8, 0.96));

    let ec = replay("20.2.4-ec");
    let pool = ec.pool_by_name(b"w").and_then(|pool| ec.pool(pool)).expect("it was made");
    assert_eq!(pool.nonprimary_shards.0, 0x1fe, "shards 1 to 8 of 9");
}

#[test]
fn a_gap_and_another_cluster_are_refused() {
    let maps = history("16.2.15");
    let mut map = OsdMap::decode(&maps[0]).expect("a full map");
    let before = map.clone();
    assert!(map.apply_incremental(&Incremental::decode(&maps[2]).expect("an incremental")).is_err());
    let mut inc = Incremental::decode(&maps[1]).expect("an incremental");
    inc.fsid.0[0] ^= 1;
    assert!(map.apply_incremental(&inc).is_err());
    assert_eq!(map, before);
}

/// Goal: damage to any byte is detected. Method: flip one bit in each byte after the envelope's header.
#[test]
fn a_damaged_map_is_refused() {
    let bytes = &history("16.2.15")[0];
    for at in 6..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        assert!(OsdMap::decode(&damaged).is_err(), "byte {at}");
    }
}

#[test]
fn monitor_maps_are_written_as_they_were() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/monmap");
    for (name, mons) in [("16.2.15", 1), ("16.2.15-three", 3), ("18.2.7", 1), ("20.2.4", 1)] {
        let bytes = std::fs::read(corpus.join(name)).expect("a readable file");
        let map = MonMap::from_bytes(&bytes).expect("a monitor map");
        assert_eq!(map.len(), mons, "{name}");
        assert_eq!(map.to_bytes(), bytes, "{name}");
        let allowed = map.auth.map(|auth| (auth.allowed_ciphers, auth.preferred_cipher));
        assert_eq!(allowed, name.starts_with("20").then(|| (vec![2], 2)), "{name}");
    }
}

#[test]
fn crush_maps_are_written_as_they_were() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/crush");
    let newest = Features(Features::PACIFIC.0 | features::SERVER_QUINCY | features::CRUSH_MSR);
    for (name, writer) in [
        ("16.2.15", Features::PACIFIC),
        ("18.2.7", Features::REEF),
        ("20.2.4", newest),
        ("20.2.4-ec", newest),
        ("20.2.4-more", newest),
    ] {
        let bytes = std::fs::read(corpus.join(name)).expect("a readable file");
        let map = CrushMap::decode(&mut Reader::new(&bytes)).expect("a CRUSH map");
        let mut w = Writer::new();
        map.encode(writer, &mut w);
        assert_eq!(w.as_slice(), bytes, "{name}");
    }
}

/// The maps that monitors of a release sent to clients and daemons.
fn captured(target: &str, release: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let files =
        std::fs::read_dir(dir).expect("the corpus is there").map(|entry| entry.expect("an entry").path());
    let of_release = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(release))
    };
    files.filter(of_release).map(|path| std::fs::read(path).expect("a readable file")).collect()
}

#[test]
fn maps_of_file_systems_are_written_back_byte_for_byte() {
    for (release, additions) in
        [("pacific", [false; 3]), ("reef", [true, true, false]), ("tentacle", [true; 3])]
    {
        let maps = captured("mdsmap", release);
        assert!(!maps.is_empty(), "{release}");
        for bytes in maps {
            let map = MdsMap::from_bytes(&bytes).expect("a map");
            assert_eq!(&map.to_bytes()[..], bytes, "{release}, epoch {}", map.epoch);
            assert_eq!(map.fs_name, "fs");
            let has = [map.bal_rank_mask.is_some(), map.max_xattr_size.is_some(), map.quiesce.is_some()];
            assert_eq!(has, additions, "{release}");
            // Some were captured while the server was started again.
            let is_active = map.state(Rank(0)) == MdsState::ACTIVE;
            assert_eq!(map.availability() == Availability::Available, is_active);
            assert_eq!(map.addrs(Rank(0)).is_some_and(|addrs| addrs.msgr2().is_some()), !map.up.is_empty());
        }
        let mut kinds = [0; 2];
        for bytes in captured("fsmap", release) {
            if let Ok(users) = FsMapUser::from_bytes(&bytes) {
                assert_eq!(&users.to_bytes()[..], bytes, "{release}");
                assert!(users.by_name(b"fs").is_some());
                kinds[0] += 1;
            } else {
                let map = FsMap::from_bytes(&bytes).expect("a map");
                assert_eq!(&map.to_bytes()[..], bytes, "{release}, epoch {}", map.epoch);
                assert!(map.by_name(b"fs").is_some_and(|fs| !fs.mds_map.data_pools.is_empty()));
                kinds[1] += 1;
            }
        }
        assert_eq!(kinds, [1, 1], "{release}");
    }
}
