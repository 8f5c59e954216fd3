//! Placements against `crushtool --test`.

use std::fmt::Write;

use loligo_maps::Features;
use loligo_maps::crush::{CrushMap, Workspace};
use loligo_wire::features;

use crate::random::{self, Shape};
use crate::rng::Rng;
use crate::tools::{Stock, for_each_seed, stdout};

const MAPS: u64 = 2500;
/// Of each further release, and of each special kind.
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
    if let Some((theirs, ours)) = theirs.lines().zip(ours.lines()).find(|(theirs, ours)| theirs != ours) {
        panic!(
            "seed {seed}, release {}:\ntheirs {theirs}\nours   {ours}\nrules {:?}",
            stock.release, map.rules
        );
    }
    assert_eq!(theirs.lines().count(), ours.lines().count(), "seed {seed}, release {}", stock.release);
}

/// As `crushtool` starts: each device that some bucket holds is in.
fn in_weights(map: &CrushMap) -> Vec<u32> {
    let held = |device: i32| map.buckets.iter().flatten().any(|bucket| bucket.items.contains(&device));
    (0..map.max_devices).map(|device| if held(device) { 0x1_0000 } else { 0 }).collect()
}

/// What `crushtool` should print.
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
