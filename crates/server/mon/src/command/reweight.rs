//! `osd reweight-by-utilization | reweight-by-pg` and their dry runs: lower the weights of OSDs with
//! more than the average.

use std::collections::{BTreeMap, BTreeSet};

use az::SaturatingAs as _;
use loligo_maps::OsdMap;
use loligo_wire::{OsdId, PgId, PoolId};

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::number::whole;
use crate::output::json::{Node, object};

/// Percentage of the average from which an OSD is overloaded.
const OVERLOAD_DEFAULT: i64 = 120;
/// Maximum change of a weight.
const MAX_CHANGE_DEFAULT: f64 = 0.05;
/// Maximum number of weights that change.
const MAX_OSDS_DEFAULT: i64 = 4;
/// Minimum average number of placement groups of an OSD: below it the counts say too little
/// (`mon_reweight_min_pgs_per_osd`).
const MIN_PGS_PER_OSD: f64 = 10.0;
/// Minimum average of used bytes of an OSD, for the same reason (`mon_reweight_min_bytes_per_osd`).
const MIN_BYTES_PER_OSD: u64 = 100 << 20;

/// The load of an OSD.
struct Load {
    osd: OsdId,
    weight: u32,
    pgs: usize,
    utilization: f64,
}

struct Limits {
    overload: i64,
    max_change: f64,
    max_osds: usize,
    no_increasing: bool,
}

impl Limits {
    fn of(call: &Call<'_>) -> Result<Self, Failure> {
        let overload = call.args.int("oload").unwrap_or(OVERLOAD_DEFAULT);
        let max_change = call.args.float("max_change").unwrap_or(MAX_CHANGE_DEFAULT);
        let max_osds = call.args.int("max_osds").unwrap_or(MAX_OSDS_DEFAULT);
        if max_change <= 0.0 {
            return Err(Failure::invalid(format!("max_change {max_change} must be positive")));
        }
        let most = usize::try_from(max_osds).ok().filter(|n| *n > 0);
        let most = most.ok_or_else(|| Failure::invalid(format!("max_osds {max_osds} must be positive")))?;
        if overload <= 100 {
            let status = "You must give a percentage higher than 100. The reweighting threshold will be calculated as \
                          <average-utilization> times <input-percentage>. For example, an argument of 200 would \
                          reweight OSDs which are twice as utilized as the average OSD.\nFAILED reweight-by-pg";
            return Err(Failure::invalid(status));
        }
        let no_increasing = call.args.has("no_increasing");
        Ok(Self { overload, max_change, max_osds: most, no_increasing })
    }
}

pub(super) fn by_utilization(call: &mut Call<'_>) -> Outcome {
    let limits = Limits::of(call)?;
    let space = call.usage.space;
    let osds = call.state.served_osds().count().max(1);
    if space.used < MIN_BYTES_PER_OSD.saturating_mul(osds as u64) {
        let why = format!("Refusing to reweight: we only have {} kb used across all osds!", space.used >> 10);
        return Err(Failure::new(Errno::EDOM, format!("{why}\nFAILED reweight-by-pg")));
    }
    let loads = loads(call, None);
    let used = space.used_ratio();
    // All OSDs share one store in equal parts.
    let loads: Vec<Load> = loads.into_iter().map(|load| Load { utilization: used, ..load }).collect();
    reweight(call, &limits, &loads, used)
}

pub(super) fn by_pg(call: &mut Call<'_>) -> Outcome {
    let limits = Limits::of(call)?;
    let mut pools = BTreeSet::new();
    for name in call.args.texts("pools") {
        let missing = || Failure::missing(format!("pool '{name}' does not exist"));
        pools.insert(call.state.pool_id(name).map_err(|_| missing())?);
    }
    let loads = loads(call, Some(&pools).filter(|pools| !pools.is_empty()));
    let pgs: usize = loads.iter().map(|load| load.pgs).sum();
    if pgs == 0 || (pgs as f64) < MIN_PGS_PER_OSD * loads.len() as f64 {
        let why = format!("Refusing to reweight: we only have {pgs} PGs across {} osds!", loads.len());
        return Err(Failure::new(Errno::EDOM, format!("{why}\nFAILED reweight-by-pg")));
    }
    let map = call.state.osdmap();
    let weight = |osd: OsdId| crush_weight(map, osd).max(f64::MIN_POSITIVE);
    let all: f64 = loads.iter().map(|load| weight(load.osd)).sum();
    let average = pgs as f64 / all;
    let of = |load: Load| Load { utilization: load.pgs as f64 / weight(load.osd), ..load };
    let loads: Vec<Load> = loads.into_iter().map(of).collect();
    reweight(call, &limits, &loads, average)
}

fn crush_weight(map: &OsdMap, osd: OsdId) -> f64 {
    let buckets = map.crush.buckets.iter().flatten();
    let weights = buckets.filter_map(|bucket| {
        let at = bucket.items.iter().position(|item| *item == osd.0)?;
        bucket.item_weight(at)
    });
    weights.map(crate::hierarchy::fraction).next().unwrap_or_default()
}

fn loads(call: &Call<'_>, pools: Option<&BTreeSet<PoolId>>) -> Vec<Load> {
    let map = call.state.osdmap();
    let counts = counts(map, pools);
    let osds = call.state.served_osds().filter(|osd| map.is_up(*osd) && map.is_in(*osd));
    let load = |osd: OsdId| Load {
        osd,
        weight: map.weight(osd),
        pgs: counts.get(&osd).copied().unwrap_or_default(),
        utilization: 0.0,
    };
    osds.map(load).collect()
}

fn seeds<'a>(map: &'a OsdMap, pools: Option<&'a BTreeSet<PoolId>>) -> impl Iterator<Item = PgId> + 'a {
    let chosen = map.pools.iter().filter(move |(id, _)| pools.is_none_or(|pools| pools.contains(id)));
    chosen.flat_map(|(id, pool)| (0..pool.pg_num()).map(|seed| PgId { pool: *id, seed }))
}

fn counts(map: &OsdMap, pools: Option<&BTreeSet<PoolId>>) -> BTreeMap<OsdId, usize> {
    let mut counts = BTreeMap::new();
    for pg in seeds(map, pools) {
        for osd in map.pg_to_up_acting(pg).up.iter() {
            *counts.entry(*osd).or_default() += 1;
        }
    }
    counts
}

fn reweight(call: &mut Call<'_>, limits: &Limits, loads: &[Load], average: f64) -> Outcome {
    let bound = average * limits.overload as f64 / 100.0;
    let changes = changes(limits, loads, average, bound);
    let mut after = call.state.osdmap().clone();
    changes.iter().for_each(|(load, weight)| after.set_weight(load.osd, *weight));
    let moves = Moves::of(call.state.osdmap(), &after);
    let node = |_: &Call<'_>| {
        let change = |(load, weight): &(&Load, u32)| {
            object! {
                "osd": load.osd.0, "weight": crate::hierarchy::fraction(load.weight),
                "new_weight": crate::hierarchy::fraction(*weight),
            }
        };
        object! {
            "overload_min": limits.overload, "max_change": limits.max_change, "max_change_osds": limits.max_osds,
            "average_utilization": average, "overload_utilization": bound,
            "reweights": Node::array(changes.iter().map(change)), "utilization": moves.node(),
        }
    };
    let plain = |_: &Call<'_>| {
        let line = |(load, weight): &(&Load, u32)| {
            let [old, new] = [load.weight, *weight].map(crate::hierarchy::fraction);
            format!("osd.{} weight {old:.4} -> {new:.4}\n", load.osd)
        };
        format!(
            "{}\noload {}\nmax_change {}\nmax_change_osds {}\naverage_utilization {average:.4}\noverload_utilization {bound:.4}\n{}",
            moves.text(),
            limits.overload,
            limits.max_change,
            limits.max_osds,
            changes.iter().map(line).collect::<String>(),
        )
    };
    let reply = call.print(node, plain);
    if changes.is_empty() {
        return Ok(reply.with_status("no change"));
    }
    let changes: Vec<(OsdId, u32)> = changes.iter().map(|(load, weight)| (load.osd, *weight)).collect();
    if !call.args.prefix()?.starts_with("osd test-") {
        call.state.change_osdmap(call.now, |_, inc| {
            changes.iter().for_each(|(osd, weight)| inc.osd_weight(*osd, *weight));
        })?;
    }
    Ok(Reply { status: String::new(), ..reply })
}

/// The new weights, starting with the most loaded OSD. Each changes by at most one step.
fn changes<'a>(limits: &Limits, loads: &'a [Load], average: f64, bound: f64) -> Vec<(&'a Load, u32)> {
    let step = OsdMap::fixed_weight(limits.max_change);
    let mut sorted: Vec<&Load> = loads.iter().collect();
    sorted.sort_by(|a, b| b.utilization.total_cmp(&a.utilization));
    let change = |load: &&'a Load| {
        let fair = whole(f64::from(load.weight) * average / load.utilization).saturating_as::<u32>();
        let weight = match load.utilization {
            used if used >= bound => fair.max(load.weight.saturating_sub(step)),
            // Only an OSD below its full weight can take more.
            used if used > 0.0
                && used < average
                && load.weight < OsdMap::WEIGHT_IN
                && !limits.no_increasing =>
            {
                fair.min(load.weight.saturating_add(step)).min(OsdMap::WEIGHT_IN)
            }
            _ => load.weight,
        };
        (weight != load.weight).then_some((*load, weight))
    };
    sorted.iter().filter_map(change).take(limits.max_osds).collect()
}

/// The effect of new weights on placement groups.
struct Moves {
    moved: usize,
    total: usize,
    /// For each OSD that is in: its current and its new number.
    counts: Vec<(OsdId, usize, usize)>,
}

impl Moves {
    fn of(before: &OsdMap, after: &OsdMap) -> Self {
        let (mut moved, mut total) = (0, 0);
        for pg in seeds(before, None) {
            let (old, new) = (before.pg_to_up_acting(pg).up, after.pg_to_up_acting(pg).up);
            total += old.len();
            moved += old.iter().filter(|osd| !new.contains(osd)).count();
        }
        let (old, new) = (counts(before, None), counts(after, None));
        let of = |counts: &BTreeMap<OsdId, usize>, osd| counts.get(&osd).copied().unwrap_or_default();
        let inside = before.osd_ids().filter(|osd| before.is_in(*osd) && before.is_up(*osd));
        Self { moved, total, counts: inside.map(|osd| (osd, of(&old, osd), of(&new, osd))).collect() }
    }

    fn mean(&self) -> f64 {
        self.counts.iter().map(|(_, old, _)| *old as f64).sum::<f64>() / self.counts.len().max(1) as f64
    }

    fn deviation(&self, count: impl Fn(&(OsdId, usize, usize)) -> usize) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.counts.iter().map(|line| (count(line) as f64 - mean).powi(2)).sum();
        (squares / self.counts.len().max(1) as f64).sqrt()
    }

    fn expected(&self) -> f64 {
        (self.mean() * (1.0 - 1.0 / self.counts.len().max(1) as f64)).sqrt()
    }

    fn extremes(&self) -> [Option<&(OsdId, usize, usize)>; 2] {
        [self.counts.iter().min_by_key(|line| line.1), self.counts.iter().max_by_key(|line| line.1)]
    }

    fn node(&self) -> Node {
        let mut node = object! {
            "moved_pgs": self.moved, "total_pgs": self.total, "avg_pgs": self.mean(),
            "std_dev": self.deviation(|line| line.1), "expected_baseline_std_dev": self.expected(),
            "new_std_dev": self.deviation(|line| line.2),
        };
        for (word, line) in ["min", "max"].into_iter().zip(self.extremes()) {
            if let Some((osd, old, new)) = line {
                node.push(&format!("{word}_osd"), osd.0);
                node.push(&format!("{word}_osd_pgs"), *old);
                node.push(&format!("new_{word}_osd_pgs"), *new);
            }
        }
        node
    }

    fn text(&self) -> String {
        let mean = self.mean();
        let percent = if self.total == 0 { 0.0 } else { self.moved as f64 * 100.0 / self.total as f64 };
        let mut out = format!(
            "moved {} / {} ({percent}%)\navg {mean}\nstddev {} -> {} (expected baseline {})\n",
            self.moved,
            self.total,
            self.deviation(|line| line.1),
            self.deviation(|line| line.2),
            self.expected(),
        );
        for (word, line) in ["min", "max"].into_iter().zip(self.extremes()) {
            if let Some((osd, old, new)) = line {
                let part = |count: usize| if mean > 0.0 { count as f64 / mean } else { 0.0 };
                out += &format!(
                    "{word} osd.{osd} with {old} -> {new} pgs ({} -> {} * mean)\n",
                    part(*old),
                    part(*new)
                );
            }
        }
        out
    }
}
