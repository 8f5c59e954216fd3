//! `osd pg-temp | primary-temp | pg-upmap | pg-upmap-items | rm-pg-upmap… | force-create-pg`: placement
//! groups that are placed elsewhere than by CRUSH. All OSDs share one store: the commands only change
//! which OSD serves a placement group, and no data moves.

use loligo_maps::Incremental;
use loligo_wire::{OsdId, PgId};

use super::{Call, Errno, Failure, Outcome, Reply};

pub(super) fn pg_temp(call: &mut Call<'_>) -> Outcome {
    let (pg, osds) = (existing(call)?, osds(call)?);
    let status = match osds.is_empty() {
        true => format!("done cleaning up pg_temp of {pg}"),
        false => format!("set {pg} pg_temp mapping to {}", listed(&osds)),
    };
    change(call, status, |inc| drop(inc.new_pg_temp.insert(pg, osds)))
}

/// An id of −1 removes the mapping.
pub(super) fn primary_temp(call: &mut Call<'_>) -> Outcome {
    let pg = existing(call)?;
    let none = call.args.int("id") == Some(-1);
    let osd = if none { OsdId(-1) } else { osds(call)?.first().copied().unwrap_or(OsdId(-1)) };
    let status = format!("set {pg} primary_temp mapping to {}", osd.0);
    change(call, status, |inc| {
        inc.new_primary_temp.insert(pg, osd);
    })
}

pub(super) fn upmap(call: &mut Call<'_>) -> Outcome {
    let (pg, osds) = (existing(call)?, osds(call)?);
    let status = format!("set {pg} pg_upmap mapping to {}", listed(&osds));
    change(call, status, |inc| drop(inc.new_pg_upmap.insert(pg, osds)))
}

pub(super) fn upmap_items(call: &mut Call<'_>) -> Outcome {
    let pg = existing(call)?;
    if !call.args.values("id").len().is_multiple_of(2) {
        return Err(Failure::invalid("you must specify pairs of osd ids to be remapped"));
    }
    let osds = osds(call)?;
    let (given, _) = osds.as_chunks::<2>();
    let (same, pairs): (Vec<[OsdId; 2]>, Vec<[OsdId; 2]>) =
        given.iter().copied().partition(|[from, to]| from == to);
    let notes: Vec<String> =
        same.iter().map(|[from, to]| format!("from osd.{} == to osd.{}", from.0, to.0)).collect();
    let notes = if notes.is_empty() { String::new() } else { notes.join(", ") + ", " };
    if pairs.is_empty() {
        return Err(Failure::invalid(format!("{notes}no valid upmap items(pairs) is specified")));
    }
    let pairs: Vec<(OsdId, OsdId)> = pairs.into_iter().map(|[from, to]| (from, to)).collect();
    let shown: Vec<String> = pairs.iter().map(|(from, to)| format!("{}->{}", from.0, to.0)).collect();
    let status = format!("{notes}set {pg} pg_upmap_items mapping to [{}]", shown.join(","));
    change(call, status, |inc| drop(inc.new_pg_upmap_items.insert(pg, pairs)))
}

pub(super) fn rm_upmap(call: &mut Call<'_>) -> Outcome {
    let pg = existing(call)?;
    change(call, format!("clear {pg} pg_upmap mapping"), |inc| {
        inc.old_pg_upmap.insert(pg);
    })
}

pub(super) fn rm_upmap_items(call: &mut Call<'_>) -> Outcome {
    let pg = existing(call)?;
    change(call, format!("clear {pg} pg_upmap_items mapping"), |inc| {
        inc.old_pg_upmap_items.insert(pg);
    })
}

/// Recreates a lost placement group. None is ever lost here, and the command could only destroy one, so
/// it is refused.
pub(super) fn force_create(call: &mut Call<'_>) -> Outcome {
    let text = call.args.required("pgid");
    let pg: PgId = text.parse().map_err(|_| Failure::invalid(format!("invalid pgid '{text}'")))?;
    if !exists(call, pg) {
        return Err(Failure::missing(format!("pg {pg} should not exist")));
    }
    if !call.args.flag("yes_i_really_mean_it") {
        let status = "This command will recreate a lost (as in data lost) PG with data in it, such that the cluster will \
                      give up ever trying to recover the lost data.  Do this only if you are certain that all copies \
                      of the PG are in fact lost and you are willing to accept that the data is permanently \
                      destroyed.  Pass --yes-i-really-mean-it to proceed.";
        return Err(Failure::new(Errno::EPERM, status));
    }
    Err(Failure::new(Errno::EPERM, format!("pg {pg} is not lost; it is left as it is")))
}

fn exists(call: &Call<'_>, pg: PgId) -> bool {
    call.state.osdmap().pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num())
}

fn existing(call: &Call<'_>) -> Result<PgId, Failure> {
    let text = call.args.required("pgid");
    let pg: PgId = text.parse().map_err(|_| Failure::invalid(format!("invalid pgid '{text}'")))?;
    exists(call, pg).then_some(pg).ok_or_else(|| Failure::missing(format!("pg {pg} does not exist")))
}

/// The OSDs that the command names. Each must exist.
fn osds(call: &Call<'_>) -> Result<Vec<OsdId>, Failure> {
    let parse = |text: String| {
        let number = text.strip_prefix("osd.").unwrap_or(&text).parse::<i32>();
        let osd = OsdId(number.map_err(|_| Failure::invalid(format!("invalid osd id '{text}'")))?);
        let there = call.state.osdmap().exists(osd);
        there.then_some(osd).ok_or_else(|| Failure::missing(format!("osd.{} does not exist", osd.0)))
    };
    call.args.values("id").into_iter().map(parse).collect()
}

fn listed(osds: &[OsdId]) -> String {
    let each: Vec<_> = osds.iter().map(|osd| osd.0.to_string()).collect();
    format!("[{}]", each.join(","))
}

fn change(call: &mut Call<'_>, status: String, change: impl FnOnce(&mut Incremental)) -> Outcome {
    call.state.change_osdmap(call.now, |_, inc| change(inc))?;
    Ok(Reply::status(status))
}
