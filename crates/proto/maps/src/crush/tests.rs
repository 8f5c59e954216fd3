//! Tests of what the differential tests against `crushtool` do not cover: the construction of maps, and
//! broken or hostile maps.

use loligo_wire::{DecodeError, Reader, Writer};

use super::*;
use crate::Features;

const IN: [u32; 12] = [0x1_0000; 12];

fn place(map: &CrushMap, x: u32, size: usize) -> Vec<i32> {
    map.do_rule(0, x, size, &IN, None, &mut Workspace::new()).to_vec()
}

fn recoded(map: &CrushMap) -> Result<CrushMap, DecodeError> {
    let mut w = Writer::new();
    map.encode(Features::PACIFIC, &mut w);
    CrushMap::decode(&mut Reader::new(w.as_slice()))
}

/// Three hosts of four devices each.
fn three_hosts() -> CrushMap {
    let mut map = CrushMap::with_root();
    for host in 0..3 {
        let bucket = map.add_bucket(&format!("host{host}"), 1).expect("a free name");
        for device in host * 4..host * 4 + 4 {
            map.add_device(device, &format!("osd.{device}")).expect("a free name");
            map.insert_item(device, 0x1_0000, bucket).expect("a new item");
        }
        map.insert_item(bucket, 0, -1).expect("a new item");
    }
    map.add_simple_rule("replicated_rule", RuleKind::REPLICATED, -1, 1).expect("a free name");
    map
}

#[test]
fn copies_lie_on_different_hosts() {
    let map = three_hosts();
    for x in 0..1000 {
        let mut hosts: Vec<i32> = place(&map, x, 3).iter().map(|device| device / 4).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, [0, 1, 2]);
    }
}

#[test]
fn an_erasure_rule_leaves_holes_where_it_finds_nothing() {
    let mut map = three_hosts();
    let rule = map.add_simple_rule("ec", RuleKind::ERASURE, -1, 1).expect("a free name");
    let mut workspace = Workspace::new();
    let placed = map.do_rule(usize::from(rule), 5, 5, &IN, None, &mut workspace);
    assert_eq!(placed.len(), 5);
    assert_eq!(placed.iter().filter(|item| **item == ITEM_NONE).count(), 2);
}

#[test]
fn weights_add_up_to_the_root() {
    let mut map = three_hosts();
    assert_eq!(map.bucket(-1).map(|root| root.weight), Some(12 << 16));
    let host = map.item_by_name("host1").expect("it was added");
    map.set_item_weight(5, 0x8000, host).expect("it is there");
    map.remove_item(4, host).expect("it is there");
    assert_eq!(map.bucket(host).map(|bucket| bucket.weight), Some(0x2_8000));
    assert_eq!(map.bucket(-1).map(|root| root.weight), Some(0xa_8000));
    assert_eq!(recoded(&map), Ok(map));
}

#[test]
fn a_class_has_trees_of_its_own() {
    let mut map = three_hosts();
    (0..12).for_each(|device| {
        map.set_device_class(device, if device % 2 == 0 { "hdd" } else { "ssd" }).expect("a device");
    });
    map.rebuild_class_trees().expect("all is straw2");
    let root = map.shadow(-1, "ssd").expect("it was made");
    assert_eq!(map.names.get(&root), Some(&"default~ssd".into()));
    assert_eq!(map.bucket(root).map(|root| root.weight), Some(6 << 16));
    let rule = map.add_simple_rule("ssds", RuleKind::REPLICATED, root, 1).expect("a free name");
    for x in 0..100 {
        let mut workspace = Workspace::new();
        let placed = map.do_rule(usize::from(rule), x, 3, &IN, None, &mut workspace);
        assert!(placed.len() == 3 && placed.iter().all(|device| device % 2 == 1));
    }

    // Shadows keep their ids; a class without devices is removed.
    (0..12).for_each(|device| map.set_device_class(device, "ssd").expect("a device"));
    map.rebuild_class_trees().expect("all is straw2");
    assert_eq!(map.shadow(-1, "ssd"), Some(root));
    assert_eq!(map.shadow(-1, "hdd"), None);
    assert_eq!(map.bucket(root).map(|root| root.weight), Some(12 << 16));
    assert_eq!(recoded(&map), Ok(map));
}

#[test]
fn impossible_changes_are_refused() {
    let mut map = three_hosts();
    let host = map.item_by_name("host0").expect("it was added");
    assert_eq!(map.add_bucket("host0", 1), Err(CrushBuildError::NameTaken("host0".into())));
    assert_eq!(map.insert_item(-1, 0, host), Err(CrushBuildError::BadItem(-1)));
    assert_eq!(map.insert_item(99, 0, host), Err(CrushBuildError::BadItem(99)));
    assert_eq!(map.insert_item(0, 0, host), Err(CrushBuildError::AlreadyThere { bucket: host, item: 0 }));
    assert_eq!(map.insert_item(0, 0, -77), Err(CrushBuildError::NoSuchBucket(-77)));
    assert_eq!(map, three_hosts());
}

#[test]
fn a_cycle_is_refused_when_read_and_does_no_harm_when_not() {
    let mut map = three_hosts();
    let host = map.bucket_index_of("host0");
    let bucket = map.buckets[host].as_mut().expect("it is there");
    bucket.items = vec![-1];
    bucket.alg = BucketAlg::Straw2 { item_weights: vec![0x1_0000] };
    assert!(matches!(recoded(&map), Err(DecodeError::Invalid { .. })));
    assert!(place(&map, 1, 3).len() <= 3);
}

#[test]
fn endless_tries_end() {
    let mut map = three_hosts();
    map.tunables.choose_total_tries = u32::MAX - 1;
    map.tunables.choose_local_tries = u32::MAX;
    map.tunables.choose_local_fallback_tries = u32::MAX - 100;
    // With only three hosts, the search for a fourth replica continues until the work bound is reached.
    assert!(place(&map, 1, 4).len() <= 4);
    map.tunables = Tunables { choose_total_tries: u32::MAX - 1, ..Tunables::JEWEL };
    assert_eq!(place(&map, 1, 4).len(), 3);
}

#[test]
fn endless_rules_end() {
    let mut map = three_hosts();
    let empty = map.add_bucket("empty", 1).expect("a free name");
    for (kind, steps) in [
        (RuleKind::REPLICATED, vec![StepOp::TAKE.with(empty), StepOp::CHOOSE_FIRSTN.choose(i32::MAX, 0)]),
        (RuleKind::REPLICATED, vec![StepOp::TAKE.with(-1), StepOp::CHOOSE_INDEP.choose(i32::MAX, 77)]),
        (RuleKind::MSR_INDEP, vec![StepOp::TAKE.with(empty), StepOp::CHOOSE_MSR.choose(0, 0)]),
        (RuleKind::MSR_INDEP, vec![StepOp::TAKE.with(-1), StepOp::CHOOSE_MSR.choose(-1, 0)]),
        (RuleKind::MSR_INDEP, vec![StepOp::TAKE.with(3)]),
        (RuleKind::MSR_FIRSTN, vec![StepOp::TAKE.with(-1)]),
        (RuleKind::MSR_FIRSTN, vec![StepOp::CHOOSE_MSR.choose(1, 0); 100_000]),
    ] {
        let tries = [StepOp::SET_CHOOSE_TRIES, StepOp::SET_CHOOSELEAF_TRIES].map(|op| op.with(i32::MAX));
        let mut rule = if kind.is_msr() {
            vec![StepOp::SET_MSR_DESCENTS.with(-1), StepOp::SET_MSR_COLLISION_TRIES.with(-1)]
        } else {
            tries.to_vec()
        };
        rule.extend(steps);
        rule.push(StepOp::EMIT.with(0));
        map.rules = vec![Some(Rule { kind, min_size: 1, max_size: 10, steps: rule })];
        assert!(place(&map, 1, 4).len() <= 4);
    }
}

#[test]
fn claimed_sizes_are_not_believed() {
    let mut w = Writer::new();
    w.u32(0x0001_0000);
    w.u32(u32::MAX); // buckets
    w.u32(u32::MAX); // rules
    w.i32(i32::MAX); // devices
    w.zeros(64);
    assert!(matches!(CrushMap::decode(&mut Reader::new(w.as_slice())), Err(DecodeError::Truncated { .. })));
}

/// Goal: a workspace can be used with different maps. Method: alternate between two maps that use
/// permutations.
#[test]
fn a_workspace_forgets_the_map_before() {
    let mut uniform = three_hosts();
    for bucket in uniform.buckets.iter_mut().flatten() {
        bucket.alg = BucketAlg::Uniform { item_weight: 0x1_0000 };
    }
    let mut other = uniform.clone();
    other.buckets[0].as_mut().expect("the root").items.pop();
    let mut workspace = Workspace::new();
    for x in 0..50 {
        for map in [&uniform, &other] {
            let fresh = place(map, x, 3);
            assert_eq!(map.do_rule(0, x, 3, &IN, None, &mut workspace), fresh);
        }
    }
}

impl CrushMap {
    fn bucket_index_of(&self, name: &str) -> usize {
        map::bucket_index(self.item_by_name(name).expect("a name of the map")).expect("a bucket")
    }
}
