//! Commands for services that do not exist here: manager modules, file systems, metadata servers. They
//! are answered as in a cluster without these services, so that clients get a clear error.

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::{Node, object};

/// A command of a manager module.
pub(super) fn module(call: &mut Call<'_>) -> Outcome {
    Err(refused(call.args.prefix()?))
}

/// A manager's error for a module that is not loaded.
pub(crate) fn refused(prefix: &str) -> Failure {
    let mut words = prefix.split(' ');
    let module = match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
        ("device", _) => "devicehealth",
        ("orch", _) => "orchestrator",
        ("rbd", _) => "rbd_support",
        ("healthcheck", _) => "prometheus",
        ("mgr", _) => "selftest",
        ("fs" | "osd", "status") => "status",
        ("fs", "perf") => "stats",
        ("fs", "snap-schedule") => "snap_schedule",
        ("fs", "snapshot") => "mirroring",
        ("fs", _) => "volumes",
        (first, _) => first,
    };
    let status = format!(
        "Module '{module}' is not enabled/loaded (required by command '{prefix}'): use `ceph mgr module enable {module}` \
         to enable it"
    );
    Failure::new(Errno::EOPNOTSUPP, status)
}

pub(super) fn module_enable(call: &mut Call<'_>) -> Outcome {
    let module = call.args.required("module");
    let status =
        format!("all mgr daemons do not support module '{module}', pass --force to force enablement");
    Err(Failure::missing(status))
}

pub(super) fn module_disable(call: &mut Call<'_>) -> Outcome {
    Ok(Reply::status(format!("module '{}' is already disabled", call.args.required("module"))))
}

pub(super) fn fs_ls(call: &mut Call<'_>) -> Outcome {
    Ok(call.print(|_| Node::Array(Vec::new()), |_| "No filesystems enabled\n".to_owned()))
}

/// `fs get`, and the commands that change a file system.
pub(super) fn fs_missing(call: &mut Call<'_>) -> Outcome {
    Err(Failure::missing(format!("filesystem '{}' not found", call.args.required("fs_name"))))
}

pub(super) fn mds_stat(call: &mut Call<'_>) -> Outcome {
    let fsmap = object! { "epoch": 1, "filesystems": Vec::new(), "standbys": Vec::new() };
    Ok(call.print(|_| object! { "fsmap": fsmap.clone() }, |_| String::new()))
}

pub(super) fn mds_metadata(call: &mut Call<'_>) -> Outcome {
    match call.args.text("who") {
        None => Ok(call.print_json(&Node::Array(Vec::new()))),
        Some(who) => Err(Failure::missing(format!("MDS named '{who}' does not exist, or is not up"))),
    }
}

/// Counts of metadata servers by version or by another property: none.
pub(super) fn none_of_mds(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&object! {}))
}

pub(super) fn mds_ok_to_stop(call: &mut Call<'_>) -> Outcome {
    let ids = call.args.texts("ids").join(",");
    Ok(Reply::status(format!("should be safe to stop [{ids}]")))
}
