//! Random CRUSH maps that use every feature, except maps that crash the stock tools.

use std::collections::BTreeMap;
use std::fmt::Write;

use loligo_maps::Name;
use loligo_maps::crush::{
    Bucket, BucketAlg, ChooseArg, ChooseArgs, CrushMap, DEFAULT_CHOOSE_ARGS, Rule, RuleKind, Step, StepOp,
    Tunables,
};

use crate::rng::Rng;

const HOST: u16 = 1;
const RACK: u16 = 2;
const ROOT: u16 = 3;

/// The purpose of a random CRUSH map.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// No restrictions: empty buckets, devices at every level, all rule steps.
    Wild,
    /// Every device is below a host below a rack below a root. For multi-step-retry rules, which crash
    /// the stock tools on other maps.
    Regular,
}

/// A random CRUSH map with two to five rules.
pub(crate) fn crush_map(rng: &mut Rng, shape: Shape) -> CrushMap {
    let mut map = CrushMap { tunables: tunables(rng), max_devices: rng.range(1, 48), ..CrushMap::default() };
    map.type_names = (0..).zip(["osd", "host", "rack", "root"].map(Name::from)).collect();
    let mut builder = Builder { rng, map: &mut map, shape };
    builder.hierarchy();
    builder.choose_args();
    builder.classes();
    for number in 0..builder.rng.range(2, 5) {
        let rule = if shape == Shape::Regular { builder.msr_rule() } else { builder.rule() };
        builder.map.rules.push(Some(rule));
        builder.map.rule_names.insert(number, format!("rule{number}").into());
    }
    map.validate().expect("random maps fit together");
    map
}

fn tunables(rng: &mut Rng) -> Tunables {
    let profiles =
        [Tunables::LEGACY, Tunables::BOBTAIL, Tunables::FIREFLY, Tunables::HAMMER, Tunables::JEWEL];
    let mut tunables = *rng.pick(&profiles);
    if rng.chance(30) {
        tunables.choose_local_tries = rng.below(4) as u32;
        tunables.choose_local_fallback_tries = rng.below(7) as u32;
        tunables.choose_total_tries = rng.below(60) as u32;
        tunables.chooseleaf_descend_once = rng.below(2) as u32;
        tunables.chooseleaf_vary_r = rng.below(6) as u8;
        tunables.chooseleaf_stable = rng.below(2) as u8;
        tunables.msr_descents = rng.below(20) as u32;
        tunables.msr_collision_tries = rng.below(20) as u32;
    }
    tunables
}

struct Builder<'a> {
    rng: &'a mut Rng,
    map: &'a mut CrushMap,
    shape: Shape,
}

impl Builder<'_> {
    fn hierarchy(&mut self) {
        let mut devices: Vec<i32> = (0..self.map.max_devices).collect();
        if self.shape == Shape::Wild {
            // At least one device: `crushtool` prints nothing for a map without buckets.
            devices.retain(|device| *device == 0 || self.rng.chance(95));
        }
        for device in &devices {
            self.map.names.insert(*device, format!("osd.{device}").into());
        }
        let hosts = self.level(HOST, &devices, 6);
        let racks = self.level(RACK, &hosts, 4);
        self.level(ROOT, &racks, 5);
    }

    /// Distributes `items` over new buckets of type `kind`. In wild maps some items are left for the
    /// next level. Returns the items for the next level.
    fn level(&mut self, kind: u16, items: &[i32], size_max: i32) -> Vec<i32> {
        let mut rest = items;
        let mut above = Vec::new();
        while !rest.is_empty() {
            let wild = self.shape == Shape::Wild;
            let wanted = self.rng.range(i32::from(!wild), size_max) as usize;
            let (mut taken, tail) = rest.split_at(wanted.min(rest.len()));
            rest = tail;
            if wild
                && self.rng.chance(5)
                && let Some((skipped, others)) = taken.split_first()
            {
                above.push(*skipped);
                taken = others;
            }
            above.push(self.bucket(kind, taken));
        }
        above
    }

    fn bucket(&mut self, kind: u16, items: &[i32]) -> i32 {
        let gap = usize::from(self.rng.chance(10));
        let index = self.map.buckets.len() + gap;
        let id = -1 - index as i32;
        let weights: Vec<u32> = items.iter().map(|item| self.weight_of(*item)).collect();
        let alg = self.algorithm(&weights);
        let weight = match &alg {
            BucketAlg::Uniform { item_weight } => item_weight * items.len() as u32,
            _ => weights.iter().sum(),
        };
        self.map.buckets.resize(index, None);
        self.map.buckets.push(Some(Bucket { id, kind, hash: 0, weight, items: items.to_vec(), alg }));
        self.map.names.insert(id, format!("bucket{index}").into());
        id
    }

    fn weight_of(&mut self, item: i32) -> u32 {
        match self.map.bucket(item) {
            Some(bucket) => bucket.weight,
            None => match self.rng.below(10) {
                0 => 0,
                1 => self.rng.below(100) as u32,
                2 => self.rng.below(100 << 16) as u32,
                _ => 0x1_0000,
            },
        }
    }

    fn algorithm(&mut self, weights: &[u32]) -> BucketAlg {
        match self.rng.below(8) {
            0 => BucketAlg::Uniform { item_weight: weights.first().copied().unwrap_or(0) },
            1 => {
                let sums = weights.iter().scan(0u32, |sum, weight| {
                    *sum += weight;
                    Some(*sum)
                });
                BucketAlg::List { item_weights: weights.to_vec(), sum_weights: sums.collect() }
            }
            // The stock implementation of a tree without weight reads beyond its items.
            2 if weights.iter().any(|weight| *weight > 0) => BucketAlg::Tree { node_weights: tree(weights) },
            3 => {
                let straws =
                    weights.iter().map(|weight| (*weight).max(1) / 2 + self.rng.below(0x1_0000) as u32);
                BucketAlg::Straw { item_weights: weights.to_vec(), straws: straws.collect() }
            }
            _ => BucketAlg::Straw2 { item_weights: weights.to_vec() },
        }
    }

    fn choose_args(&mut self) {
        // `crushtool` looks up the weight sets of pool 0, and falls back to the default ones.
        for key in [DEFAULT_CHOOSE_ARGS, 0, 1] {
            if self.rng.chance(25) {
                let args = self.args();
                self.map.choose_args.insert(key, args);
            }
        }
    }

    fn args(&mut self) -> ChooseArgs {
        let positions = self.rng.below(4);
        let mut args = BTreeMap::new();
        for (index, bucket) in (0..).zip(&self.map.buckets) {
            let straw2 = bucket.as_ref().filter(|b| matches!(b.alg, BucketAlg::Straw2 { .. }));
            let Some(bucket) = straw2.filter(|b| !b.items.is_empty()) else { continue };
            if self.rng.chance(50) {
                continue;
            }
            let weight = |rng: &mut Rng| rng.below(3 << 16) as u32;
            let set =
                (0..positions).map(|_| bucket.items.iter().map(|_| weight(self.rng)).collect()).collect();
            let ids = match self.rng.chance(30) {
                true => bucket.items.iter().map(|_| self.rng.range(-1000, 1000)).collect(),
                false => Vec::new(),
            };
            args.insert(index, ChooseArg { weight_set: set, ids });
        }
        args.retain(|_, arg: &mut ChooseArg| !arg.weight_set.is_empty() || !arg.ids.is_empty());
        ChooseArgs(args)
    }

    /// Classes have no effect on placement here, but encoding and decoding must preserve them.
    fn classes(&mut self) {
        if self.rng.chance(50) {
            self.map.class_names = (0..).zip(["hdd", "ssd"].map(Name::from)).collect();
            self.map.classes =
                (0..self.map.max_devices).map(|device| (device, self.rng.range(0, 1))).collect();
        }
    }

    fn rule(&mut self) -> Rule {
        let mut steps = Vec::new();
        for _ in 0..self.rng.below(3) {
            let op = *self.rng.pick(&[
                StepOp::NOOP,
                StepOp::SET_CHOOSE_TRIES,
                StepOp::SET_CHOOSELEAF_TRIES,
                StepOp::SET_CHOOSE_LOCAL_TRIES,
                StepOp::SET_CHOOSE_LOCAL_FALLBACK_TRIES,
                StepOp::SET_CHOOSELEAF_VARY_R,
                StepOp::SET_CHOOSELEAF_STABLE,
            ]);
            steps.push(op.with(self.rng.range(-1, 8)));
        }
        for _ in 0..if self.rng.chance(20) { 2 } else { 1 } {
            self.take_and_choose(&mut steps);
        }
        let kind = *self.rng.pick(&[RuleKind::REPLICATED, RuleKind::ERASURE]);
        Rule { kind, min_size: 1, max_size: 10, steps }
    }

    fn take_and_choose(&mut self, steps: &mut Vec<Step>) {
        let from = match self.rng.chance(80) {
            true => self.top(),
            false => self.any_item(),
        };
        steps.push(StepOp::TAKE.with(from));
        let (firstn, firstn_leaf) = (StepOp::CHOOSE_FIRSTN, StepOp::CHOOSELEAF_FIRSTN);
        let (indep, indep_leaf) = (StepOp::CHOOSE_INDEP, StepOp::CHOOSELEAF_INDEP);
        let (choose, leaf) = if self.rng.chance(50) { (firstn, firstn_leaf) } else { (indep, indep_leaf) };
        match self.rng.below(5) {
            0 => steps.push(choose.choose(self.rng.range(-2, 5), 0)),
            1 | 2 => steps.push(leaf.choose(self.rng.range(-2, 5), self.rng.range(0, 3))),
            3 => {
                steps.push(choose.choose(self.rng.range(1, 3), i32::from(RACK)));
                steps.push(leaf.choose(self.rng.range(0, 3), i32::from(HOST)));
            }
            _ => {
                steps.push(choose.choose(self.rng.range(1, 3), i32::from(HOST)));
                steps.push(choose.choose(self.rng.range(0, 3), 0));
            }
        }
        steps.push(StepOp::EMIT.with(0));
    }

    fn msr_rule(&mut self) -> Rule {
        let mut steps = Vec::new();
        for op in [StepOp::SET_MSR_DESCENTS, StepOp::SET_MSR_COLLISION_TRIES] {
            if self.rng.chance(30) {
                steps.push(op.with(self.rng.range(0, 30)));
            }
        }
        for _ in 0..self.rng.range(1, 2) {
            steps.push(StepOp::TAKE.with(self.top()));
            for kind in [RACK, HOST] {
                if self.rng.chance(50) {
                    steps.push(StepOp::CHOOSE_MSR.choose(self.rng.range(0, 4), i32::from(kind)));
                }
            }
            steps.push(StepOp::CHOOSE_MSR.choose(self.rng.range(0, 4), 0));
            steps.push(StepOp::EMIT.with(0));
        }
        let kind = *self.rng.pick(&[RuleKind::MSR_FIRSTN, RuleKind::MSR_INDEP]);
        Rule { kind, min_size: 1, max_size: 100, steps }
    }

    fn top(&mut self) -> i32 {
        let roots: Vec<i32> =
            self.map.buckets.iter().flatten().filter(|b| b.kind == ROOT).map(|b| b.id).collect();
        if roots.is_empty() { self.any_item() } else { *self.rng.pick(&roots) }
    }

    fn any_item(&mut self) -> i32 {
        let items: Vec<i32> = self.map.names.keys().copied().collect();
        if items.is_empty() { 0 } else { *self.rng.pick(&items) }
    }
}

/// Returns the weights of a tree bucket's nodes.
fn tree(weights: &[u32]) -> Vec<u32> {
    let nodes = weights.len().next_power_of_two() * 2;
    let mut tree = vec![0; nodes];
    for (item, weight) in weights.iter().enumerate() {
        let mut node = 2 * item + 1;
        let mut height = 0;
        while node < nodes && 1 << height < nodes {
            tree[node] += weight;
            let step = 1 << height;
            node = if node & (step << 1) != 0 { node - step } else { node + step };
            height += 1;
        }
    }
    tree
}

/// Creates a tree of straw2 buckets with devices of several classes, sometimes with existing shadows.
pub(crate) fn class_map(rng: &mut Rng) -> CrushMap {
    let mut map = CrushMap::with_root();
    for device in 0..rng.range(1, 20) {
        map.add_device(device, &format!("osd.{device}")).expect("a free name");
    }
    for host in 0..rng.range(1, 6) {
        let id = map.add_bucket(&format!("host{host}"), HOST).expect("a free name");
        for device in 0..map.max_devices {
            if rng.chance(25) {
                map.insert_item(device, rng.below(3 << 16) as u32, id).expect("a new item");
            }
        }
        map.insert_item(id, 0, -1).expect("a new item");
    }
    for round in 0..rng.range(1, 2) {
        if round > 0 {
            map.rebuild_class_trees().expect("all is straw2");
        }
        for device in 0..map.max_devices {
            if rng.chance(70) {
                let class = *rng.pick(&["hdd", "ssd", "nvme"]);
                map.set_device_class(device, class).expect("a device");
            }
        }
    }
    map
}

/// Creates the source of a CRUSH map with classes, and rules that use them. It contains no uniform
/// buckets, for which `crushtool` cannot build shadows, and no tree buckets, whose shadows `crushtool`
/// builds from uninitialised memory.
pub(crate) fn crush_text(rng: &mut Rng) -> String {
    let (hosts, per_host) = (rng.range(2, 6), rng.range(1, 5));
    let mut text = String::from("# begin\n");
    for (name, max) in [("choose_local_tries", 3), ("choose_total_tries", 60), ("chooseleaf_vary_r", 4)] {
        writeln!(text, "tunable {name} {}", rng.range(0, max)).expect("a string takes it");
    }
    for device in 0..hosts * per_host {
        // A rule may only take a class that a device has.
        let class = if device < 2 { ["hdd", "ssd"][device as usize] } else { *rng.pick(&["hdd", "ssd"]) };
        writeln!(text, "device {device} osd.{device} class {class}").expect("a string takes it");
    }
    text += "type 0 osd\ntype 1 host\ntype 2 root\n";
    let bucket = |rng: &mut Rng, text: &mut String, header: &str, items: &mut dyn Iterator<Item = String>| {
        let alg = rng.pick(&["list", "straw", "straw2"]);
        writeln!(text, "{header} {{\n alg {alg}\n hash 0").expect("a string takes it");
        for item in items {
            let weight = f64::from(rng.range(1, 16)) / 4.0;
            writeln!(text, " item {item} weight {weight:.3}").expect("a string takes it");
        }
        *text += "}\n";
    };
    for host in 0..hosts {
        let mut items = (host * per_host..(host + 1) * per_host).map(|device| format!("osd.{device}"));
        bucket(rng, &mut text, &format!("host host{host}"), &mut items);
    }
    bucket(rng, &mut text, "root default", &mut (0..hosts).map(|host| format!("host{host}")));
    for (number, class) in ["", " class hdd", " class ssd"].iter().enumerate() {
        let (kind, mode) = *rng.pick(&[("replicated", "firstn"), ("erasure", "indep")]);
        let leaf = rng.pick(&["chooseleaf {} 0 type host", "choose {} 0 type osd"]).replace("{}", mode);
        writeln!(text, "rule r{number} {{\n id {number}\n type {kind}\n min_size 1\n max_size 10")
            .expect("it takes it");
        writeln!(text, " step take default{class}\n step {leaf}\n step emit\n}}").expect("a string takes it");
    }
    text
}
