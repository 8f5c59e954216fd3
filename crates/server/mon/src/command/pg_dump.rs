//! `pg dump`: the statistics of each placement group, and their sums. In Ceph, the manager answers it.

use loligo_wire::message::osd::ObjectStatSum;
use loligo_wire::{OsdId, PgId, PoolId, UTime};

use super::osd_df::space_fields;
use super::usage::Totals;
use super::{Call, Outcome};
use crate::output::Format;
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};
use crate::output::units::{bytes, stamp};
use crate::state::State;
use crate::{PgUsage, Space};

/// The parts that `pg dump_json` accepts.
pub(super) const JSON_PARTS: [&str; 6] = ["all", "summary", "sum", "pools", "osds", "pgs"];

/// The parts that `pg dump` accepts.
pub(super) const PARTS: [&str; 8] = ["all", "summary", "sum", "delta", "pools", "osds", "pgs", "pgs_brief"];

/// The note below tables with omap statistics.
pub(super) const OMAP_NOTE: &str =
    "\n* NOTE: Omap statistics are counted as they change, not gathered during deep scrub.\n";

/// Titles of the columns with sums, for pools and for placement groups.
const SUM_TITLES: [&str; 10] = [
    "OBJECTS",
    "MISSING_ON_PRIMARY",
    "DEGRADED",
    "MISPLACED",
    "UNFOUND",
    "BYTES",
    "OMAP_BYTES*",
    "OMAP_KEYS*",
    "LOG",
    "DISK_LOG",
];

/// The requested parts.
struct Wanted<'a>(Vec<&'a str>);

impl Wanted<'_> {
    fn has(&self, part: &str) -> bool {
        self.0.contains(&part)
    }

    fn all(&self) -> bool {
        self.has("all")
    }

    /// Whether the whole map or its sums are requested.
    fn map(&self) -> bool {
        self.all() || self.has("sum") || self.has("summary")
    }
}

/// `pg dump_json`: the same, always in a structured format.
pub(super) fn dump_json(call: &mut Call<'_>) -> Outcome {
    if call.format == Format::Plain {
        call.format = Format::Json;
    }
    dump(call)
}

/// `pg dump_pools_json`: the pools only, always in a structured format.
pub(super) fn dump_pools(call: &mut Call<'_>) -> Outcome {
    if call.format == Format::Plain {
        call.format = Format::Json;
    }
    let pgs = call.pgs.placement_groups();
    let reply = call.print_json(&object! { "pg_ready": true, "pool_stats": pool_stats(call, &pgs) });
    Ok(reply.with_status("dumped pools"))
}

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let mut wanted = Wanted(call.args.texts("dumpcontents"));
    if wanted.0.is_empty() {
        wanted.0.push("all");
    }
    let pgs = call.pgs.placement_groups();
    let reply = call.print(|call| describe(call, &pgs, &wanted), |call| text(call, &pgs, &wanted));
    Ok(reply.with_status(format!("dumped {}", wanted.0.join(","))))
}

fn describe(call: &Call<'_>, pgs: &[PgUsage], wanted: &Wanted<'_>) -> Node {
    let mut node = object! { "pg_ready": true };
    if wanted.map() {
        let mut map = object! {
            "version": call.state.osdmap().epoch.0,
            "stamp": stamp(call.now),
            "last_osdmap_epoch": 0,
            "last_pg_scan": 0,
            "pg_stats_sum": sums(pgs),
            "osd_stats_sum": osd_stat(call, None),
            "pg_stats_delta": delta(),
        };
        if wanted.all() {
            map.push("pg_stats", Node::array(pgs.iter().map(|pg| pg_stat(call.state, call.now, pg))));
            map.push("pool_stats", pool_stats(call, pgs));
            map.push("osd_stats", osd_stats(call));
            map.push("pool_statfs", Vec::new());
        }
        node.push("pg_map", map);
        return node;
    }
    if wanted.has("delta") {
        node.push("pg_stats_delta", delta());
    }
    if wanted.has("pools") {
        node.push("pool_stats", pool_stats(call, pgs));
    }
    if wanted.has("osds") {
        node.push("osd_stats", osd_stats(call));
        node.push("pool_statfs", Vec::new());
    }
    if wanted.has("pgs") {
        node.push("pg_stats", Node::array(pgs.iter().map(|pg| pg_stat(call.state, call.now, pg))));
    }
    if wanted.has("pgs_brief") {
        node.push("pg_stats", Node::array(pgs.iter().map(|pg| brief(call, pg))));
    }
    node
}

/// The rates. None are measured.
fn delta() -> Node {
    let mut node = sums(&[]);
    node.push("stamp_delta", "0.000000");
    node
}

pub(super) fn pool_stats(call: &Call<'_>, pgs: &[PgUsage]) -> Node {
    let of = |id: &PoolId| {
        let own: Vec<PgUsage> = pgs.iter().filter(|pg| pg.pg.pool == *id).copied().collect();
        let mut node = object! { "poolid": id.0, "num_pg": own.len() };
        if let Node::Object(fields) = sums(&own) {
            fields.into_iter().for_each(|(name, value)| node.push(&name, value));
        }
        node
    };
    Node::array(call.state.osdmap().pools.keys().map(of))
}

/// The sums over some placement groups.
pub(super) fn sums(pgs: &[PgUsage]) -> Node {
    let entries: u64 = pgs.iter().map(|pg| pg.log_entries).sum();
    object! {
        "stat_sum": stat_sum(&total(pgs)), "store_stats": statfs(0, 0),
        "log_size": entries, "ondisk_log_size": entries, "up": pgs.len(), "acting": pgs.len(), "num_store_stats": 0,
    }
}

/// Sums the statistics that are maintained here.
fn total(pgs: &[PgUsage]) -> ObjectStatSum {
    pgs.iter().map(|pg| pg.sum).fold(ObjectStatSum::default(), |all, pg| ObjectStatSum {
        num_bytes: all.num_bytes + pg.num_bytes,
        num_objects: all.num_objects + pg.num_objects,
        num_object_copies: all.num_object_copies + pg.num_object_copies,
        num_rd: all.num_rd + pg.num_rd,
        num_rd_kb: all.num_rd_kb + pg.num_rd_kb,
        num_wr: all.num_wr + pg.num_wr,
        num_wr_kb: all.num_wr_kb + pg.num_wr_kb,
        num_omap_bytes: all.num_omap_bytes + pg.num_omap_bytes,
        num_omap_keys: all.num_omap_keys + pg.num_omap_keys,
        num_scrub_errors: all.num_scrub_errors + pg.num_scrub_errors,
        num_shallow_scrub_errors: all.num_shallow_scrub_errors + pg.num_shallow_scrub_errors,
        num_deep_scrub_errors: all.num_deep_scrub_errors + pg.num_deep_scrub_errors,
        ..all
    })
}

pub(super) fn pg_stat(state: &State, now: UTime, pg: &PgUsage) -> Node {
    let map = state.osdmap();
    let (now, since) = (stamp(now), stamp(state.started()));
    let created = map.pool(pg.pg.pool).map_or(0, |pool| pool.last_change.0);
    let mut node = object! {
        "pgid": name(pg.pg),
        "version": pg.version.to_string(),
        "reported_seq": pg.version.version,
        "reported_epoch": map.epoch.0,
        "state": pg.state(),
    };
    for (field, moment) in [
        ("last_fresh", &now),
        ("last_change", &since),
        ("last_active", &now),
        ("last_peered", &now),
        ("last_clean", &now),
        ("last_became_active", &since),
        ("last_became_peered", &since),
        ("last_unstale", &now),
        ("last_undegraded", &now),
        ("last_fullsized", &now),
    ] {
        node.push(field, moment.as_str());
    }
    node.push("mapping_epoch", created);
    node.push("log_start", "0'0");
    node.push("ondisk_log_start", "0'0");
    node.push("created", created);
    node.push("last_epoch_clean", created);
    node.push("parent", "0.0");
    node.push("parent_split_bits", 0);
    scrub_fields(&mut node, state, pg);
    node.push("log_size", pg.log_entries);
    node.push("ondisk_log_size", pg.log_entries);
    for field in [
        "stats_invalid",
        "dirty_stats_invalid",
        "omap_stats_invalid",
        "hitset_stats_invalid",
        "hitset_bytes_stats_invalid",
        "pin_stats_invalid",
        "manifest_stats_invalid",
    ] {
        node.push(field, false);
    }
    node.push("snaptrimq_len", 0);
    node.push("stat_sum", stat_sum(&pg.sum));
    let Node::Object(placed) = placement(state, pg.pg) else { return node };
    let (sets, primaries) = placed.split_at(2);
    sets.iter().for_each(|(name, value)| node.push(name, value.clone()));
    for field in ["avail_no_missing", "object_location_counts", "blocked_by"] {
        node.push(field, Vec::new());
    }
    primaries.iter().for_each(|(name, value)| node.push(name, value.clone()));
    node.push("purged_snaps", Vec::new());
    node
}

/// Adds the fields on a placement group's scrubs, which several outputs share.
pub(super) fn scrub_fields(node: &mut Node, state: &State, pg: &PgUsage) {
    let [at, deep_at, clean_at] = scrub_stamps(state, pg);
    let scrubs = &pg.scrubs;
    for (field, value) in [
        ("last_scrub", scrubs.version.to_string()),
        ("last_scrub_stamp", at),
        ("last_deep_scrub", scrubs.deep_version.to_string()),
        ("last_deep_scrub_stamp", deep_at),
        ("last_clean_scrub_stamp", clean_at),
    ] {
        node.push(field, value);
    }
}

/// When the latest scrub, deep scrub and scrub without errors ended; the pool's creation if there was
/// none.
pub(super) fn scrub_stamps(state: &State, pg: &PgUsage) -> [String; 3] {
    scrub_times(state, pg).map(stamp)
}

/// The same, as times.
pub(super) fn scrub_times(state: &State, pg: &PgUsage) -> [UTime; 3] {
    let created = state.osdmap().pool(pg.pg.pool).map(|pool| pool.create_time).unwrap_or_default();
    [pg.scrubs.at, pg.scrubs.deep_at, pg.scrubs.clean_at].map(|at| at.max(created))
}

fn brief(call: &Call<'_>, pg: &PgUsage) -> Node {
    let mut node = object! { "pgid": name(pg.pg), "state": pg.state() };
    let Node::Object(placed) = placement(call.state, pg.pg) else { return node };
    placed.iter().for_each(|(name, value)| node.push(name, value.clone()));
    node
}

fn placement(state: &State, pg: PgId) -> Node {
    let placed = state.osdmap().pg_to_up_acting(pg);
    let numbers = |osds: &[OsdId]| Node::array(osds.iter().map(|osd| osd.0));
    object! {
        "up": numbers(&placed.up), "acting": numbers(&placed.acting),
        "up_primary": number(placed.up_primary), "acting_primary": number(placed.acting_primary),
    }
}

/// Returns -1 for none.
fn number(osd: Option<OsdId>) -> i32 {
    osd.map_or(-1, |osd| osd.0)
}

/// `POOL.SEED`, the seed in hexadecimal.
fn name(pg: PgId) -> String {
    pg.to_string()
}

/// The statistics, in the order of a stock manager.
fn stat_sum(sum: &ObjectStatSum) -> Node {
    let fields = [
        ("num_bytes", sum.num_bytes),
        ("num_objects", sum.num_objects),
        ("num_object_clones", sum.num_object_clones),
        ("num_object_copies", sum.num_object_copies),
        ("num_objects_missing_on_primary", sum.num_objects_missing_on_primary),
        ("num_objects_missing", sum.num_objects_missing),
        ("num_objects_degraded", sum.num_objects_degraded),
        ("num_objects_misplaced", sum.num_objects_misplaced),
        ("num_objects_unfound", sum.num_objects_unfound),
        ("num_objects_dirty", sum.num_objects_dirty),
        ("num_whiteouts", sum.num_whiteouts),
        ("num_read", sum.num_rd),
        ("num_read_kb", sum.num_rd_kb),
        ("num_write", sum.num_wr),
        ("num_write_kb", sum.num_wr_kb),
        ("num_scrub_errors", sum.num_scrub_errors),
        ("num_shallow_scrub_errors", sum.num_shallow_scrub_errors),
        ("num_deep_scrub_errors", sum.num_deep_scrub_errors),
        ("num_objects_recovered", sum.num_objects_recovered),
        ("num_bytes_recovered", sum.num_bytes_recovered),
        ("num_keys_recovered", sum.num_keys_recovered),
        ("num_objects_omap", sum.num_objects_omap),
        ("num_objects_hit_set_archive", sum.num_objects_hit_set_archive),
        ("num_bytes_hit_set_archive", sum.num_bytes_hit_set_archive),
        ("num_flush", sum.num_flush),
        ("num_flush_kb", sum.num_flush_kb),
        ("num_evict", sum.num_evict),
        ("num_evict_kb", sum.num_evict_kb),
        ("num_promote", sum.num_promote),
        ("num_flush_mode_high", sum.num_flush_mode_high.into()),
        ("num_flush_mode_low", sum.num_flush_mode_low.into()),
        ("num_evict_mode_some", sum.num_evict_mode_some.into()),
        ("num_evict_mode_full", sum.num_evict_mode_full.into()),
        ("num_objects_pinned", sum.num_objects_pinned),
        ("num_legacy_snapsets", sum.num_legacy_snapsets),
        ("num_large_omap_objects", sum.num_large_omap_objects),
        ("num_objects_manifest", sum.num_objects_manifest),
        ("num_omap_bytes", sum.num_omap_bytes),
        ("num_omap_keys", sum.num_omap_keys),
        ("num_objects_repaired", sum.num_objects_repaired),
    ];
    Node::map(fields)
}

fn statfs(total: u64, available: u64) -> Node {
    let mut node = object! { "total": total, "available": available };
    for field in [
        "internally_reserved",
        "allocated",
        "data_stored",
        "data_compressed",
        "data_compressed_allocated",
        "data_compressed_original",
        "omap_allocated",
        "internal_metadata",
    ] {
        node.push(field, 0);
    }
    node
}

fn osd_stats(call: &Call<'_>) -> Node {
    Node::array(call.state.osdmap().osd_ids().map(|id| osd_stat(call, Some(id))))
}

/// The statistics of one OSD, or of all.
pub(super) fn osd_stat(call: &Call<'_>, osd: Option<OsdId>) -> Node {
    let map = call.state.osdmap();
    let osds = map.osd_ids().count();
    let (space, pgs, count) = match osd {
        Some(osd) => (call.usage.space.of_one(osds), Totals::pgs_on(call, osd).all, 1),
        None => (call.usage.space, map.osd_ids().map(|osd| Totals::pgs_on(call, osd).all).sum(), osds as u64),
    };
    let mut node = Node::Object(Vec::new());
    if let Some(osd) = osd {
        node.push("osd", osd.0);
    }
    let up_from = osd.and_then(|osd| map.osd(osd)).map_or(0, |osd| osd.info.up_from.0);
    let fields = [
        ("up_from", u64::from(up_from)),
        ("seq", 0),
        ("num_pgs", u64::from(pgs)),
        ("num_osds", count),
        ("num_per_pool_osds", 0),
        ("num_per_pool_omap_osds", 0),
    ];
    fields.into_iter().for_each(|(name, value)| node.push(name, value));
    space_fields(&mut node, "", space);
    node.push("statfs", statfs(space.total, space.available()));
    node.push("hb_peers", Vec::new());
    for field in ["snap_trim_queue_len", "num_snap_trimming", "num_shards_repaired"] {
        node.push(field, 0);
    }
    node.push("op_queue_age_hist", object! { "histogram": Vec::new(), "upper_bound": 1 });
    let perf = ["commit_latency_ms", "apply_latency_ms", "commit_latency_ns", "apply_latency_ns"];
    node.push("perf_stat", Node::map(perf.map(|name| (name, 0))));
    node.push("alerts", Vec::new());
    node.push("network_ping_times", Vec::new());
    node
}

fn text(call: &Call<'_>, pgs: &[PgUsage], wanted: &Wanted<'_>) -> String {
    let mut text = String::new();
    let mut has_sums = false;
    if wanted.map() {
        text = format!(
            "version {}\nstamp {}\nlast_osdmap_epoch 0\nlast_pg_scan 0\n",
            call.state.osdmap().epoch,
            stamp(call.now)
        );
        has_sums = true;
    }
    if wanted.all() || wanted.has("pgs") {
        text += &(pgs_text(call, pgs) + "\n");
        has_sums = true;
    }
    if wanted.has("pgs_brief") {
        text += &brief_text(call, pgs);
    }
    if wanted.all() || wanted.has("pools") {
        text += &(pools_text(call, pgs) + "\n");
        has_sums = true;
    }
    if wanted.map() {
        let mut table = sum_table("PG_STAT", Align::Left);
        table.row(std::iter::once("sum".to_owned()).chain(sum_cells(pgs)));
        text += &format!("{table}{}", if wanted.all() { "\n" } else { "" });
    }
    if wanted.all() || wanted.has("osds") {
        text += &osds_text(call);
    } else if wanted.map() {
        text += &space_text(call);
    }
    if has_sums {
        text += OMAP_NOTE;
    }
    text
}

fn sum_table(first: &'static str, align: Align) -> Table {
    Table::new([(first, align)].into_iter().chain(SUM_TITLES.map(|title| (title, Align::BelowLeft))))
}

pub(super) fn sum_cells(pgs: &[PgUsage]) -> Vec<String> {
    let (sum, log): (_, u64) = (total(pgs), pgs.iter().map(|pg| pg.log_entries).sum());
    let numbers = [sum.num_objects, 0, 0, 0, 0, sum.num_bytes, sum.num_omap_bytes, sum.num_omap_keys];
    numbers.iter().map(ToString::to_string).chain([log.to_string(), log.to_string()]).collect()
}

fn pools_text(call: &Call<'_>, pgs: &[PgUsage]) -> String {
    let mut table = sum_table("POOLID", Align::Left);
    for id in call.state.osdmap().pools.keys() {
        let own: Vec<PgUsage> = pgs.iter().filter(|pg| pg.pg.pool == *id).copied().collect();
        table.row(std::iter::once(id.to_string()).chain(sum_cells(&own)));
    }
    table.to_string()
}

/// The up and acting OSDs, each as a list in brackets followed by the primary.
pub(super) fn placed_cells(call: &Call<'_>, pg: PgId) -> [String; 4] {
    let placed = call.state.osdmap().pg_to_up_acting(pg);
    let listed = |osds: &[OsdId]| {
        let each: Vec<_> = osds.iter().map(|osd| osd.0.to_string()).collect();
        format!("[{}]", each.join(","))
    };
    let (up, acting) = (listed(&placed.up), listed(&placed.acting));
    [up, number(placed.up_primary).to_string(), acting, number(placed.acting_primary).to_string()]
}

fn pgs_text(call: &Call<'_>, pgs: &[PgUsage]) -> String {
    use Align::{BelowLeft, Left};
    let more = [
        ("STATE", Left),
        ("STATE_STAMP", Left),
        ("VERSION", BelowLeft),
        ("REPORTED", BelowLeft),
        ("UP", Left),
        ("UP_PRIMARY", BelowLeft),
        ("ACTING", BelowLeft),
        ("ACTING_PRIMARY", BelowLeft),
        ("LAST_SCRUB", BelowLeft),
        ("SCRUB_STAMP", Left),
        ("LAST_DEEP_SCRUB", BelowLeft),
        ("DEEP_SCRUB_STAMP", Left),
        ("SNAPTRIMQ_LEN", BelowLeft),
    ];
    let sums = SUM_TITLES.map(|title| (title, BelowLeft));
    let mut table = Table::new([("PG_STAT", Left)].into_iter().chain(sums).chain(more));
    let (epoch, since) = (call.state.osdmap().epoch, stamp(call.state.started()));
    for pg in pgs {
        let [up, up_primary, acting, acting_primary] = placed_cells(call, pg.pg);
        let [scrubbed, deeply, _] = scrub_stamps(call.state, pg);
        let rest = [
            pg.state(),
            since.clone(),
            pg.version.to_string(),
            format!("{epoch}:{}", pg.version.version),
            up,
            up_primary,
            acting,
            acting_primary,
            pg.scrubs.version.to_string(),
            scrubbed,
            pg.scrubs.deep_version.to_string(),
            deeply,
            "0".to_owned(),
        ];
        let sums = sum_cells(std::slice::from_ref(pg));
        table.row(std::iter::once(name(pg.pg)).chain(sums).chain(rest));
    }
    table.to_string()
}

fn brief_text(call: &Call<'_>, pgs: &[PgUsage]) -> String {
    use Align::{BelowLeft, Left};
    let titles = [
        ("PG_STAT", Left),
        ("STATE", Left),
        ("UP", Left),
        ("UP_PRIMARY", BelowLeft),
        ("ACTING", BelowLeft),
        ("ACTING_PRIMARY", BelowLeft),
    ];
    let mut table = Table::new(titles);
    for pg in pgs {
        table.row([name(pg.pg), pg.state()].into_iter().chain(placed_cells(call, pg.pg)));
    }
    table.to_string()
}

fn osds_text(call: &Call<'_>) -> String {
    let titles = ["USED", "AVAIL", "USED_RAW", "TOTAL", "HB_PEERS", "PG_SUM", "PRIMARY_PG_SUM"];
    let right = titles.map(|title| (title, Align::BelowLeft));
    let mut table = Table::new([("OSD_STAT", Align::Left)].into_iter().chain(right));
    let one = call.usage.space.of_one(call.state.osdmap().osd_ids().count());
    for osd in call.state.osdmap().osd_ids() {
        let pgs = Totals::pgs_on(call, osd);
        let rest = ["[]".to_owned(), pgs.all.to_string(), pgs.primary.to_string()];
        table.row(std::iter::once(osd.0.to_string()).chain(space_cells(one)).chain(rest));
    }
    table.row(std::iter::once("sum".to_owned()).chain(space_cells(call.usage.space)));
    table.to_string()
}

fn space_text(call: &Call<'_>) -> String {
    let right = ["USED", "AVAIL", "USED_RAW", "TOTAL"].map(|title| (title, Align::BelowLeft));
    let mut table = Table::new([("OSD_STAT", Align::Left)].into_iter().chain(right));
    table.row(std::iter::once("sum".to_owned()).chain(space_cells(call.usage.space)));
    table.to_string()
}

fn space_cells(space: Space) -> [String; 4] {
    [space.used, space.available(), space.used, space.total].map(bytes)
}
