//! `perf dump`: the OSD's counts, by Ceph's names, as far as there is something to say.

use std::sync::Arc;

use loligo_admin::{Admin, Command, Request};
use loligo_osd::{Osd, PoolStats};
use serde_json::{Value, json};

/// Adds the command.
pub(crate) fn register(admin: &Admin, osd: Arc<Osd>) {
    let dump = move |request: &Request| Ok(request.json(&dump(&osd)));
    admin.command(Command::new("perf dump", "Counts since the start.", dump));
}

fn dump(osd: &Osd) -> Value {
    let statfs = osd.statfs();
    let pools = osd.pool_stats();
    let sum = |figure: fn(&PoolStats) -> u64| pools.values().map(figure).sum::<u64>();
    let (reads, writes) = (sum(|p| p.reads), sum(|p| p.writes));
    json!({
        "osd": {
            "op": reads + writes,
            "op_r": reads,
            "op_r_out_bytes": sum(|p| p.read_bytes),
            "op_w": writes,
            "op_w_in_bytes": sum(|p| p.written_bytes),
            "stat_bytes": statfs.total,
            "stat_bytes_used": statfs.total.saturating_sub(statfs.available),
            "stat_bytes_avail": statfs.available,
        },
    })
}
