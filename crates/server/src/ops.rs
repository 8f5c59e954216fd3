//! `dump_historic_ops` and its kin: what became of requests, in the JSON that Ceph's tools read.

use std::sync::Arc;
use std::time::Duration;

use loligo_admin::{Admin, Command, Request};
use loligo_osd::{BLOCKED_S, KEPT_MAX, KEPT_S, Osd, SLOW_MAX, SLOW_S, TrackedOp};
use loligo_wire::UTime;
use serde_json::{Value, json};

/// Adds the commands.
pub(crate) fn register(admin: &Admin, osd: &Arc<Osd>) {
    let add = |prefix: &str, help: &str, dump: fn(&Osd) -> Value| {
        let osd = Arc::clone(osd);
        admin.command(Command::new(prefix, help, move |request: &Request| Ok(request.json(&dump(&osd)))));
    };
    add("dump_ops_in_flight", "The requests that wait.", in_flight);
    add("ops", "The requests that wait.", in_flight);
    add("dump_blocked_ops", "The requests that have waited for long.", blocked);
    add("dump_slow_ops", "The requests that have waited for long.", blocked);
    add("dump_historic_ops", "The slowest requests of late.", |osd| historic(osd.historic_ops()));
    add("dump_historic_ops_by_duration", "The slowest requests of late, the slowest last.", |osd| {
        let mut ops = osd.historic_ops();
        ops.sort_by_key(|op| op.duration);
        historic(ops)
    });
    add("dump_historic_slow_ops", "The newest of the very slow requests.", slow);
}

fn in_flight(osd: &Osd) -> Value {
    let ops = all(&osd.ops_in_flight());
    let count = ops.len();
    json!({ "ops": ops, "num_ops": count })
}

fn blocked(osd: &Osd) -> Value {
    let mut ops = osd.ops_in_flight();
    ops.retain(|op| op.age >= Duration::from_secs(BLOCKED_S));
    let ops = all(&ops);
    let count = ops.len();
    json!({ "ops": ops, "complaint_time": BLOCKED_S, "num_blocked_ops": count })
}

fn historic(ops: Vec<TrackedOp>) -> Value {
    json!({ "size": KEPT_MAX, "duration": KEPT_S, "ops": all(&ops) })
}

fn slow(osd: &Osd) -> Value {
    json!({ "num to keep": SLOW_MAX, "threshold to keep": SLOW_S, "Ops": all(&osd.historic_slow_ops()) })
}

fn all(ops: &[TrackedOp]) -> Vec<Value> {
    ops.iter().map(describe).collect()
}

/// As Ceph's `TrackedOp`. An event lasts until the next one; the last one tells of all.
fn describe(op: &TrackedOp) -> Value {
    let begins = op.events.iter().map(|(_, at)| *at);
    let ends = begins.clone().skip(1).map(Some).chain([None]);
    let events = op.events.iter().zip(ends).map(|((event, at), end)| {
        let lasted = end.map_or(op.duration, |end| end.saturating_sub(*at));
        json!({ "event": event, "time": time(later(op.initiated_at, *at)), "duration": lasted.as_secs_f64() })
    });
    json!({
        "description": op.description,
        "initiated_at": time(op.initiated_at),
        "age": op.age.as_secs_f64(),
        "duration": op.duration.as_secs_f64(),
        "type_data": {
            "flag_point": op.flag_point,
            "client_info": {
                "client": format!("client.{}", op.client),
                "client_addr": op.client_addr.sock.map_or_else(|| "-".to_owned(), |sock| format!("{sock}/{}", op.client_addr.nonce)),
                "tid": op.tid.0,
            },
            "events": events.collect::<Vec<_>>(),
        },
    })
}

fn later(time: UTime, by: Duration) -> UTime {
    UTime::from_system(time.to_system() + by)
}

fn time(time: UTime) -> String {
    format!("{}+0000", time.civil())
}
