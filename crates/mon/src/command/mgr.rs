//! `mgr …`: that there is no manager. What tools ask one for the monitor answers itself, where it can.

use super::{Call, Failure, Outcome, Reply};
use crate::output::json::{Node, object};

/// What a manager would always run; stock tools look a command's module up here.
const ALWAYS_ON: [&str; 10] = [
    "balancer",
    "crash",
    "devicehealth",
    "orchestrator",
    "pg_autoscaler",
    "progress",
    "rbd_support",
    "status",
    "telemetry",
    "volumes",
];

/// The manager map of a cluster that has not had a manager yet.
pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let none: fn() -> Vec<Node> = Vec::new;
    let node = object! {
        "epoch": 1,
        "active_gid": 0,
        "active_name": "",
        "active_addrs": object! { "addrvec": none() },
        "active_addr": "(unrecognized address family 0)/0",
        "active_change": "0.000000",
        "active_mgr_features": 0,
        "available": false,
        "standbys": none(),
        "modules": none(),
        "available_modules": none(),
        "services": object! {},
        "always_on_modules": object! { "pacific": Node::array(ALWAYS_ON) },
        "last_failure_osd_epoch": 0,
        "active_clients": none(),
    };
    Ok(call.print_json(&node))
}

pub(super) fn stat(call: &mut Call<'_>) -> Outcome {
    let node = object! { "epoch": 1, "available": false, "active_name": "", "num_standby": 0 };
    Ok(call.print_json(&node))
}

/// Nothing: services, counts by a property, and the state of daemons that nobody has registered.
pub(super) fn nothing(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&object! {}))
}

pub(super) fn module_ls(call: &mut Call<'_>) -> Outcome {
    let node = object! {
        "always_on_modules": Node::array(ALWAYS_ON),
        "enabled_modules": Vec::new(),
        "disabled_modules": Vec::new(),
    };
    Ok(call.print_json(&node))
}

pub(super) fn metadata(call: &mut Call<'_>) -> Outcome {
    match call.args.text("who") {
        Some(who) => {
            let who = who.strip_prefix("mgr.").unwrap_or(who);
            Err(Failure::missing(format!("mgr.{who} does not exist")))
        }
        None => Ok(call.print_json(&Node::Array(Vec::new()))),
    }
}

/// There is none that could be told to fail.
pub(super) fn fail(call: &mut Call<'_>) -> Outcome {
    let who = call.args.required("who");
    Ok(Reply::status(format!("Daemon not found '{who}', already failed?")))
}
