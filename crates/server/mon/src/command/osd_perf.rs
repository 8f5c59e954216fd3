//! `osd perf | blocked-by | numa-status | last-stat-seq`: OSDs' reports about themselves. In Ceph the
//! manager answers these commands from reports that it collects. Here OSDs report nothing, so no OSD
//! shows as slow or blocked.

use loligo_wire::OsdId;

use super::osd_args::osd_arg;
use super::{Call, Outcome, Reply, metadata};
use crate::output::Format;
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};
use crate::output::xml;

/// The store's latencies of commit and apply. They are not measured: the value is 0, as for a memstore
/// OSD.
pub(super) fn perf(call: &mut Call<'_>) -> Outcome {
    let osds: Vec<OsdId> = call.state.served_osds().collect();
    let stats = || {
        object! {
            "commit_latency_ms": 0, "apply_latency_ms": 0, "commit_latency_ns": 0, "apply_latency_ns": 0,
        }
    };
    let node = || Node::array(osds.iter().map(|osd| object! { "id": osd.0, "perf_stats": stats() }));
    if call.format != Format::Plain {
        let node = object! { "pg_ready": true, "osdstats": object! { "osd_perf_infos": node() } };
        return Ok(broken(call, &node));
    }
    let titles = ["osd", "commit_latency(ms)", "apply_latency(ms)"];
    let mut table = Table::new(titles.map(|title| (title, Align::Right)));
    osds.iter().for_each(|osd| table.row([osd.0.to_string(), "0".to_owned(), "0".to_owned()]));
    Ok(Reply::output(table.to_string()))
}

/// The OSDs that block others' placement groups: none.
pub(super) fn blocked_by(call: &mut Call<'_>) -> Outcome {
    if call.format != Format::Plain {
        let infos = object! { "osd_blocked_by_infos": Vec::new() };
        return Ok(broken(call, &object! { "pg_ready": true, "osd_blocked_by": infos }));
    }
    let table = Table::new(["osd", "num_blocked"].map(|title| (title, Align::Right)));
    Ok(Reply::output(table.to_string()))
}

/// A structured reply with the line break that a stock manager puts before its end.
fn broken(call: &Call<'_>, node: &Node) -> Reply {
    let before_end = |text: String, end: &str| {
        let at = text.rfind(end).unwrap_or(text.len());
        format!("{}\n{}", &text[..at], &text[at..])
    };
    Reply::output(match call.format {
        Format::Json | Format::Plain => before_end(node.to_string(), "}"),
        Format::JsonPretty => before_end(node.pretty(), "\n}") + "\n",
        Format::Xml => before_end(xml::write(node, &call.xml_names(), false), "</pg_info>"),
        Format::XmlPretty => xml::write(node, &call.xml_names(), true) + "\n",
    })
}

/// The NUMA nodes of OSDs' networks, disks and CPUs. They are not determined here.
pub(super) fn numa_status(call: &mut Call<'_>) -> Outcome {
    let host = metadata::host(call);
    let osds: Vec<OsdId> = call.state.served_osds().collect();
    let node =
        |_: &Call<'_>| Node::array(osds.iter().map(|osd| object! { "osd": osd.0, "host": host.as_str() }));
    let plain = |_: &Call<'_>| {
        use Align::{Left, Right};
        let titles = [
            ("OSD", Right),
            ("HOST", Left),
            ("NETWORK", Right),
            ("STORAGE", Right),
            ("AFFINITY", Right),
            ("CPUS", Left),
        ];
        let mut table = Table::new(titles);
        for osd in &osds {
            let unknown = || "-".to_owned();
            table.row([osd.0.to_string(), host.clone(), unknown(), unknown(), unknown(), unknown()]);
        }
        table.to_string()
    };
    Ok(call.print(node, plain))
}

/// The number of an OSD's latest report. The statistics are always current, so the latest report is
/// always the one that `ceph tell osd.N flush_pg_stats` has returned.
pub(super) fn last_stat_seq(call: &mut Call<'_>) -> Outcome {
    let osd = osd_arg(call, "id")?;
    let seq = if call.state.is_served(osd) { stat_seq(call.state.osdmap(), osd) } else { 0 };
    match call.format {
        Format::Plain => Ok(Reply::output(format!("{seq}\n"))),
        _ => Ok(Reply::default()),
    }
}

/// The number of a report, as in a stock OSD: the epoch since which the OSD is up, and a count in the
/// lower 32 bits.
pub fn stat_seq(map: &loligo_maps::OsdMap, osd: OsdId) -> u64 {
    let up_from = map.osd(osd).map_or(0, |osd| osd.info.up_from.0);
    (u64::from(up_from) << 32) + 1
}
