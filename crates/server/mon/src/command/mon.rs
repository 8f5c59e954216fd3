//! `mon …`, `quorum_status`, `versions`, `features`, `fsid`: the monitor's identity and state.

use std::collections::BTreeMap;

use loligo_maps::MonMap;
use loligo_wire::{Encode as _, EntityType, UTime, features};

use super::version::{ELECTION_EPOCH, VERSION, object_of_version};
use super::{Call, Errno, Failure, Outcome, Reply, mgr};
use crate::output::json::{Node, object};
use crate::output::units::stamp_z;
use crate::state::{MON_ID, State};
use crate::view;

/// `mon_feature_t`, in the order of the bits.
const MON_FEATURES: [&str; 8] =
    ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

pub(super) fn fsid(call: &mut Call<'_>) -> Outcome {
    let fsid = call.state.fsid().to_string();
    Ok(call.print(|_| object! { "fsid": fsid.as_str() }, |_| format!("{fsid}\n")))
}

pub(super) fn version(call: &mut Call<'_>) -> Outcome {
    Ok(call.print(|_| object! { "version": VERSION }, |_| format!("{VERSION}\n")))
}

pub(super) fn versions(call: &mut Call<'_>) -> Outcome {
    let osds = osds(call);
    let mgrs = mgr::count(call);
    let node = object! {
        "mon": object_of_version(1), "mgr": object_of_version(mgrs), "osd": object_of_version(osds),
        "mds": object! {}, "overall": object_of_version(osds + 1 + mgrs),
    };
    Ok(call.print_json(&node))
}

pub(super) fn mon_versions(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&object_of_version(1)))
}

pub(super) fn osd_versions(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&object_of_version(osds(call))))
}

fn osds(call: &Call<'_>) -> u32 {
    u32::try_from(call.state.served_osds().count()).unwrap_or_default()
}

/// A single monitor cannot be removed. Two monitors have no majority until the second one runs.
pub(super) fn ok_to_rm(call: &mut Call<'_>) -> Outcome {
    match call.args.required("id") {
        MON_ID => Err(Failure::new(Errno::EBUSY, format!("removing mon.{MON_ID} would break quorum"))),
        other => Ok(Reply::status(format!("mon.{other} does not exist"))),
    }
}

pub(super) fn ok_to_add_offline(_: &mut Call<'_>) -> Outcome {
    let status = "adding a monitor may break quorum (until that monitor starts)";
    Err(Failure::new(Errno::EBUSY, status))
}

/// Without its single monitor the cluster stops.
pub(super) fn ok_to_stop(call: &mut Call<'_>) -> Outcome {
    let ids = call.args.texts("ids");
    if !ids.contains(&MON_ID) {
        return Ok(Reply::status(format!(
            "quorum should be preserved ({MON_ID}) after stopping [{}]",
            ids.join(",")
        )));
    }
    let status = format!("not enough monitors would be available () after stopping mons [{}]", ids.join(","));
    Err(Failure::new(Errno::EBUSY, status))
}

/// A single monitor has no other clock to compare with.
pub(super) fn time_sync_status(call: &mut Call<'_>) -> Outcome {
    let checks = object! { "epoch": ELECTION_EPOCH, "round": 0, "round_status": "finished" };
    Ok(call.print_json(&object! { "timechecks": checks }))
}

pub(super) fn feature_ls(call: &mut Call<'_>) -> Outcome {
    let with_value = call.args.has("with_value");
    let name = |(bit, name): (usize, &&str)| match with_value {
        true => format!("{name}({})", 1_u64 << bit),
        false => (*name).to_owned(),
    };
    let names: Vec<String> = MON_FEATURES.iter().enumerate().map(name).collect();
    let all = || Node::array(names.iter().map(String::as_str));
    let node = |_: &Call<'_>| {
        object! {
            "all": object! { "supported": all(), "persistent": all() },
            "monmap": object! { "persistent": all(), "optional": Vec::new(), "required": all() },
        }
    };
    let plain = |call: &Call<'_>| {
        let (list, epoch) = (names.join(","), call.state.monmap().epoch);
        format!(
            "all features\n\tsupported: [{list}]\n\tpersistent: [{list}]\n\
             on current monmap (epoch {epoch})\n\tpersistent: [{list}]\n\trequired: [{list}]\n"
        )
    };
    Ok(call.print(node, plain))
}

/// A feature that no monitor has; Ceph reserves it for its tests.
const RESERVED: &str = "reserved";

/// Requires a feature of all monitors. The monmap requires all known features from the start.
pub(super) fn feature_set(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("feature_name");
    if name == RESERVED {
        let all = MON_FEATURES.join(",");
        return Err(Failure::invalid(format!(
            "current quorum does not support feature 'mon_feature_t([{RESERVED}])'; supported features: mon_feature_t([{all}])"
        )));
    }
    if !MON_FEATURES.contains(&name) {
        return Err(Failure::missing(format!("unknown feature '{name}'")));
    }
    if !call.args.flag("yes_i_really_mean_it") {
        let status = format!(
            "please specify '--yes-i-really-mean-it' if you really, **really** want to set feature \
             'mon_feature_t([{name}])' in the monmap."
        );
        return Err(Failure::new(Errno::EPERM, status));
    }
    Ok(Reply::status(format!("setting feature 'mon_feature_t([{name}])'")))
}

/// The connected clients, by type and features.
pub(super) fn feature_groups(call: &mut Call<'_>) -> Outcome {
    Ok(call.print_json(&feature_map(call.sessions)))
}

/// Counts clients by type and features. The monitor and the OSD are included.
fn feature_map(sessions: &[(EntityType, u64)]) -> Node {
    let mut groups: BTreeMap<(EntityType, u64), u32> = BTreeMap::new();
    groups.insert((EntityType::MON, features::SUPPORTED), 1);
    groups.insert((EntityType::OSD, features::SUPPORTED), 1);
    for session in sessions {
        *groups.entry(*session).or_default() += 1;
    }
    let kinds = [EntityType::MON, EntityType::MDS, EntityType::OSD, EntityType::CLIENT, EntityType::MGR];
    let describe = |((_, bits), num): (&(EntityType, u64), &u32)| {
        object! { "features": format!("{bits:#x}"), "release": release_of(*bits), "num": *num }
    };
    let of_kind =
        |kind: EntityType| Node::array(groups.iter().filter(|((k, _), _)| *k == kind).map(describe));
    let present = kinds.into_iter().map(|kind| (kind, of_kind(kind)));
    Node::map(present.filter(|(_, group)| *group != Node::Array(Vec::new())))
}

/// The release whose clients have these features. Releases after luminous cannot be told apart by a
/// client's features.
pub(crate) fn release_of(bits: u64) -> &'static str {
    if features::has(bits, features::SERVER_LUMINOUS) { "luminous" } else { "jewel" }
}

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let map = monmap_of_epoch(call)?;
    let node = |_: &Call<'_>| {
        let mut node = describe(map);
        node.push("quorum", Node::array([0]));
        node
    };
    Ok(call.print(node, |_| text(map)).with_status(format!("dumped monmap epoch {}", map.epoch)))
}

pub(super) fn getmap(call: &mut Call<'_>) -> Outcome {
    let map = monmap_of_epoch(call)?;
    Ok(Reply::output(map.to_bytes()).with_status(format!("got monmap epoch {}", map.epoch)))
}

/// Old monmaps are not kept.
fn monmap_of_epoch<'a>(call: &'a Call<'_>) -> Result<&'a MonMap, Failure> {
    let map = call.state.monmap();
    match call.args.int("epoch") {
        Some(epoch) if epoch != i64::from(map.epoch.0) => {
            Err(Failure::missing(format!("there is no map for epoch {epoch}")))
        }
        _ => Ok(map),
    }
}

pub(super) fn stat(call: &mut Call<'_>) -> Outcome {
    let map = call.state.monmap();
    let node = |_: &Call<'_>| {
        object! {
            "epoch": map.epoch.0,
            "min_mon_release_name": view::release(map.min_mon_release),
            "num_mons": map.len(),
            "leader": MON_ID,
            "quorum": Node::array([object! { "rank": 0, "name": MON_ID }]),
        }
    };
    let plain = |_: &Call<'_>| {
        let mons =
            map.mons.iter().map(|(name, info)| format!("{name}={}", view::bracketed(&info.public_addrs)));
        format!(
            "e{}: {} mons at {{{}}} removed_ranks: {{}}, election epoch {ELECTION_EPOCH}, leader 0 {MON_ID}, quorum 0 {MON_ID}\n",
            map.epoch,
            map.len(),
            mons.collect::<Vec<_>>().join(","),
        )
    };
    Ok(call.print(node, plain))
}

pub(super) fn quorum_status(call: &mut Call<'_>) -> Outcome {
    let node = object! {
        "election_epoch": ELECTION_EPOCH,
        "quorum": Node::array([0]),
        "quorum_names": Node::array([MON_ID]),
        "quorum_leader_name": MON_ID,
        "quorum_age": crate::output::units::seconds_since(call.now, call.state.started()),
        "features": object! {
            "quorum_con": features::SUPPORTED.to_string(),
            "quorum_mon": Node::array(MON_FEATURES),
        },
        "monmap": describe(call.state.monmap()),
    };
    // Without a format the output is single-line JSON, as in Ceph.
    Ok(call.print(|_| node.clone(), |_| format!("{node}\n")))
}

/// The reply to a ping: `health` and `mon_status`.
pub(crate) fn pong(call: &Call<'_>) -> Node {
    let health = super::health::describe(call, &super::health::checks(call), false);
    object! { "health": health, "mon_status": mon_status(call.state, call.sessions, call.now) }
}

/// `mon_status`: the monitor's status in the quorum.
pub(crate) fn mon_status(state: &State, sessions: &[(EntityType, u64)], now: UTime) -> Node {
    object! {
        "name": MON_ID,
        "rank": 0,
        "state": "leader",
        "election_epoch": ELECTION_EPOCH,
        "quorum": Node::array([0]),
        "quorum_age": crate::output::units::seconds_since(now, state.started()),
        "features": object! {
            "required_con": "0",
            "required_mon": Node::array(MON_FEATURES),
            "quorum_con": features::SUPPORTED.to_string(),
            "quorum_mon": Node::array(MON_FEATURES),
        },
        "outside_quorum": Vec::new(),
        "extra_probe_peers": Vec::new(),
        "sync_provider": Vec::new(),
        "monmap": describe(state.monmap()),
        "feature_map": feature_map(sessions),
        "stretch_mode": false,
    }
}

pub(super) fn describe(map: &MonMap) -> Node {
    let mon = |(rank, name): (usize, &loligo_maps::Name)| {
        let info = map.mons.get(name).cloned().unwrap_or_default();
        let addr = view::legacy_addr(&info.public_addrs);
        object! {
            "rank": rank, "name": name.to_string(), "public_addrs": view::addrvec(&info.public_addrs),
            "addr": addr.as_str(), "public_addr": addr.as_str(),
            "priority": u32::from(info.priority), "weight": u32::from(info.weight), "crush_location": "{}",
        }
    };
    object! {
        "epoch": map.epoch.0,
        "fsid": map.fsid.to_string(),
        "modified": stamp_z(map.last_changed),
        "created": stamp_z(map.created),
        "min_mon_release": map.min_mon_release,
        "min_mon_release_name": view::release(map.min_mon_release),
        "election_strategy": map.strategy,
        "disallowed_leaders: ": "",
        "stretch_mode": false,
        "tiebreaker_mon": "",
        "removed_ranks: ": "",
        "features": object! { "persistent": Node::array(MON_FEATURES), "optional": Vec::new() },
        "mons": Node::array(map.ranks.iter().enumerate().map(mon)),
    }
}

fn text(map: &MonMap) -> String {
    let stamp = crate::output::units::stamp;
    let mon = |(rank, name): (usize, &loligo_maps::Name)| {
        let addrs = map.mons.get(name).map(|info| view::bracketed(&info.public_addrs));
        format!("{rank}: {} mon.{name}\n", addrs.unwrap_or_default())
    };
    format!(
        "epoch {}\nfsid {}\nlast_changed {}\ncreated {}\nmin_mon_release {} ({})\nelection_strategy: {}\n{}",
        map.epoch,
        map.fsid,
        stamp(map.last_changed),
        stamp(map.created),
        map.min_mon_release,
        view::release(map.min_mon_release),
        map.strategy,
        map.ranks.iter().enumerate().map(mon).collect::<String>(),
    )
}
