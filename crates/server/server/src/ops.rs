//! `dump_historic_ops` and its kin: the history of requests, in the JSON that Ceph's tools read.

use std::sync::Arc;
use std::time::Duration;

use loligo_admin::Admin;
use loligo_mon::object;
use loligo_mon::output::json::Node;
use loligo_osd::{BLOCKED_S, KEPT_MAX, KEPT_S, Osd, SLOW_MAX, SLOW_S, TrackedOp};
use loligo_wire::UTime;

use crate::tell::render::{self, Shape};

/// Adds the commands.
pub(crate) fn register(admin: &Admin, osd: &Arc<Osd>) {
    let add = |prefix: &str, help: &str, root: &'static str, dump: fn(&Osd) -> Node| {
        let osd = Arc::clone(osd);
        render::add(admin, prefix, help, Shape::of(root).with(ITEMS), move || dump(&osd));
    };
    add("dump_ops_in_flight", "The requests that wait.", "ops_in_flight", in_flight);
    add("ops", "The requests that wait.", "ops_in_flight", in_flight);
    add("dump_blocked_ops", "The requests that have waited for long.", "ops_in_flight", blocked);
    add("dump_slow_ops", "The requests that have waited for long.", "ops_in_flight", blocked);
    add("dump_historic_ops", "The slowest requests of late.", "op_history", |osd| {
        historic(osd.historic_ops())
    });
    add(
        "dump_historic_ops_by_duration",
        "The slowest requests of late, the slowest last.",
        "op_history",
        |osd| {
            let mut ops = osd.historic_ops();
            ops.sort_by_key(|op| op.duration);
            historic(ops)
        },
    );
    add("dump_historic_slow_ops", "The newest of the very slow requests.", "OpHistory slow_ops", slow);
}

/// The names of array items in XML.
const ITEMS: &[(&str, &str)] = &[("ops", "op"), ("Ops", "Op"), ("events", "event")];

fn in_flight(osd: &Osd) -> Node {
    let ops = osd.ops_in_flight();
    let count = ops.len();
    object! { "ops": all(&ops), "num_ops": count }
}

fn blocked(osd: &Osd) -> Node {
    let mut ops = osd.ops_in_flight();
    ops.retain(|op| op.age >= Duration::from_secs(BLOCKED_S));
    let count = ops.len();
    object! { "ops": all(&ops), "complaint_time": BLOCKED_S, "num_blocked_ops": count }
}

fn historic(ops: Vec<TrackedOp>) -> Node {
    object! { "size": KEPT_MAX, "duration": KEPT_S, "ops": all(&ops) }
}

fn slow(osd: &Osd) -> Node {
    object! { "num to keep": SLOW_MAX, "threshold to keep": SLOW_S, "Ops": all(&osd.historic_slow_ops()) }
}

fn all(ops: &[TrackedOp]) -> Node {
    Node::array(ops.iter().map(describe))
}

/// Formats a request as Ceph's `TrackedOp` does. An event lasts until the next one; the duration of the
/// last event is that of the whole request.
fn describe(op: &TrackedOp) -> Node {
    let begins = op.events.iter().map(|(_, at)| *at);
    let ends = begins.clone().skip(1).map(Some).chain([None]);
    let events = op.events.iter().zip(ends).map(|((event, at), end)| {
        let lasted = end.map_or(op.duration, |end| end.saturating_sub(*at));
        object! {
            "event": event.to_string(), "time": time(later(op.initiated_at, *at)), "duration": lasted.as_secs_f64(),
        }
    });
    let addr = op.client_addr.sock.map(|sock| format!("{sock}/{}", op.client_addr.nonce));
    object! {
        "description": op.description.to_string(),
        "initiated_at": time(op.initiated_at),
        "age": op.age.as_secs_f64(),
        "duration": op.duration.as_secs_f64(),
        "type_data": object! {
            "flag_point": op.flag_point.to_string(),
            "client_info": object! {
                "client": format!("client.{}", op.client),
                "client_addr": addr.unwrap_or_else(|| "-".to_owned()),
                "tid": op.tid.0,
            },
            "events": Node::array(events),
        },
    }
}

fn later(time: UTime, by: Duration) -> UTime {
    UTime::from_system(time.to_system() + by)
}

fn time(time: UTime) -> String {
    format!("{}+0000", time.civil())
}
