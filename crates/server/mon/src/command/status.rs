//! `status`: a summary of the cluster.

use super::health;
use super::osd::Summary;
use super::usage::Totals;
use super::version::ELECTION_EPOCH;
use super::{Call, Outcome, health_muted};
use crate::output::json::{Node, object};
use crate::output::units::{age_of, bytes, count, seconds_since, stamp};
use crate::state::{MGR_ID, MON_ID, Manager};
use crate::view;

pub(super) fn status(call: &mut Call<'_>) -> Outcome {
    Ok(call.print(describe, text))
}

fn describe(call: &Call<'_>) -> Node {
    let monmap = call.state.monmap();
    let totals = Totals::of(call);
    let state = |(name, count): &(String, u32)| object! { "state_name": name.as_str(), "count": *count };
    object! {
        "fsid": call.state.fsid().to_string(),
        "health": health::describe(call, &health::checks(call), false),
        "election_epoch": ELECTION_EPOCH,
        "quorum": Node::array([0]),
        "quorum_names": Node::array([MON_ID]),
        "quorum_age": seconds_since(call.now, call.state.started()),
        "monmap": object! {
            "epoch": monmap.epoch.0,
            "min_mon_release_name": view::release(monmap.min_mon_release),
            "num_mons": monmap.len(),
        },
        "osdmap": Summary::of(call.state.osdmap()).node(),
        "pgmap": object! {
            "pgs_by_state": Node::array(totals.pg_states().iter().map(state)),
            "num_pgs": totals.pgs,
            "num_pools": totals.pools,
            "num_objects": totals.objects,
            "data_bytes": totals.bytes,
            "bytes_used": totals.space.used,
            "bytes_avail": totals.space.available(),
            "bytes_total": totals.space.total,
        },
        "fsmap": object! { "epoch": 1, "by_rank": Vec::new(), "up:standby": 0 },
        "mgrmap": object! {
            "available": call.state.manager().is_some(), "num_standbys": 0, "modules": Vec::new(), "services": object! {},
        },
        "servicemap": services(call),
        "progress_events": object! {},
    }
}

/// The daemons that have registered themselves: none.
pub(super) fn services(call: &Call<'_>) -> Node {
    object! { "epoch": 1, "modified": stamp(call.state.started()), "services": object! {} }
}

pub(super) fn service_dump(call: &mut Call<'_>) -> Outcome {
    let node = services(call);
    Ok(call.print_json(&node))
}

fn text(call: &Call<'_>) -> String {
    let totals = Totals::of(call);
    let checks = health::checks(call);
    let mutes = health_muted::list(call);
    let problems = health::summaries(call, &checks).chain(mutes.as_deref());
    let problems: String = problems.map(|line| format!("            {line}\n")).collect();
    let states: Vec<_> = totals.pg_states().iter().map(|(name, num)| format!("{num} {name}")).collect();
    format!(
        "  cluster:\n    id:     {}\n    health: {}\n{problems} \n  services:\n    mon: 1 daemons, quorum {MON_ID} (age {})\n    \
         mgr: {}\n    osd: {}\n \n  data:\n    pools:   {} pools, {} pgs\n    objects: {} objects, {}\n    \
         usage:   {}\n    pgs:     {}\n \n",
        call.state.fsid(),
        health::overall(call, &checks),
        age_of(call.now, call.state.started()),
        manager(call),
        Summary::of(call.state.osdmap()).text(call),
        totals.pools,
        totals.pgs,
        count(totals.objects),
        bytes(totals.bytes),
        totals.usage(),
        states.join("\n             "),
    )
}

fn manager(call: &Call<'_>) -> String {
    let active = |manager: &Manager| format!("{MGR_ID}(active, since {})", age_of(call.now, manager.since));
    call.state.manager().map_or_else(|| "no daemons active".to_owned(), active)
}
