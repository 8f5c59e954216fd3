//! `report`: the monitor's complete state in one output.

use loligo_maps::OsdMap;

use super::{Call, Outcome, crush_dump, health, metadata, mon, osd_dump, pg_dump, status};
use crate::output::json::{Node, object};
use crate::output::units::stamp;

/// The seed of a report's checksum in a stock monitor: the monitor's port before IANA assigned one.
const CHECKSUM_SEED: u32 = 6_789;

pub(super) fn report(call: &mut Call<'_>) -> Outcome {
    let reply = call.print_json(&describe(call));
    let checksum = loligo_wire::crc::crc32c(CHECKSUM_SEED, &reply.output);
    Ok(reply.with_status(format!("report {checksum}")))
}

fn describe(call: &Call<'_>) -> Node {
    let map = call.state.osdmap();
    let (newest, oldest) = (map.epoch.0, call.state.maps().oldest().0);
    let monmap = call.state.monmap();
    let tag = call.args.texts("tags").first().copied().unwrap_or_default();
    let mut node = object! {
        "cluster_fingerprint": call.state.fsid().to_string(),
        "version": env!("CARGO_PKG_VERSION"),
        "commit": "",
        "timestamp": stamp(call.now),
        "tag": tag,
        "health": health::describe(call, &health::checks(call), true),
        "monmap_first_committed": monmap.epoch.0,
        "monmap_last_committed": monmap.epoch.0,
        "monmap": mon::describe(monmap),
        "quorum": Node::array([0]),
        "osdmap": osd_dump::describe(map),
        "osd_metadata": metadata::all_osds(call),
        "osdmap_clean_epochs": clean_epochs(call, map),
        "osdmap_first_committed": oldest,
        "osdmap_last_committed": newest,
        "crushmap": crush_dump::describe(call),
        "auth": object! { "first_committed": 1, "last_committed": 1, "num_secrets": call.state.keys().iter().count() },
    };
    placement_groups(call, &mut node);
    node.push("servicemap", status::services(call));
    node.push(
        "paxos",
        object! { "first_committed": 1, "last_committed": newest, "last_pn": 0, "accepted_pn": 0 },
    );
    node
}

/// The last clean epochs: always the current one.
fn clean_epochs(call: &Call<'_>, map: &OsdMap) -> Node {
    let pools = map.pools.keys().map(|id| object! { "poolid": id.0, "floor": map.epoch.0 });
    let osds = call.state.served_osds().map(|osd| object! { "id": osd.0, "epoch": map.epoch.0 });
    object! {
        "min_last_epoch_clean": map.epoch.0,
        "last_epoch_clean": object! { "per_pool": Node::array(pools) },
        "osd_epochs": Node::array(osds),
    }
}

fn placement_groups(call: &Call<'_>, node: &mut Node) {
    let map = call.state.osdmap();
    let totals = super::usage::Totals::of(call);
    let pgs = call.pgs.placement_groups();
    node.push("num_pg", totals.pgs);
    node.push("num_pg_active", totals.pgs);
    node.push("num_pg_unknown", 0);
    node.push("num_osd", call.state.served_osds().count());
    node.push("pool_sum", pg_dump::sums(&pgs));
    node.push("osd_sum", pg_dump::osd_stat(call, None));
    node.push("osd_sum_by_class", object! {});
    node.push("pool_stats", pg_dump::pool_stats(call, &pgs));
    node.push(
        "osd_stats",
        Node::array(call.state.served_osds().map(|osd| object! { "osd": osd.0, "seq": 0 })),
    );
    let state = |(state, num): &(String, u32)| object! { "state": state.as_str(), "num": *num };
    node.push("num_pg_by_state", Node::array(totals.pg_states().iter().map(state)));
    let of_osd = |osd| {
        let on = super::usage::Totals::pgs_on(call, osd);
        object! {
            "osd": osd.0, "num_primary_pg": on.primary, "num_acting_pg": on.all, "num_up_not_acting_pg": 0,
        }
    };
    node.push("num_pg_by_osd", Node::array(call.state.served_osds().map(of_osd)));
    let purged = map.pools.keys().map(|id| {
        object! { "pool": id.0, "purged_snaps": object! { "length": 0, "intervals": Vec::new() } }
    });
    node.push("purged_snaps", Node::array(purged));
}
