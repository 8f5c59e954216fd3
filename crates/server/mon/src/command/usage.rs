//! `df`, `pg stat`: the usage of the store and of pools.

use std::collections::BTreeMap;

use az::SaturatingAs as _;
use loligo_wire::message::osd::ObjectStatSum;
use loligo_wire::{OsdId, PgId, PoolId};

use super::{Call, Outcome};
use crate::Space;
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};
use crate::output::units::{bytes, count, percent};
use crate::text;

/// The state of a placement group without running scrubs and without errors.
const CLEAN: &str = "active+clean";

/// The sums over all pools.
pub(super) struct Totals {
    pub(super) pools: usize,
    pub(super) pgs: u32,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) space: Space,
    states: Vec<(String, u32)>,
}

impl Totals {
    pub(super) fn of(call: &Call<'_>) -> Self {
        let map = call.state.osdmap();
        let sums: Vec<_> = map.pools.keys().map(|id| call.usage.pool(*id)).collect();
        Self {
            pools: map.pools.len(),
            pgs: map.pools.values().map(|pool| pool.pg_num()).sum(),
            objects: sums.iter().map(|sum| positive(sum.num_objects)).sum(),
            bytes: sums.iter().map(|sum| positive(sum.num_bytes)).sum(),
            space: call.usage.space,
            states: states(call),
        }
    }

    /// Counts the placement groups that have a copy on an OSD.
    pub(super) fn pgs_on(call: &Call<'_>, osd: OsdId) -> PgsOn {
        let map = call.state.osdmap();
        let seeds =
            map.pools.iter().flat_map(|(id, pool)| (0..pool.pg_num()).map(|seed| PgId { pool: *id, seed }));
        seeds.fold(PgsOn::default(), |mut on, pg| {
            let placed = map.pg_to_up_acting(pg);
            on.all += u32::from(placed.acting.contains(&osd));
            on.primary += u32::from(placed.acting_primary == Some(osd));
            on
        })
    }

    /// The number of placement groups in each state, such as `33 active+clean`, in descending order;
    /// empty without pools.
    pub(super) fn pg_states(&self) -> &[(String, u32)] {
        &self.states
    }

    pub(super) fn usage(&self) -> String {
        let Space { total, used } = self.space;
        format!("{} used, {} / {} avail", bytes(used), bytes(self.space.available()), bytes(total))
    }
}

fn states(call: &Call<'_>) -> Vec<(String, u32)> {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    let all: u32 = call.state.osdmap().pools.values().map(|pool| pool.pg_num()).sum();
    let special = call.pgs.placement_groups().into_iter().map(|pg| pg.state()).filter(|state| state != CLEAN);
    special.for_each(|state| *counts.entry(state).or_default() += 1);
    let clean = all.saturating_sub(counts.values().sum());
    counts.insert(CLEAN.to_owned(), clean);
    let mut states: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    states.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    states
}

/// The number of placement groups on an OSD.
#[derive(Clone, Copy, Default)]
pub(super) struct PgsOn {
    pub(super) all: u32,
    /// The placement groups for which clients contact it.
    pub(super) primary: u32,
}

fn positive(n: i64) -> u64 {
    n.max(0).cast_unsigned()
}

/// The usage of a pool.
struct Line {
    name: String,
    id: PoolId,
    pgs: u32,
    sum: ObjectStatSum,
    quota_objects: u64,
    quota_bytes: u64,
}

fn lines(call: &Call<'_>) -> Vec<Line> {
    let map = call.state.osdmap();
    let line = |(id, pool): (&PoolId, &loligo_maps::PgPool)| Line {
        name: map.pool_name(*id).map(text::of).unwrap_or_default(),
        id: *id,
        pgs: pool.pg_num(),
        sum: call.usage.pool(*id),
        quota_objects: pool.quota_max_objects,
        quota_bytes: pool.quota_max_bytes,
    };
    map.pools.iter().map(line).collect()
}

impl Line {
    /// Bytes of data and omap.
    fn stored(&self) -> u64 {
        positive(self.sum.num_bytes) + positive(self.sum.num_omap_bytes)
    }

    /// The used fraction of the space that the pool could use.
    fn ratio(&self, space: Space) -> f64 {
        let reachable = self.stored() + space.available();
        if reachable == 0 { 0.0 } else { self.stored() as f64 / reachable as f64 }
    }
}

pub(super) fn df(call: &mut Call<'_>) -> Outcome {
    let detail = call.args.text("detail") == Some("detail");
    Ok(call.print(|call| df_node(call, detail), |call| df_text(call, detail)))
}

fn df_node(call: &Call<'_>, detail: bool) -> Node {
    let space = call.usage.space;
    object! {
        "stats": object! {
            "total_bytes": space.total,
            "total_avail_bytes": space.available(),
            "total_used_bytes": space.used,
            "total_used_raw_bytes": space.used,
            "total_used_raw_ratio": space.used_ratio(),
            "num_osds": call.state.served_osds().count(),
            "num_per_pool_osds": 0,
            "num_per_pool_omap_osds": 0,
        },
        "stats_by_class": object! {},
        "pools": Node::array(lines(call).iter().map(|line| pool_node(line, space, detail))),
    }
}

fn pool_node(line: &Line, space: Space, detail: bool) -> Node {
    let Line { sum, .. } = line;
    let mut stats = object! { "stored": line.stored() };
    if detail {
        stats.push("stored_data", sum.num_bytes);
        stats.push("stored_omap", sum.num_omap_bytes);
    }
    stats.push("objects", sum.num_objects);
    stats.push("kb_used", line.stored().div_ceil(1024));
    stats.push("bytes_used", line.stored());
    if detail {
        stats.push("data_bytes_used", sum.num_bytes);
        stats.push("omap_bytes_used", sum.num_omap_bytes);
    }
    stats.push("percent_used", line.ratio(space));
    stats.push("max_avail", space.available());
    if detail {
        let rest = [
            ("quota_objects", line.quota_objects.saturating_as::<i64>()),
            ("quota_bytes", line.quota_bytes.saturating_as::<i64>()),
            ("dirty", sum.num_objects_dirty),
            ("rd", sum.num_rd),
            ("rd_bytes", sum.num_rd_kb << 10),
            ("wr", sum.num_wr),
            ("wr_bytes", sum.num_wr_kb << 10),
            ("compress_bytes_used", 0),
            ("compress_under_bytes", 0),
            ("stored_raw", line.stored().saturating_as::<i64>()),
            ("avail_raw", space.available().saturating_as::<i64>()),
        ];
        rest.into_iter().for_each(|(name, value)| stats.push(name, value));
    }
    object! { "name": line.name.as_str(), "id": line.id.0, "stats": stats }
}

fn df_text(call: &Call<'_>, detail: bool) -> String {
    use Align::{Left, Right};
    let space = call.usage.space;
    let titles = ["SIZE", "AVAIL", "USED", "RAW USED", "%RAW USED"].map(|title| (title, Right));
    let mut raw = Table::new([("CLASS", Left)].into_iter().chain(titles));
    let used = bytes(space.used);
    raw.row([
        "TOTAL".to_owned(),
        bytes(space.total),
        bytes(space.available()),
        used.clone(),
        used,
        percent(space.used_ratio()),
    ]);

    let more = if detail { &["RD_OPS", "RD", "WR_OPS", "WR"][..] } else { &[] };
    let always = ["ID", "PGS", "STORED", "OBJECTS", "USED", "%USED", "MAX AVAIL"];
    let titles = always.iter().chain(more).map(|title| (*title, Right));
    let mut pools = Table::new([("POOL", Left)].into_iter().chain(titles));
    for line in lines(call) {
        let sum = &line.sum;
        let mut row = vec![
            line.name.clone(),
            line.id.to_string(),
            line.pgs.to_string(),
            bytes(line.stored()),
            count(positive(sum.num_objects)),
            bytes(line.stored()),
            percent(line.ratio(space)),
            bytes(space.available()),
        ];
        for (ops, kb) in [(sum.num_rd, sum.num_rd_kb), (sum.num_wr, sum.num_wr_kb)] {
            row.extend([count(positive(ops)), bytes(positive(kb) << 10)]);
        }
        pools.row(row);
    }
    format!("--- RAW STORAGE ---\n{raw} \n--- POOLS ---\n{pools}")
}

pub(super) fn pg_stat(call: &mut Call<'_>) -> Outcome {
    let totals = Totals::of(call);
    let state = |(name, num): &(String, u32)| object! { "name": name.as_str(), "num": *num };
    let node = |_: &Call<'_>| {
        object! {
            "pg_ready": true,
            "pg_summary": object! {
                "num_pg_by_state": Node::array(totals.pg_states().iter().map(state)),
                "num_pgs": totals.pgs,
                "num_bytes": totals.bytes,
                "total_bytes": totals.space.total,
                "total_avail_bytes": totals.space.available(),
                "total_used_bytes": totals.space.used,
                "total_used_raw_bytes": totals.space.used,
            },
        }
    };
    let plain = |_: &Call<'_>| {
        let states: Vec<_> = totals.pg_states().iter().map(|(name, num)| format!("{num} {name}")).collect();
        format!(
            "{} pgs: {}; {} data, {}\n",
            totals.pgs,
            states.join(", "),
            bytes(totals.bytes),
            totals.usage()
        )
    };
    Ok(call.print(node, plain))
}
