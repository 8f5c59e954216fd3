//! `osd df`, `osd pool stats`: in Ceph, the manager answers these commands.

use loligo_maps::OsdMap;
use loligo_wire::{OsdId, PoolId};

use super::usage::Totals;
use super::{Call, Outcome, crush};
use crate::Space;
use crate::hierarchy::fraction;
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};
use crate::output::units::{bytes, percent};
use crate::text;

/// The levels above an OSD in the hierarchy: host and root.
const OSD_DEPTH: u32 = 2;

/// The usage of the OSDs. They share one store in equal parts, so all are equally full.
pub(super) fn df(call: &mut Call<'_>) -> Outcome {
    Ok(call.print(df_node, df_text))
}

fn df_node(call: &Call<'_>) -> Node {
    let (map, space) = (call.state.osdmap(), call.usage.space);
    let one = space.of_one(call.state.served_osds().count());
    let used_percent = space.used_ratio() * 100.0;
    let node = |osd: OsdId| {
        let mut node = object! {
            "id": osd.0, "device_class": "", "name": osd.to_string(), "type": "osd", "type_id": 0,
            "crush_weight": weight(map, osd), "depth": OSD_DEPTH, "pool_weights": object! {},
            "reweight": fraction(map.weight(osd)),
        };
        let served = call.state.is_served(osd);
        space_fields(&mut node, "", if served { one } else { Space::default() });
        node.push("utilization", if served { used_percent } else { 0.0 });
        node.push("var", i32::from(served));
        node.push("pgs", Totals::pgs_on(call, osd).all);
        node.push("status", crush::status(map, osd));
        node
    };
    let mut summary = Node::Object(Vec::new());
    space_fields(&mut summary, "total_", space);
    for (name, value) in
        [("average_utilization", used_percent), ("min_var", 1.0), ("max_var", 1.0), ("dev", 0.0)]
    {
        summary.push(name, value);
    }
    object! { "nodes": Node::array(map.osd_ids().map(node)), "stray": Vec::new(), "summary": summary }
}

/// Adds the fields of a space. The store does not distinguish data from omap and metadata.
pub(super) fn space_fields(node: &mut Node, prefix: &'static str, space: Space) {
    let kb = |bytes: u64| bytes >> 10;
    let fields = [
        ("kb", kb(space.total)),
        ("kb_used", kb(space.used)),
        ("kb_used_data", 0),
        ("kb_used_omap", 0),
        ("kb_used_meta", 0),
        ("kb_avail", kb(space.available())),
    ];
    for (name, value) in fields {
        node.push(&format!("{prefix}{name}"), value);
    }
}

fn df_text(call: &Call<'_>) -> String {
    use Align::{Left, Right};
    let (map, space) = (call.state.osdmap(), call.usage.space);
    let right = ["SIZE", "RAW USE", "DATA", "OMAP", "META", "AVAIL", "%USE", "VAR", "PGS", "STATUS"];
    let left = [("ID", Right), ("CLASS", Right), ("WEIGHT", Left), ("REWEIGHT", Right)];
    let mut table = Table::new(left.into_iter().chain(right.map(|title| (title, Right))));
    let one = space.of_one(call.state.served_osds().count());
    let sizes = |space: Space| {
        let sizes = [space.total, space.used, 0, 0, 0, space.available()].map(bytes);
        sizes.into_iter().chain([percent(space.used_ratio())])
    };
    for osd in map.osd_ids() {
        let about = [
            osd.0.to_string(),
            String::new(),
            format!("{:.5}", weight(map, osd)),
            format!("{:.5}", fraction(map.weight(osd))),
        ];
        let served = call.state.is_served(osd);
        let rest = [
            if served { "1.00" } else { "0" }.to_owned(),
            Totals::pgs_on(call, osd).all.to_string(),
            crush::status(map, osd).to_owned(),
        ];
        table.row(about.into_iter().chain(sizes(if served { one } else { Space::default() })).chain(rest));
    }
    let total = ["", "", "", "TOTAL"].map(str::to_owned);
    table.row(total.into_iter().chain(sizes(space)));
    format!("{table}MIN/MAX VAR: 1.00/1.00  STDDEV: 0\n")
}

fn weight(map: &OsdMap, osd: OsdId) -> f64 {
    let buckets = map.crush.buckets.iter().flatten();
    let weights = buckets.filter_map(|bucket| {
        let at = bucket.items.iter().position(|item| *item == osd.0)?;
        bucket.item_weight(at)
    });
    weights.map(fraction).next().unwrap_or_default()
}

/// The activity of pools. Nothing is ever recovered here, and the monitor has no rates of client
/// requests.
pub(super) fn pool_stats(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let pools: Vec<PoolId> = match call.args.text("pool_name") {
        Some(name) => vec![call.state.pool_id(name)?],
        None => map.pools.keys().copied().collect(),
    };
    let name = |id: PoolId| map.pool_name(id).map(text::of).unwrap_or_default();
    let node = |id: &PoolId| {
        object! {
            "pool_name": name(*id), "pool_id": id.0,
            "recovery": object! {}, "recovery_rate": object! {}, "client_io_rate": object! {},
        }
    };
    let plain = |id: &PoolId| format!("pool {} id {}\n  nothing is going on\n\n", name(*id), id.0);
    Ok(call.print(|_| Node::array(pools.iter().map(node)), |_| pools.iter().map(plain).collect()))
}
