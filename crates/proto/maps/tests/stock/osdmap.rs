//! Compares OSD maps with `osdmaptool`.

use std::fmt::Write;

use loligo_maps::{Features, OsdMap, OsdSet};
use loligo_wire::{Epoch, OsdId, PgId, PoolId, features as wire_features};

use crate::random;
use crate::rng::Rng;
use crate::tools::{Stock, assert_same_lines, for_each_seed, stdout};

const MAPS: u64 = 800;
/// Number of maps for each further release.
const MAPS_FURTHER: u64 = 300;
/// Number of objects looked up, each in its own map.
const OBJECTS: u64 = 200;

/// The feature bits with which a cluster of a release encodes its maps.
fn features(release: u32) -> Features {
    match release {
        ..18 => Features::PACIFIC,
        18 | 19 => Features::REEF,
        _ => Features::TENTACLE,
    }
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn random_maps_place_as_osdmaptool_does() {
    for (i, stock) in Stock::all().iter().enumerate() {
        let maps = if i == 0 { MAPS } else { MAPS_FURTHER };
        for_each_seed(maps, |seed| compare_placements(stock, seed));
        println!("release {}: {maps} maps", stock.release);
    }
}

fn compare_placements(stock: &Stock, seed: u64) {
    let map = random::osd_map(&mut Rng::new(seed), stock.release);
    let file = stock.file(&map.encode(features(stock.release)).bytes);
    let theirs = stdout(stock.command("osdmaptool").arg(&file.inside).arg("--test-map-pgs-dump-all"));
    let ours = placements(&map);
    // The tool prints a summary after the placements.
    let theirs: String = theirs.lines().take(ours.lines().count()).map(|line| format!("{line}\n")).collect();
    assert_same_lines(&theirs, &ours, &format!("seed {seed}, release {}", stock.release));
}

/// The expected output of `osdmaptool`.
fn placements(map: &OsdMap) -> String {
    let mut text = String::new();
    for (id, pool) in &map.pools {
        writeln!(text, "pool {id} pg_num {}", pool.pg_num()).expect("a string takes it");
        for seed in 0..pool.pg_num() {
            let pg = PgId { pool: *id, seed };
            let raw = map.pg_to_raw(pg);
            let placed = map.pg_to_up_acting(pg);
            assert_eq!(map.acting_primary(pg), placed.acting_primary);
            let raw_primary = raw.iter().copied().find(|osd| *osd != loligo_maps::HOLE);
            let sets = [
                osds(&raw, raw_primary),
                osds(&placed.up, placed.up_primary),
                osds(&placed.acting, placed.acting_primary),
            ];
            writeln!(text, "{pg} raw {} up {} acting {}", sets[0], sets[1], sets[2])
                .expect("a string takes it");
        }
    }
    text
}

fn osds(set: &OsdSet, primary: Option<OsdId>) -> String {
    let set: Vec<String> = set.iter().map(OsdId::to_string).collect();
    format!("([{}], p{})", set.join(","), primary.unwrap_or(OsdId(-1)))
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn objects_are_found_where_osdmaptool_finds_them() {
    let stock = &Stock::all()[0];
    for_each_seed(OBJECTS, |seed| {
        let mut rng = Rng::new(seed);
        let map = random::osd_map(&mut rng, stock.release);
        let name: String = (0..rng.range(1, 60)).map(|_| rng.pick(&['a', 'b', '.', ' ', 'ö', '0'])).collect();
        let file = stock.file(&map.encode(Features::PACIFIC).bytes);
        let mut command = stock.command("osdmaptool");
        command.arg(&file.inside).args(["--pool", "1", "--test-map-object", &name]);
        let pg = map.object_to_pg(PoolId(1), b"", b"", name.as_bytes()).expect("the pool is there");
        let acting = osds(&map.pg_to_up_acting(pg).acting, None);
        let acting = acting.trim_start_matches('(').split(']').next().expect("a list").to_owned();
        let pg = map.raw_pg_to_pg(pg).expect("the pool is there");
        assert_eq!(
            stdout(&mut command).trim(),
            format!("object '{name}' -> {pg} -> {acting}]"),
            "seed {seed}"
        );
    });
}

/// Goal: `osdmaptool` keeps all fields of a map that this crate encoded. Method: the tool decodes the
/// map and writes it again with another CRUSH map; the result must equal the map with an incremental
/// that sets the CRUSH map.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn what_osdmaptool_writes_of_our_map_is_our_map() {
    for stock in Stock::all() {
        for_each_seed(100, |seed| {
            let mut rng = Rng::new(seed);
            let mut map = random::osd_map(&mut rng, stock.release);
            random::details(&mut rng, &mut map, stock.release);
            let mut crush = random::crush_map(&mut rng, random::Shape::Wild);
            if stock.release >= 17 {
                // These values are written regardless of the rules' sizes.
                crush.rules.iter_mut().flatten().for_each(|rule| (rule.min_size, rule.max_size) = (1, 100));
            }
            map.set_max_osd(map.max_osd().max(crush.max_devices as usize));
            let mut w = loligo_wire::Writer::new();
            crush.encode(Features::PACIFIC, &mut w);
            let (file, crush_file) =
                (stock.file(&map.encode(features(stock.release)).bytes), stock.file(w.as_slice()));
            let mut command = stock.command("osdmaptool");
            stdout(command.arg(&file.inside).arg("--import-crush").arg(&crush_file.inside));

            let theirs = OsdMap::decode(&file.read()).expect("what they write can be read");
            let mut inc = map.next_incremental(theirs.modified);
            inc.set_crush(&crush);
            map.apply_incremental(&inc).expect("it follows");
            // The tool increments the epoch once for the CRUSH map, and once more when it writes a
            // modified map.
            map.epoch = Epoch(11);
            let what = format!("seed {seed}, release {}", stock.release);
            assert_same_lines(&format!("{theirs:#?}"), &format!("{map:#?}"), &what);
        });
    }
}

/// Goal: maps of `osdmaptool --createsimple` are decoded and encoded again byte for byte.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn simple_maps_are_read_and_written_alike() {
    for stock in Stock::all() {
        for osds in [1, 3, 40] {
            let file = stock.file(b"");
            let mut command = stock.command("osdmaptool");
            command.arg(&file.inside).args([
                "--clobber",
                "--with-default-pool",
                "--createsimple",
                &osds.to_string(),
            ]);
            stdout(&mut command);
            let theirs = file.read();
            let map = OsdMap::decode(&theirs).expect("what they write can be read");
            assert_eq!(map.max_osd(), osds);
            // The tool encodes with all features of its release.
            let all =
                Features(Features::TENTACLE.0 | wire_features::SERVER_QUINCY | wire_features::CRUSH_MSR);
            let written = [Features::PACIFIC, Features::REEF, all].map(|f| map.encode(f).bytes);
            assert!(written.iter().any(|bytes| **bytes == *theirs), "release {}, {osds} OSDs", stock.release);
        }
    }
}

/// Goal: every stock release decodes and prints the maps that this project's server builds.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn built_maps_are_read_by_osdmaptool() {
    for stock in Stock::all() {
        let map =
            OsdMap::build(loligo_wire::Uuid([3; 16])).osds(2).host("h").finish().expect("it can be built");
        let mut inc = map.next_incremental(loligo_wire::UTime { sec: 5, nsec: 0 });
        inc.create_pool(&map, "data", loligo_maps::PgPool::replicated(2, 128));
        let next = map.advance(inc).expect("it follows");
        let file = stock.file(&next.full.bytes);
        let printed = stdout(stock.command("osdmaptool").arg(&file.inside).arg("--print"));
        for line in
            ["epoch 2", "max_osd 2", "require_osd_release pacific", "require_min_compat_client luminous"]
        {
            assert!(
                printed.lines().any(|l| l == line),
                "release {}: no '{line}' in\n{printed}",
                stock.release
            );
        }
        assert!(printed.contains(
            "pool 1 'data' replicated size 2 min_size 1 crush_rule 0 object_hash rjenkins pg_num 128"
        ));
        let tree = stdout(stock.command("osdmaptool").arg(&file.inside).args(["--tree"]));
        for word in ["root default", "host h", "osd.0", "osd.1"] {
            assert!(tree.contains(word), "release {}: no '{word}' in\n{tree}", stock.release);
        }
    }
}
