//! Compares placements with `crushtool --test`.

use std::fmt::Write;

use loligo_maps::Features;
use loligo_maps::crush::{CrushMap, Workspace};
use loligo_wire::{Reader, features};

use crate::random::{self, Shape};
use crate::rng::Rng;
use crate::tools::{Stock, assert_same_lines, for_each_seed, stdout};

const MAPS: u64 = 2500;
/// Number of maps for each further release, and for each special kind of map.
const MAPS_FURTHER: u64 = 300;
/// Inputs per rule.
const INPUTS: u32 = 48;

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn random_maps_place_as_crushtool_does() {
    for (i, stock) in Stock::all().iter().enumerate() {
        let maps = if i == 0 { MAPS } else { MAPS_FURTHER };
        for_each_seed(maps, |seed| compare(stock, seed, Shape::Wild));
        println!("release {}: {maps} maps", stock.release);
    }
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn multi_step_retry_rules_place_as_crushtool_does() {
    for stock in Stock::all().iter().filter(|stock| stock.release >= 19) {
        for_each_seed(MAPS_FURTHER, |seed| compare(stock, seed, Shape::Regular));
        println!("release {}: {MAPS_FURTHER} maps", stock.release);
    }
}

fn compare(stock: &Stock, seed: u64, shape: Shape) {
    let mut rng = Rng::new(seed);
    let map = random::crush_map(&mut rng, shape);
    let mut weights = in_weights(&map);
    let mut w = loligo_wire::Writer::new();
    map.encode(Features(Features::PACIFIC.0 | features::CRUSH_MSR), &mut w);
    let file = stock.file(w.as_slice());
    let size = rng.range(1, 8);

    let mut command = stock.command("crushtool");
    command.arg("-i").arg(&file.inside).args(["--test", "--show-mappings", "--min-x", "0"]);
    command.args(["--max-x", &(INPUTS - 1).to_string(), "--num-rep", &size.to_string()]);
    for (device, weight) in weights.iter_mut().enumerate() {
        if rng.chance(20) {
            let sixteenths = rng.below(17) as u32;
            *weight = sixteenths << 12;
            command.args(["--weight", &device.to_string(), &(f64::from(sixteenths) / 16.0).to_string()]);
        }
    }
    let theirs = stdout(&mut command);
    let ours = mappings(&map, size as usize, &weights);
    assert_same_lines(&theirs, &ours, &format!("seed {seed}, release {}", stock.release));
}

/// The initial weights of `crushtool`: each device in a bucket is in.
fn in_weights(map: &CrushMap) -> Vec<u32> {
    let held = |device: i32| map.buckets.iter().flatten().any(|bucket| bucket.items.contains(&device));
    (0..map.max_devices).map(|device| if held(device) { 0x1_0000 } else { 0 }).collect()
}

/// The expected output of `crushtool`.
fn mappings(map: &CrushMap, size: usize, weights: &[u32]) -> String {
    let mut workspace = Workspace::new();
    let mut text = String::new();
    for rule in 0..map.rules.len() {
        for x in 0..INPUTS {
            let placed = map.do_rule(rule, x, size, weights, map.choose_args_for(0), &mut workspace);
            let items: Vec<String> = placed.iter().map(i32::to_string).collect();
            writeln!(text, "CRUSH rule {rule} x {x} [{}]", items.join(",")).expect("a string takes it");
        }
    }
    text
}

/// Goal: shadow trees built here equal those of `crushtool`, byte for byte.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn class_trees_are_what_crushtool_makes() {
    for stock in Stock::all() {
        for_each_seed(60, |seed| {
            let mut map = random::class_map(&mut Rng::new(seed));
            let mut w = loligo_wire::Writer::new();
            map.encode(Features::PACIFIC, &mut w);
            let (file, rebuilt) = (stock.file(w.as_slice()), stock.file(b""));
            let mut command = stock.command("crushtool");
            command.arg("-i").arg(&file.inside).args(["--rebuild-class-roots", "-o"]).arg(&rebuilt.inside);
            stdout(&mut command);
            let theirs =
                CrushMap::decode(&mut Reader::new(&rebuilt.read())).expect("what they write can be read");
            map.rebuild_class_trees().expect("all is straw2");
            assert_eq!(map, theirs, "seed {seed}, release {}", stock.release);
        });
    }
}

/// Goal: maps that `crushtool` compiles from text, with its own straws and shadows, are decoded and
/// encoded again unchanged, and yield the same placements.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn compiled_maps_are_read_and_written_as_they_were() {
    for stock in Stock::all() {
        for_each_seed(100, |seed| {
            let mut rng = Rng::new(seed);
            let text = random::crush_text(&mut rng);
            let (source, compiled) = (stock.file(text.as_bytes()), stock.file(b""));
            let mut command = stock.command("crushtool");
            stdout(command.arg("-c").arg(&source.inside).arg("-o").arg(&compiled.inside));
            let bytes = compiled.read();
            let map = CrushMap::decode(&mut Reader::new(&bytes)).expect("what they write can be read");
            let quincy = Features::PACIFIC.0 | features::SERVER_QUINCY;
            let written =
                [Features::PACIFIC, Features(quincy), Features(quincy | features::CRUSH_MSR)].map(|writer| {
                    let mut w = loligo_wire::Writer::new();
                    map.encode(writer, &mut w);
                    w.into_bytes()
                });
            assert!(written.iter().any(|again| **again == *bytes), "seed {seed}, release {}", stock.release);
            let size = rng.range(1, 6);
            let mut command = stock.command("crushtool");
            command.arg("-i").arg(&compiled.inside).args(["--test", "--show-mappings", "--min-x", "0"]);
            command.args(["--max-x", &(INPUTS - 1).to_string(), "--num-rep", &size.to_string()]);
            let ours = mappings(&map, size as usize, &in_weights(&map));
            let what = format!("seed {seed}, release {}", stock.release);
            assert_same_lines(&stdout(&mut command), &ours, &what);
        });
    }
}
