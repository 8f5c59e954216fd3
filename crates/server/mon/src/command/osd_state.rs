//! `osd in | out | down | reweight | primary-affinity | lost | ok-to-stop | safe-to-destroy | pause |
//! unpause`: the state of OSDs.
//!
//! The map changes as in a stock cluster, and clients receive every epoch. An OSD that is out has no
//! placement groups; if no other OSD can take them, requests wait until it is in again. An OSD that is
//! marked down comes up again at the monitor's next tick
//! ([`State::revive_osds`](crate::state::State::revive_osds)), like a stock OSD that finds itself marked
//! down.

use loligo_maps::{Incremental, MapFlags, OsdMap, OsdSet};
use loligo_wire::{OsdId, PgId};

use super::osd_args::osd_arg;
use super::{Call, Errno, Failure, Outcome, Reply};
use crate::output::json::{Node, object};

pub(super) fn set_in(call: &mut Call<'_>) -> Outcome {
    let there = |map: &OsdMap, osd| map.is_in(osd);
    each(call, ("is already in", "marked in"), there, |inc, osd| inc.osd_weight(osd, OsdMap::WEIGHT_IN))
}

pub(super) fn set_out(call: &mut Call<'_>) -> Outcome {
    let there = |map: &OsdMap, osd| !map.is_in(osd);
    each(call, ("is already out", "marked out"), there, |inc, osd| inc.osd_weight(osd, 0))
}

pub(super) fn set_down(call: &mut Call<'_>) -> Outcome {
    let there = |map: &OsdMap, osd| !map.is_up(osd);
    each(call, ("is already down", "marked down"), there, Incremental::osd_down)
}

/// Changes those OSDs of `ids` that are not in the wanted state yet, in one epoch. The texts are a stock
/// monitor's: `already` for OSDs in that state, `done` for the others.
fn each(
    call: &mut Call<'_>,
    (already, done): (&str, &str),
    there: fn(&OsdMap, OsdId) -> bool,
    change: fn(&mut Incremental, OsdId),
) -> Outcome {
    let map = call.state.osdmap();
    let (mut status, mut changed) = (String::new(), Vec::new());
    for osd in osds(map, &call.args.texts("ids"))? {
        status += &match (map.exists(osd), there(map, osd)) {
            (false, _) => format!("osd.{osd} does not exist. "),
            (true, true) => format!("osd.{osd} {already}. "),
            (true, false) => {
                changed.push(osd);
                format!("{done} osd.{osd}. ")
            }
        };
    }
    if !changed.is_empty() {
        call.state.change_osdmap(call.now, |_, inc| changed.iter().for_each(|osd| change(inc, *osd)))?;
    }
    Ok(Reply::status(status))
}

/// The OSDs that the words name: `0`, `osd.0`, or all for `all`, `any` and `*`.
fn osds(map: &OsdMap, ids: &[&str]) -> Result<Vec<OsdId>, Failure> {
    if ids.iter().any(|id| matches!(*id, "all" | "any" | "*")) {
        return Ok(map.osd_ids().collect());
    }
    let parse = |id: &&str| {
        let number = id.strip_prefix("osd.").unwrap_or(id).parse::<i32>().ok().filter(|number| *number >= 0);
        let why = || format!("Expected option value to be integer, got '{id}'invalid osd id-1");
        number.map(OsdId).ok_or_else(|| Failure::invalid(why()))
    };
    let mut osds: Vec<OsdId> = ids.iter().map(parse).collect::<Result<_, _>>()?;
    osds.sort_unstable();
    osds.dedup();
    Ok(osds)
}

/// Stops OSDs. Refused for served ones: that would stop the whole server.
pub(super) fn stop(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let mut status = String::new();
    for osd in osds(map, &call.args.texts("ids"))? {
        if call.state.is_served(osd) {
            return Err(only_one(osd));
        }
        status += &if map.exists(osd) {
            format!("osd.{osd} is already down. ")
        } else {
            format!("osd.{osd} does not exist. ")
        };
    }
    Ok(Reply::status(status))
}

pub(super) fn reweight(call: &mut Call<'_>) -> Outcome {
    let osd = existing(call)?;
    let weight = call.args.float("weight").unwrap_or_default();
    // A fraction of the full weight, from 0 to 1.
    let fixed = OsdMap::fixed_weight(weight);
    call.state.change_osdmap(call.now, |_, inc| inc.osd_weight(osd, fixed))?;
    Ok(Reply::status(format!("reweighted osd.{osd} to {weight} ({fixed:x})")))
}

pub(super) fn primary_affinity(call: &mut Call<'_>) -> Outcome {
    let osd = existing(call)?;
    let weight = call.args.float("weight").unwrap_or_default();
    let fixed = OsdMap::fixed_weight(weight);
    call.state.change_osdmap(call.now, |_, inc| {
        inc.new_primary_affinity.insert(osd, fixed);
    })?;
    Ok(Reply::status(format!("set osd.{osd} primary-affinity to {weight} ({fixed:x})")))
}

fn existing(call: &Call<'_>) -> Result<OsdId, Failure> {
    let osd = osd_arg(call, "id")?;
    match call.state.osdmap().exists(osd) {
        true => Ok(osd),
        false => Err(Failure::missing(format!("osd.{osd} does not exist"))),
    }
}

/// Declares that the data held only by this OSD is lost.
pub(super) fn lost(call: &mut Call<'_>) -> Outcome {
    if !call.args.flag("yes_i_really_mean_it") {
        let status = "are you SURE?  this might mean real, permanent data loss.  pass --yes-i-really-mean-it if you \
                      really do.";
        return Err(Failure::new(Errno::EPERM, status));
    }
    let osd = existing(call)?;
    let map = call.state.osdmap();
    if map.is_up(osd) {
        return Err(Failure::new(Errno::EBUSY, format!("osd.{osd} is not down")));
    }
    let down_at = map.osd(osd).map(|osd| osd.info.down_at).unwrap_or_default();
    let epoch = call.state.change_osdmap(call.now, |_, inc| {
        inc.new_lost.insert(osd, down_at);
    })?;
    Ok(Reply::status(format!("marked osd lost in epoch {epoch}")))
}

/// Removes OSDs that are down. Served OSDs are refused: they hold all data of the server.
pub(super) fn rm(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let (mut status, mut removed) = (String::new(), Vec::new());
    for osd in osds(map, &call.args.texts("ids"))? {
        match (map.exists(osd), map.is_up(osd)) {
            (false, _) => status += &format!("osd.{osd} does not exist. "),
            (true, true) => {
                let why = format!("osd.{osd} is still up; must be down before removal. ");
                return Err(Failure::new(Errno::EBUSY, status + &why));
            }
            (true, false) if call.state.is_served(osd) => return Err(only_one(osd)),
            (true, false) => removed.push(osd),
        }
    }
    if !removed.is_empty() {
        call.state.remove_reserved_osds(call.now, &removed, false)?;
        let names: Vec<_> = removed.iter().map(|osd| format!("osd.{osd}")).collect();
        status = format!("{}removed {}", status, names.join(", "));
    }
    Ok(Reply::status(status))
}

/// Removes an OSD's data and secrets; its id stays.
pub(super) fn destroy(call: &mut Call<'_>) -> Outcome {
    give_up(call, "destroyed", |call, osd| call.state.destroy_reserved_osd(call.now, osd))
}

/// Removes an OSD's data, its secrets and its id.
pub(super) fn purge(call: &mut Call<'_>) -> Outcome {
    give_up(call, "purged", |call, osd| call.state.remove_reserved_osds(call.now, &[osd], true))
}

/// Succeeds for an OSD that does not exist, and refuses a served one, which holds all data.
fn give_up(
    call: &mut Call<'_>,
    done: &str,
    act: impl FnOnce(&mut Call<'_>, OsdId) -> Result<(), Failure>,
) -> Outcome {
    let osd = osd_arg(call, "id")?;
    if !call.args.flag("yes_i_really_mean_it") {
        let status = "Are you SURE?  Did you verify with 'ceph osd safe-to-destroy'?  This will mean real, permanent \
                      data loss, as well as deletion of cephx and lockbox keys. Pass --yes-i-really-mean-it if you \
                      really do.";
        return Err(Failure::new(Errno::EPERM, status));
    }
    let map = call.state.osdmap();
    match (map.exists(osd), map.is_up(osd)) {
        (false, _) => Ok(Reply::status(format!("osd.{osd} does not exist"))),
        (true, true) => Err(Failure::new(Errno::EBUSY, format!("osd.{osd} is not `down`."))),
        (true, false) if call.state.is_served(osd) => Err(only_one(osd)),
        (true, false) => {
            act(call, osd)?;
            Ok(Reply::status(format!("{done} osd.{osd}")))
        }
    }
}

fn only_one(osd: OsdId) -> Failure {
    let why = format!(
        "osd.{osd} holds all that this cluster stores; to be rid of it, stop the server and remove its folder"
    );
    Failure::new(Errno::EPERM, why)
}

pub(super) fn pause(call: &mut Call<'_>) -> Outcome {
    set_paused(call, MapFlags::union, "set")
}

pub(super) fn unpause(call: &mut Call<'_>) -> Outcome {
    set_paused(call, MapFlags::difference, "unset")
}

fn set_paused(call: &mut Call<'_>, change: fn(MapFlags, MapFlags) -> MapFlags, word: &str) -> Outcome {
    let before = call.state.osdmap().flags;
    let after = change(before, MapFlags::PAUSERD.union(MapFlags::PAUSEWR));
    if after != before {
        call.state.change_osdmap(call.now, |_, inc| inc.new_flags = Some(after))?;
    }
    Ok(Reply::status(format!("pauserd,pausewr is {word}")))
}

/// Whether all placement groups stay available without some OSDs.
pub(super) fn ok_to_stop(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let osds = osds(map, &call.args.texts("ids"))?;
    let (stopped, kept): (Vec<_>, Vec<_>) =
        pgs(map).partition(|(_, acting)| acting.iter().any(|osd| osds.contains(osd)));
    let node = object! {
        "ok_to_stop": stopped.is_empty(), "osds": Node::array(osds.iter().map(|osd| osd.0)),
        "num_ok_pgs": kept.len(), "num_not_ok_pgs": stopped.len(),
    };
    if stopped.is_empty() {
        return Ok(Reply::output(format!("{node}\n")));
    }
    let status =
        format!("unsafe to stop osd(s) at this time ({} PGs are or would become offline)", stopped.len());
    Err(Failure::new(Errno::EBUSY, status))
}

/// Whether no data is lost without some OSDs.
pub(super) fn safe_to_destroy(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let osds = osds(map, &call.args.texts("ids"))?;
    let held = pgs(map).filter(|(_, acting)| acting.iter().any(|osd| osds.contains(osd))).count();
    let list: Vec<_> = osds.iter().map(|osd| osd.0.to_string()).collect();
    let list = list.join(",");
    if held > 0 {
        let status = format!("OSD(s) {list} have {held} pgs currently mapped to them. ");
        return Err(Failure::new(Errno::EBUSY, status));
    }
    // An OSD that is out has no placement groups, but still has data.
    match osds.iter().find(|osd| call.state.is_served(**osd)) {
        Some(osd) => Err(only_one(*osd)),
        None => {
            Ok(Reply::status(format!("OSD(s) {list} are safe to destroy without reducing data durability.")))
        }
    }
}

/// All placement groups with their acting OSDs.
fn pgs(map: &OsdMap) -> impl Iterator<Item = (PgId, OsdSet)> {
    map.pools
        .iter()
        .flat_map(|(pool, facts)| (0..facts.pg_num()).map(|seed| PgId { pool: *pool, seed }))
        .map(|pg| (pg, map.pg_to_up_acting(pg).acting))
}

/// The distribution of placement groups over OSDs.
pub(super) fn utilization(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let counts: Vec<(OsdId, usize)> = map
        .osd_ids()
        .filter(|osd| map.is_in(*osd))
        .map(|osd| (osd, pgs(map).filter(|(_, acting)| acting.contains(&osd)).count()))
        .collect();
    let (Some(min), Some(max)) =
        (counts.iter().min_by_key(|(_, n)| *n), counts.iter().max_by_key(|(_, n)| *n))
    else {
        return Ok(Reply::default());
    };
    let osds = counts.len() as f64;
    let mean = counts.iter().map(|(_, n)| *n as f64).sum::<f64>() / osds;
    let deviation = (counts.iter().map(|(_, n)| (*n as f64 - mean).powi(2)).sum::<f64>() / osds).sqrt();
    let expected = (mean * (1.0 - 1.0 / osds)).sqrt();
    let node = |_: &Call<'_>| {
        object! {
            "avg_pgs": mean, "std_dev": deviation, "expected_baseline_std_dev": expected,
            "min_osd": min.0.0, "min_osd_pgs": min.1, "max_osd": max.0.0, "max_osd_pgs": max.1,
        }
    };
    let extreme = |word: &str, (osd, n): &(OsdId, usize)| {
        let ratio = if mean > 0.0 { *n as f64 / mean } else { 0.0 };
        format!("{word} osd.{osd} with {n} pgs ({ratio} * mean)\n")
    };
    let plain = |_: &Call<'_>| {
        format!(
            "avg {mean}\nstddev {deviation} (expected baseline {expected})\n{}{}",
            extreme("min", min),
            extreme("max", max)
        )
    };
    Ok(call.print(node, plain))
}
