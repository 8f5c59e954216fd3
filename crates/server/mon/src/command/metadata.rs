//! `osd metadata`, `mon metadata`, `node ls`: the daemons' metadata and hosts.

use loligo_wire::{EntityAddrVec, OsdId};

use super::osd_args::osd_arg;
use super::version::VERSION;
use super::{Call, Failure, Outcome};
use crate::output::json::{Node, object};
use crate::state::{MGR_ID, MON_ID, Manager};
use crate::view;

/// The type of hosts in the CRUSH map.
const HOST_TYPE: u16 = 1;

pub(super) fn osds(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    if !call.args.has("id") {
        return Ok(call.print_json(&all_osds(call)));
    }
    let id = osd_arg(call, "id")?;
    if map.osd(id).is_none() {
        return Err(Failure::missing(format!("osd.{id} does not exist")));
    }
    if !call.state.is_served(id) {
        return Err(Failure::missing("")); // it has not reported any metadata yet
    }
    Ok(call.print_json(&of_osd(call, id)))
}

/// The metadata of each OSD.
pub(super) fn all_osds(call: &Call<'_>) -> Node {
    Node::array(call.state.served_osds().map(|id| of_osd(call, id)))
}

pub(super) fn mons(call: &mut Call<'_>) -> Outcome {
    match call.args.text("id") {
        None => Ok(call.print_json(&Node::array([of_mon(call)]))),
        Some(MON_ID) => Ok(call.print_json(&of_mon(call))),
        Some(_) => Err(Failure::missing("requested mon not found")),
    }
}

/// Counts OSDs by the value of a metadata property.
pub(super) fn count_osds(call: &mut Call<'_>) -> Outcome {
    count(call, call.state.served_osds().map(|id| of_osd(call, id)).collect())
}

pub(super) fn count_mons(call: &mut Call<'_>) -> Outcome {
    count(call, vec![of_mon(call)])
}

pub(super) fn count_mgrs(call: &mut Call<'_>) -> Outcome {
    count(call, mgrs(call))
}

fn count(call: &Call<'_>, daemons: Vec<Node>) -> Outcome {
    let property = call.args.required("property");
    let mut counts = std::collections::BTreeMap::<String, u32>::new();
    for daemon in daemons {
        let Node::Object(fields) = daemon else { continue };
        let value = fields.into_iter().find(|(name, _)| name == property).map(|(_, value)| value);
        let value = match value {
            Some(Node::Str(text)) => text,
            Some(other) => other.to_string(),
            None => "unknown".to_owned(),
        };
        *counts.entry(value).or_default() += 1;
    }
    Ok(call.print_json(&Node::map(counts)))
}

pub(super) fn nodes(call: &mut Call<'_>) -> Outcome {
    let on_host = |daemons: Node| Node::map([(host(call), daemons)]);
    let managers = call.state.manager().map(|_| on_host(Node::array([MGR_ID])));
    let all = [
        ("mon", on_host(Node::array([MON_ID]))),
        ("osd", on_host(Node::array(call.state.served_osds().map(|id| id.0)))),
        ("mds", object! {}),
        ("mgr", managers.unwrap_or_else(|| object! {})),
    ];
    let one = |kind: &str| all.iter().find(|(name, _)| *name == kind).map(|(_, nodes)| nodes.clone());
    match call.args.text("type").filter(|kind| *kind != "all") {
        Some(kind) => Ok(call.print_json(&one(kind).unwrap_or_else(|| object! {}))),
        None => Ok(call.print_json(&Node::map(all.into_iter().filter(|(_, nodes)| *nodes != object! {})))),
    }
}

fn of_osd(call: &Call<'_>, id: OsdId) -> Node {
    let addrs = |of: fn(&loligo_maps::Osd) -> &EntityAddrVec| {
        call.state.osdmap().osd(id).map(|osd| view::bracketed(of(osd))).unwrap_or_default()
    };
    let mut node = object! { "id": id.0 };
    node.push("arch", std::env::consts::ARCH);
    node.push("back_addr", addrs(|osd| &osd.cluster_addrs));
    about(&mut node);
    node.push("front_addr", addrs(|osd| &osd.client_addrs));
    node.push("hb_back_addr", addrs(|osd| &osd.hb_back_addrs));
    node.push("hb_front_addr", addrs(|osd| &osd.hb_front_addrs));
    node.push("hostname", host(call));
    node.push("os", "Linux");
    node
}

fn of_mon(call: &Call<'_>) -> Node {
    let info = call.state.monmap().mons.get(MON_ID.as_bytes());
    let mut node = object! { "name": MON_ID };
    node.push("addrs", info.map(|info| view::bracketed(&info.public_addrs)).unwrap_or_default());
    node.push("arch", std::env::consts::ARCH);
    about(&mut node);
    node.push("hostname", host(call));
    node.push("os", "Linux");
    node
}

/// The metadata of the manager, once it listens.
pub(super) fn mgrs(call: &Call<'_>) -> Vec<Node> {
    let of = |manager: &Manager| {
        let mut node = object! { "name": MGR_ID };
        node.push("addrs", view::bracketed(&manager.addrs));
        node.push("arch", std::env::consts::ARCH);
        about(&mut node);
        node.push("hostname", host(call));
        node.push("os", "Linux");
        node
    };
    call.state.manager().map(of).into_iter().collect()
}

/// Adds the version, and the Ceph release of the protocol.
fn about(node: &mut Node) {
    node.push("ceph_release", "pacific");
    node.push("ceph_version", VERSION);
    node.push("ceph_version_short", env!("CARGO_PKG_VERSION"));
}

/// The host name of this server: the first host in the CRUSH map.
pub(super) fn host(call: &Call<'_>) -> String {
    let crush = &call.state.osdmap().crush;
    let host = crush.buckets.iter().flatten().find(|bucket| bucket.kind == HOST_TYPE);
    host.and_then(|host| crush.names.get(&host.id)).map(ToString::to_string).unwrap_or_default()
}
