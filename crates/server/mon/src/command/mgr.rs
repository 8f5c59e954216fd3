//! `mgr …`: the manager, which is a second address of this process. The monitor answers its commands,
//! where it can.

use super::version::object_of_version;
use super::{Call, Failure, Outcome, Reply, metadata};
use crate::output::json::{Node, object};
use crate::output::units::stamp;
use crate::state::MGR_ID;
use crate::view;

/// The modules that a manager always runs. Stock tools look up a command's module here.
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

/// The manager map. It has no active manager before the manager listens.
pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let none: fn() -> Vec<Node> = Vec::new;
    let map = call.state.mgr_map();
    let addr = map.active_addrs.0.first().map(view::bare);
    let node = object! {
        "epoch": map.epoch.0,
        "active_gid": map.active_gid,
        "active_name": map.active_name.as_str(),
        "active_addrs": object! { "addrvec": Node::array(map.active_addrs.0.iter().map(view::one_addr)) },
        "active_addr": addr.unwrap_or_else(|| "(unrecognized address family 0)/0".to_owned()),
        "active_change": if map.available { stamp(map.active_change) } else { "0.000000".to_owned() },
        "active_mgr_features": map.active_features,
        "available": map.available,
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
    let map = call.state.mgr_map();
    let node = object! {
        "epoch": map.epoch.0, "available": map.available, "active_name": map.active_name, "num_standby": 0,
    };
    Ok(call.print_json(&node))
}

/// An empty object: no services, and no registered daemons.
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
    let mut all = metadata::mgrs(call);
    match call.args.text("who") {
        Some(who) => {
            let who = who.strip_prefix("mgr.").unwrap_or(who);
            let one = all.pop().filter(|_| who == MGR_ID);
            let one = one.ok_or_else(|| Failure::missing(format!("mgr.{who} does not exist")))?;
            Ok(call.print_json(&one))
        }
        None => Ok(call.print_json(&Node::Array(all))),
    }
}

pub(super) fn versions(call: &mut Call<'_>) -> Outcome {
    let node = object_of_version(count(call));
    Ok(call.print_json(&node))
}

/// The number of managers: one, once it listens.
pub(super) fn count(call: &Call<'_>) -> u32 {
    call.state.manager().is_some().into()
}

/// Has no effect: the manager is a part of this process, and is available again at once.
pub(super) fn fail(call: &mut Call<'_>) -> Outcome {
    match call.args.text("who") {
        Some(MGR_ID) | None if call.state.manager().is_some() => Ok(Reply::default()),
        who => {
            let who = who.unwrap_or_default();
            Ok(Reply::status(format!("Daemon not found '{who}', already failed?")))
        }
    }
}
