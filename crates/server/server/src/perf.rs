//! `perf dump | schema`: counters under Ceph's names, as far as the server has them.

use std::sync::Arc;

use loligo_admin::{Admin, Request};
use loligo_mon::object;
use loligo_mon::output::json::Node;
use loligo_osd::{Osd, PoolStats};

use crate::tell::render::{Shape, shaped};

const SHAPE: Shape = Shape::of("perfcounter_collection");
/// Stock's metric types: a number that only grows, and one that can fall.
const COUNTER: (i64, &str) = (10, "counter");
const GAUGE: (i64, &str) = (2, "gauge");

/// Adds the commands of an OSD.
pub(crate) fn register(admin: &Admin, osd: Arc<Osd>) {
    add(admin, move || dump(&osd));
}

/// Adds the commands of the monitor, with its counters of the cluster.
pub(crate) fn register_mon(admin: &Admin, osd: Arc<Osd>) {
    add(admin, move || cluster(&osd));
}

fn add(admin: &Admin, dump: impl Fn() -> Node + Send + Sync + 'static) {
    let dump = Arc::new(dump);
    for prefix in ["perf dump", "perfcounters_dump"] {
        let dump = Arc::clone(&dump);
        let command =
            shaped(prefix, "Counts since the start.", SHAPE, move |request| Ok(chosen(dump(), request)));
        admin.command(command.optional("logger", &[]).optional("counter", &[]));
    }
    for prefix in ["perf schema", "perfcounters_schema"] {
        let dump = Arc::clone(&dump);
        let run = move |request: &Request| Ok(schema(chosen(dump(), request)));
        let command = shaped(prefix, "What is counted.", SHAPE, run);
        admin.command(command.optional("logger", &[]).optional("counter", &[]));
    }
}

/// Keeps the group and the counter that a request names; all of them if it names none.
fn chosen(node: Node, request: &Request) -> Node {
    let only = |node: Node, name: Option<&str>| match (node, name) {
        (Node::Object(fields), Some(name)) if !name.is_empty() => {
            Node::Object(fields.into_iter().filter(|(field, _)| field == name).collect())
        }
        (node, _) => node,
    };
    match only(node, request.arg("logger")) {
        Node::Object(groups) => {
            Node::map(groups.into_iter().map(|(name, group)| (name, only(group, request.arg("counter")))))
        }
        other => other,
    }
}

fn schema(node: Node) -> Node {
    let Node::Object(groups) = node else { return node };
    let describe = |name: &str| {
        let is_gauge = name.starts_with("stat_") || name.starts_with("num_") || name.starts_with("osd_bytes");
        let (number, kind) = if is_gauge { GAUGE } else { COUNTER };
        object! {
            "type": number, "metric_type": kind, "value_type": "integer", "description": "", "nick": "",
            "priority": 0, "units": if name.contains("bytes") { "bytes" } else { "none" },
        }
    };
    Node::map(groups.into_iter().map(|(name, group)| match group {
        Node::Object(fields) => (name, Node::map(fields.iter().map(|(field, _)| (field, describe(field))))),
        other => (name, other),
    }))
}

fn dump(osd: &Osd) -> Node {
    let statfs = osd.statfs();
    let pools = osd.pool_stats();
    let sum = |figure: fn(&PoolStats) -> u64| pools.values().map(figure).sum::<u64>();
    let (reads, writes) = (sum(|p| p.reads), sum(|p| p.writes));
    let (read_bytes, written_bytes) = (sum(|p| p.read_bytes), sum(|p| p.written_bytes));
    let counts = object! {
        "op": reads + writes,
        "op_in_bytes": written_bytes,
        "op_out_bytes": read_bytes,
        "op_r": reads,
        "op_r_out_bytes": read_bytes,
        "op_w": writes,
        "op_w_in_bytes": written_bytes,
        "stat_bytes": statfs.total,
        "stat_bytes_used": statfs.total.saturating_sub(statfs.available),
        "stat_bytes_avail": statfs.available,
    };
    object! { "osd": counts }
}

fn cluster(osd: &Osd) -> Node {
    let (statfs, pools, map) = (osd.statfs(), osd.pool_stats(), osd.map());
    let objects: u64 = pools.values().map(|pool| pool.stored.objects).sum();
    let bytes: u64 = pools.values().map(|pool| pool.stored.bytes).sum();
    let pgs: u64 = map.pools.values().map(|pool| u64::from(pool.pg_num())).sum();
    let counts = object! {
        "num_mon": 1, "num_mon_quorum": 1,
        "num_osd": map.osd_ids().count(),
        "num_osd_up": map.osd_ids().filter(|osd| map.is_up(*osd)).count(),
        "num_osd_in": map.osd_ids().filter(|osd| map.is_in(*osd)).count(),
        "osd_epoch": map.epoch.0,
        "osd_bytes": statfs.total,
        "osd_bytes_used": statfs.total.saturating_sub(statfs.available),
        "osd_bytes_avail": statfs.available,
        "num_pool": map.pools.len(),
        "num_pg": pgs, "num_pg_active_clean": pgs, "num_pg_active": pgs, "num_pg_peering": 0,
        "num_object": objects, "num_object_degraded": 0, "num_object_misplaced": 0, "num_object_unfound": 0,
        "num_bytes": bytes,
    };
    object! { "cluster": counts }
}
