//! `osd dump` and `osd pool ls detail`: the osdmap in full.

use std::fmt::Write as _;

use loligo_maps::{Osd, OsdMap, OsdState, PgPool};
use loligo_wire::{EntityAddrVec, OsdId, PgId, PoolId, Uuid};

use super::osd_args::map_of_epoch;
use super::{Call, Failure, Outcome, Reply};
use crate::hierarchy::fraction;
use crate::output::json::{Node, object};
use crate::output::units::stamp;
use crate::{text, view};

pub(super) fn dump(call: &mut Call<'_>) -> Outcome {
    let map = map_of_epoch(call)?;
    Ok(call.print(|_| describe(&map), |_| text(&map)))
}

pub(super) fn pool_ls(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let detail = call.args.text("detail") == Some("detail");
    let node = |_: &Call<'_>| match detail {
        true => Node::array(map.pools.iter().map(|(id, pool)| pool_node("pool_id", map, *id, pool))),
        false => Node::array(map.pool_names.values().map(text::of)),
    };
    let plain = |_: &Call<'_>| match detail {
        true => pools_text(map) + "\n",
        false => map.pool_names.values().map(|name| text::of(name) + "\n").collect(),
    };
    Ok(call.print(node, plain))
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let only = call.args.has("id").then(|| super::osd_args::osd_arg(call, "id")).transpose()?;
    if let Some(osd) = only.filter(|osd| map.osd(*osd).is_none()) {
        return Err(Failure::invalid(format!("osd.{osd} does not exist")));
    }
    let chosen: Vec<_> = map.osd_ids().filter(|osd| only.is_none_or(|only| only == *osd)).collect();
    let node = |_: &Call<'_>| match only {
        Some(osd) => map.osd(osd).map_or_else(|| object! {}, |o| osd_node(map, osd, o)),
        None => osds_node(map),
    };
    let line = |osd: &OsdId| map.osd(*osd).map(|o| osd_text(map, *osd, o)).unwrap_or_default();
    Ok(call.json(node).unwrap_or_else(|| Reply::output(chosen.iter().map(line).collect::<String>())))
}

pub(super) fn describe(map: &OsdMap) -> Node {
    let flags = view::map_flags(map.flags);
    let mut sorted = flags.clone();
    sorted.sort_unstable();
    let mut node = object! {
        "epoch": map.epoch.0,
        "fsid": map.fsid.to_string(),
        "created": stamp(map.created),
        "modified": stamp(map.modified),
        "last_up_change": stamp(map.last_up_change),
        "last_in_change": stamp(map.last_in_change),
        "flags": flags.join(","),
        "flags_num": map.flags.bits(),
        "flags_set": Node::array(sorted),
        "crush_version": map.crush_version,
        "full_ratio": map.full_ratio,
        "backfillfull_ratio": map.backfillfull_ratio,
        "nearfull_ratio": map.nearfull_ratio,
        "cluster_snapshot": "",
        "pool_max": map.pool_max.0,
        "max_osd": map.max_osd(),
        "require_min_compat_client": view::release(map.require_min_compat_client),
        "min_compat_client": "jewel",
        "require_osd_release": view::release(map.require_osd_release),
        "pools": Node::array(map.pools.iter().map(|(id, pool)| pool_node("pool", map, *id, pool))),
        "osds": osds_node(map),
        "osd_xinfo": Node::array(map.osd_ids().filter_map(|osd| Some(xinfo_node(osd, map.osd(osd)?)))),
    };
    exceptions(map, &mut node);
    node.push("blocklist", blocklist(&map.blocklist.addrs));
    node.push("range_blocklist", blocklist(&map.blocklist.ranges));
    let profiles = map.erasure_code_profiles.iter().map(|(name, profile)| (name, view::name_map(profile)));
    node.push("erasure_code_profiles", Node::map(profiles));
    node.push("removed_snaps_queue", snaps_by_pool(&map.removed_snaps_queue));
    node.push("new_removed_snaps", snaps_by_pool(&map.new_removed_snaps));
    node.push("new_purged_snaps", snaps_by_pool(&map.new_purged_snaps));
    let words = |flags: u32| Node::array(view::osd_state(OsdState::from_bits_retain(flags)));
    let nodes = map.crush_node_flags.iter();
    let node_name = |id: &i32| crate::hierarchy::name_of(&map.crush, *id);
    node.push("crush_node_flags", Node::map(nodes.map(|(id, flags)| (node_name(id), words(*flags)))));
    let class_name = |id: &i32| map.crush.class_names.get(id).map(text::of).unwrap_or_default();
    let classes = map.device_class_flags.iter();
    node.push("device_class_flags", Node::map(classes.map(|(id, flags)| (class_name(id), words(*flags)))));
    node
}

/// The placement groups that CRUSH does not place (`OSDMap::dump`).
fn exceptions(map: &OsdMap, node: &mut Node) {
    let osds = |osds: &[OsdId]| Node::array(osds.iter().map(|osd| osd.0));
    let placed = |(pg, on): (&PgId, &Vec<OsdId>)| object! { "pgid": pg.to_string(), "osds": osds(on) };
    let pair = |(from, to): &(OsdId, OsdId)| object! { "from": from.0, "to": to.0 };
    let replaced = map.pg_upmap_items.iter().map(|(pg, pairs)| {
        object! { "pgid": pg.to_string(), "mappings": Node::array(pairs.iter().map(pair)) }
    });
    node.push("pg_upmap", Node::array(map.pg_upmap.iter().map(placed)));
    node.push("pg_upmap_items", Node::array(replaced));
    node.push("pg_temp", Node::array(map.pg_temp.iter().map(placed)));
    // Ceph writes numbers and names in turn here, not objects.
    let first = |(pg, osd): (&PgId, &OsdId)| [Node::from(pg.to_string()), Node::from(osd.0)];
    node.push("primary_temp", Node::array(map.primary_temp.iter().flat_map(first)));
}

/// The same as text (`OSDMap::print`).
fn exceptions_text(map: &OsdMap) -> String {
    let listed =
        |ids: &mut dyn Iterator<Item = OsdId>| ids.map(|osd| osd.0.to_string()).collect::<Vec<_>>().join(",");
    let mut out = String::new();
    for (pg, osds) in &map.pg_upmap {
        let _ = writeln!(out, "pg_upmap {pg} [{}]", listed(&mut osds.iter().copied()));
    }
    for (pg, pairs) in &map.pg_upmap_items {
        let _ =
            writeln!(out, "pg_upmap_items {pg} [{}]", listed(&mut pairs.iter().flat_map(|(a, b)| [*a, *b])));
    }
    for (pg, osds) in &map.pg_temp {
        let _ = writeln!(out, "pg_temp {pg} [{}]", listed(&mut osds.iter().copied()));
    }
    for (pg, osd) in &map.primary_temp {
        let _ = writeln!(out, "primary_temp {pg} {}", osd.0);
    }
    out
}

fn blocklist(addrs: &loligo_maps::AddrTimes) -> Node {
    Node::map(addrs.iter().map(|(addr, until)| (view::bare(addr), stamp(*until))))
}

fn snaps_by_pool(queue: &std::collections::BTreeMap<PoolId, loligo_maps::SnapSet>) -> Node {
    let interval =
        |(begin, length): (loligo_wire::SnapId, u64)| object! { "begin": begin.0, "length": length };
    Node::array(queue.iter().map(|(pool, snaps)| {
        object! { "pool": pool.0, "snaps": Node::array(snaps.intervals().map(interval)) }
    }))
}

fn osds_node(map: &OsdMap) -> Node {
    Node::array(map.osd_ids().filter_map(|osd| Some(osd_node(map, osd, map.osd(osd)?))))
}

fn osd_node(map: &OsdMap, id: OsdId, osd: &Osd) -> Node {
    object! {
        "osd": id.0,
        "uuid": osd.uuid.to_string(),
        "up": i32::from(map.is_up(id)),
        "in": i32::from(map.is_in(id)),
        "weight": fraction(map.weight(id)),
        "primary_affinity": fraction(map.primary_affinity(id)),
        "last_clean_begin": osd.info.last_clean_begin.0,
        "last_clean_end": osd.info.last_clean_end.0,
        "up_from": osd.info.up_from.0,
        "up_thru": osd.info.up_thru.0,
        "down_at": osd.info.down_at.0,
        "lost_at": osd.info.lost_at.0,
        "public_addrs": view::addrvec(&osd.client_addrs),
        "cluster_addrs": view::addrvec(&osd.cluster_addrs),
        "heartbeat_back_addrs": view::addrvec(&osd.hb_back_addrs),
        "heartbeat_front_addrs": view::addrvec(&osd.hb_front_addrs),
        "public_addr": view::legacy_addr(&osd.client_addrs),
        "cluster_addr": view::legacy_addr(&osd.cluster_addrs),
        "heartbeat_back_addr": view::legacy_addr(&osd.hb_back_addrs),
        "heartbeat_front_addr": view::legacy_addr(&osd.hb_front_addrs),
        "state": Node::array(view::osd_state(map.state(id))),
    }
}

fn xinfo_node(id: OsdId, osd: &Osd) -> Node {
    object! {
        "osd": id.0,
        "down_stamp": stamp(osd.xinfo.down_stamp),
        "laggy_probability": osd.xinfo.laggy_probability,
        "laggy_interval": osd.xinfo.laggy_interval_s,
        "features": osd.xinfo.features,
        "old_weight": osd.xinfo.old_weight,
        "dead_epoch": osd.xinfo.dead_epoch.0,
    }
}

fn pool_node(id_field: &str, map: &OsdMap, id: PoolId, pool: &PgPool) -> Node {
    let mut node = Node::Object(Vec::new());
    node.push(id_field, id.0);
    node.push("pool_name", map.pool_name(id).map(text::of).unwrap_or_default());
    let Node::Object(rest) = pool_fields(pool) else { return node };
    rest.into_iter().for_each(|(name, value)| node.push(&name, value));
    node
}

fn pool_fields(pool: &PgPool) -> Node {
    let snap = |snap: &loligo_maps::PoolSnap| {
        object! { "snapid": snap.id.0, "stamp": stamp(snap.stamp), "name": text::of(&snap.name) }
    };
    let selfmanaged = !pool.flags.contains(loligo_maps::PoolFlags::POOL_SNAPS);
    object! {
        "create_time": stamp(pool.create_time),
        "flags": pool.flags.bits(),
        "flags_names": view::pool_flags(pool.flags).join(","),
        "type": pool.kind.0,
        "size": pool.size,
        "min_size": pool.min_size,
        "crush_rule": pool.crush_rule,
        "object_hash": pool.object_hash.0,
        "pg_autoscale_mode": view::autoscale_mode(pool.pg_autoscale_mode),
        "pg_num": pool.pg_num(),
        "pg_placement_num": pool.pgp_num(),
        "pg_placement_num_target": pool.pgp_num_target,
        "pg_num_target": pool.pg_num_target,
        "pg_num_pending": pool.pg_num_pending,
        "last_change": pool.last_change.0.to_string(),
        "last_force_op_resend": pool.last_force_op_resend.0.to_string(),
        "last_force_op_resend_prenautilus": pool.last_force_op_resend_prenautilus.0.to_string(),
        "last_force_op_resend_preluminous": pool.last_force_op_resend_preluminous.0.to_string(),
        "auid": pool.auid,
        "snap_mode": if selfmanaged { "selfmanaged" } else { "pool" },
        "snap_seq": pool.snap_seq.0,
        "snap_epoch": pool.snap_epoch.0,
        "pool_snaps": Node::array(pool.snaps.values().map(snap)),
        "removed_snaps": "[]",
        "quota_max_bytes": pool.quota_max_bytes,
        "quota_max_objects": pool.quota_max_objects,
        "tiers": Vec::new(),
        "tier_of": pool.tier.tier_of.0,
        "read_tier": pool.tier.read_tier.0,
        "write_tier": pool.tier.write_tier.0,
        "cache_mode": "none",
        "erasure_code_profile": pool.erasure_code_profile.to_string(),
        "use_gmt_hitset": pool.tier.use_gmt_hitset,
        "stripe_width": pool.stripe_width,
        "expected_num_objects": pool.expected_num_objects,
        "fast_read": pool.fast_read,
        "options": Node::map(super::pool_opts::options(pool)),
        "application_metadata": applications(pool),
    }
}

/// A pool's applications with their settings.
pub(super) fn applications(pool: &PgPool) -> Node {
    Node::map(
        pool.application_metadata.iter().map(|(app, settings)| (text::of(app), view::name_map(settings))),
    )
}

fn text(map: &OsdMap) -> String {
    let mut out = format!(
        "epoch {}\nfsid {}\ncreated {}\nmodified {}\nflags {}\ncrush_version {}\nfull_ratio {}\n\
         backfillfull_ratio {}\nnearfull_ratio {}\nrequire_min_compat_client {}\nmin_compat_client jewel\n\
         require_osd_release {}\n",
        map.epoch,
        map.fsid,
        stamp(map.created),
        stamp(map.modified),
        view::map_flags(map.flags).join(","),
        map.crush_version,
        map.full_ratio,
        map.backfillfull_ratio,
        map.nearfull_ratio,
        view::release(map.require_min_compat_client),
        view::release(map.require_osd_release),
    );
    out += &pools_text(map);
    let _ = writeln!(out, "max_osd {}", map.max_osd());
    out.extend(map.osd_ids().filter_map(|osd| Some(osd_text(map, osd, map.osd(osd)?))));
    out += &exceptions_text(map);
    let mut ranges = String::new();
    for (range, until) in map.blocklist.ranges.iter() {
        ranges += &format!("range blocklist {} expires {}\n", super::blocklist::shown(range), stamp(*until));
    }
    for (addr, until) in map.blocklist.addrs.iter() {
        let _ = writeln!(out, "blocklist {} expires {}", view::bare(addr), stamp(*until));
    }
    out + &ranges
}

fn pools_text(map: &OsdMap) -> String {
    map.pools.iter().map(|(id, pool)| pool_text(map, *id, pool)).collect()
}

fn pool_text(map: &OsdMap, id: PoolId, pool: &PgPool) -> String {
    let name = map.pool_name(id).map(text::of).unwrap_or_default();
    let kind = if pool.is_erasure() { "erasure" } else { "replicated" };
    let mut out = format!(
        "pool {id} '{name}' {kind} size {} min_size {} crush_rule {} object_hash rjenkins pg_num {} pgp_num {} \
         autoscale_mode {} last_change {}",
        pool.size,
        pool.min_size,
        pool.crush_rule,
        pool.pg_num(),
        pool.pgp_num(),
        view::autoscale_mode(pool.pg_autoscale_mode),
        pool.last_change,
    );
    let flags = view::pool_flags(pool.flags);
    if !flags.is_empty() {
        let _ = write!(out, " flags {}", flags.join(","));
    }
    for (quota, word) in [(pool.quota_max_bytes, "max_bytes"), (pool.quota_max_objects, "max_objects")] {
        if quota != 0 {
            let _ = write!(out, " {word} {quota}");
        }
    }
    let _ = write!(out, " stripe_width {}", pool.stripe_width);
    for (name, value) in super::pool_opts::options(pool) {
        let _ = write!(out, " {name} {value}");
    }
    let apps: Vec<_> = pool.application_metadata.keys().map(text::of).collect();
    if !apps.is_empty() {
        let _ = write!(out, " application {}", apps.join(","));
    }
    out.push('\n');
    for snap in pool.snaps.values() {
        let _ = writeln!(out, "\tsnap {} '{}' {}", snap.id, text::of(&snap.name), stamp(snap.stamp));
    }
    out
}

fn osd_text(map: &OsdMap, id: OsdId, osd: &Osd) -> String {
    let up = if map.is_up(id) { "up  " } else { "down" };
    let inside = if map.is_in(id) { "in " } else { "out" };
    let info = &osd.info;
    let state = view::osd_state(map.state(id)).join(",");
    let uuid = if osd.uuid == Uuid::default() { String::new() } else { osd.uuid.to_string() };
    // An OSD that was never up has no addresses.
    let addrs =
        |addrs: &EntityAddrVec| if addrs.0.is_empty() { String::new() } else { view::bracketed(addrs) };
    format!(
        "osd.{id} {up} {inside} weight {} up_from {} up_thru {} down_at {} last_clean_interval [{},{}) {} {} {state} {}\n",
        fraction(map.weight(id)),
        info.up_from,
        info.up_thru,
        info.down_at,
        info.last_clean_begin,
        info.last_clean_end,
        addrs(&osd.client_addrs),
        addrs(&osd.cluster_addrs),
        uuid,
    )
}
