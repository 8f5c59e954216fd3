//! Random CRUSH maps and OSD maps: every feature, no map that would crash the stock tools.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use loligo_maps::crush::{
    Bucket, BucketAlg, ChooseArg, ChooseArgs, CrushMap, DEFAULT_CHOOSE_ARGS, ITEM_NONE, Rule, RuleKind, Step,
    StepOp, Tunables,
};
use loligo_maps::{
    MapFlags, Name, ObjectHash, OsdMap, OsdState, PeeringCrush, PgPool, PoolFlags, PoolKind, PoolOpt,
    PoolOptKey, PoolSnap, ShardSet,
};
use loligo_wire::{
    AddrKind, EntityAddr, EntityAddrVec, Epoch, Eversion, OsdId, PgId, PoolId, SnapId, UTime, Uuid,
};

use crate::rng::Rng;

const HOST: u16 = 1;
const RACK: u16 = 2;
const ROOT: u16 = 3;

/// What a random CRUSH map is for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Shape {
    /// Anything: empty buckets, devices at every level, all rule steps.
    Wild,
    /// Every device below a host below a rack below a root, for multi-step-retry rules: those crash in other maps.
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
            // But never none: `crushtool` says nothing of a map without any bucket.
            devices.retain(|device| *device == 0 || self.rng.chance(95));
        }
        for device in &devices {
            self.map.names.insert(*device, format!("osd.{device}").into());
        }
        let hosts = self.level(HOST, &devices, 6);
        let racks = self.level(RACK, &hosts, 4);
        self.level(ROOT, &racks, 5);
    }

    /// Puts `items` into new buckets of type `kind`, and in wild maps leaves some for the next level. Returns what the next
    /// level can hold.
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
            // A stock tree that weighs nothing reads beyond its items.
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
        // `crushtool` asks for those of pool 0, and gets the default ones if there are none.
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

    /// Classes decide nothing by themselves, but must survive the way.
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

/// The weights of a tree bucket's nodes.
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

/// A random OSD map over a random CRUSH map. `release` decides what may be in it.
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
        *state = OsdState(*rng.pick(&[3, 3, 3, 3, 3, 3, 3, 1, 0]));
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
            pool.flags = pool.flags.with(PoolFlags::EC_OPTIMIZATIONS);
        }
    }
    pool
}

/// Temporary and explicit placements of some of a pool's PGs.
fn exceptions(rng: &mut Rng, map: &mut OsdMap, pool: PoolId, size: usize, release: u32) {
    let max_osd = map.max_osd() as i32;
    let pg_num = map.pools[&pool].pg_num();
    let is_erasure = map.pools[&pool].is_erasure();
    let osds = |rng: &mut Rng| -> Vec<OsdId> {
        let hole = |rng: &mut Rng| is_erasure && rng.chance(10);
        (0..size).map(|_| if hole(rng) { OsdId(ITEM_NONE) } else { OsdId(rng.range(0, max_osd)) }).collect()
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

/// Fills the parts of a map that decide no placement.
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
    map.flags = MapFlags::SORTBITWISE.with(MapFlags::RECOVERY_DELETES).with(MapFlags::PGLOG_HARDLIMIT);
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
    pool.flags = pool.flags.with(PoolFlags::POOL_SNAPS);
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
    // Of one form in release 16 to 18, of another in 20.
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
