//! `ceph tell mon.a …`: the commands of the monitor.

use std::sync::Arc;

use loligo_admin::{Admin, Command, Failure, Request};
use loligo_mon::output::json::Node;
use loligo_mon::{MonService, Monitor, object};
use loligo_wire::{Errno, UTime};
use tokio::runtime::Handle;

use super::render::{Shape, add, add_text, shaped};

const STATUS: Shape = Shape::of("mon_status");
const SESSIONS: Shape = Shape::list("sessions", "session");
/// The number of requests that a stock monitor remembers, and for how many seconds.
const HISTORY: (i64, i64) = (20, 600);

/// Adds the commands.
pub(super) fn register(admin: &Admin, mon: &Arc<MonService>) {
    let add_look = |prefix: &str, help: &str, shape: Shape, look: fn(&Monitor) -> Node| {
        let (mon, runtime) = (Arc::downgrade(mon), Handle::current());
        let run = move |_: &Request| {
            let stopped = || Failure::new("the monitor has stopped");
            let mon = mon.upgrade().ok_or_else(stopped)?;
            // Commands run on threads of their own, which may block.
            runtime.block_on(mon.look(look)).map_err(|_| stopped())
        };
        admin.command(shaped(prefix, help, shape, run));
    };
    let status = "Show the state of the monitor.";
    add_look("mon_status", status, STATUS, |monitor| monitor.status(UTime::now()));
    add_look("sessions", "Who is connected.", SESSIONS, Monitor::describe_sessions);
    // A stock monitor reports the duration; in a structured format it is in whole seconds.
    let compact = |request: &Request| match request.arg("format") {
        None => Ok("compacted rocksdb in 0.000 seconds\n".to_owned()),
        Some(_) => Ok("compacted rocksdb in 0 seconds\n".to_owned()),
    };
    let help = "Give back room in the monitor's store, which is one file and has none to give.";
    admin.command(Command::new("compact", help, compact));
    add_text(admin, "smart", "What devices say of their health: no device is known.", Ok("{\n}\n"));
    register_quorum(admin);
    register_ops(admin);
}

/// Adds the quorum commands. A quorum of one monitor never changes.
fn register_quorum(admin: &Admin) {
    for (prefix, answer) in [
        ("quorum enter", "started responding to quorum, initiated new election\n"),
        ("quorum exit", "stopped responding to quorum, initiated new election\n"),
    ] {
        add_text(admin, prefix, "Take part among the monitors or not; the only one always does.", Ok(answer));
    }
    for (prefix, arg) in [("add_bootstrap_peer_hint", "addr"), ("add_bootstrap_peer_hintv", "addrv")] {
        let hint = |_: &Request| Ok("mon already active; ignoring bootstrap hint\n".to_owned());
        admin.command(
            Command::new(prefix, "Where another monitor may be; there is none.", hint).required(arg, &[]),
        );
    }
    let sync = |request: &Request| {
        match request.arg("validate") {
        None => Err(Failure {
            errno: Errno::EPERM,
            why: "are you SURE? this will mean the monitor store will be erased the next time the monitor is restarted.  \
                  pass '--yes-i-really-mean-it' if you really do."
                .to_owned(),
        }),
        Some(_) => Err(Failure { errno: Errno::EPERM, why: "there is no other monitor to get the store from".to_owned() }),
    }
    };
    let sync =
        Command::new("sync_force", "Get the store from another monitor; refused: there is none.", sync);
    admin.command(sync.optional("validate", &["--yes-i-really-mean-it"]));
    let scores = || {
        let report = object! { "rank": 0, "epoch": 0, "version": 0, "peer_scores": object! {} };
        object! {
            "rank": 0, "epoch": 0, "version": 0, "half_life": 43_200, "persist_interval": 10,
            "reports": object! { "report": report },
        }
    };
    let shape = Shape::of("connection_scores");
    add(admin, "connection scores dump", "How well other monitors are reached.", shape, scores);
    add_text(admin, "connection scores reset", "Forget how well other monitors were reached.", Ok(""));
}

/// Adds the commands about requests. The monitor finishes all received requests before it runs a
/// command, so it never has a waiting request to report.
fn register_ops(admin: &Admin) {
    let none: fn() -> Vec<Node> = Vec::new;
    let ops = move || object! { "ops": none(), "num_ops": 0 };
    add(admin, "ops", "Requests that wait.", Shape::of("ops_in_flight"), ops);
    let (size, duration) = HISTORY;
    let historic = move || object! { "size": size, "duration": duration, "ops": none() };
    add(admin, "dump_historic_ops", "Requests of late: none are kept.", Shape::of("op_history"), historic);
    let slow = move || object! { "num to keep": size, "threshold to keep": 10, "Ops": none() };
    add(
        admin,
        "dump_historic_slow_ops",
        "Slow requests of late: none are kept.",
        Shape::of("OpHistory slow_ops"),
        slow,
    );
}
