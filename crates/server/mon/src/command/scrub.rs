//! `pg scrub | deep-scrub | repair`, and the same for OSDs and pools; `pg force-recovery` and similar
//! commands, which have no effect because all placement groups are clean. In Ceph, the manager answers
//! them.

use loligo_wire::{OsdId, PgId, PoolId};

use super::{Call, Errno, Failure, Outcome, Reply};
use crate::Scrub;

/// The kind of scrub, from the command's last word.
fn kind(call: &Call<'_>) -> Scrub {
    match call.args.prefix().unwrap_or_default().rsplit(' ').next() {
        Some("deep-scrub") => Scrub::Deep,
        Some("repair") => Scrub::Repair,
        _ => Scrub::Shallow,
    }
}

pub(super) fn pg(call: &mut Call<'_>) -> Outcome {
    let pg = existing(call, call.args.required("pgid"))?;
    let map = call.state.osdmap();
    let primary = map.pg_to_up_acting(pg).acting_primary;
    let primary =
        primary.ok_or_else(|| Failure::new(Errno::EAGAIN, format!("pg {pg} has no primary osd")))?;
    if !map.is_up(primary) {
        return Err(Failure::new(Errno::EAGAIN, format!("pg {pg} primary osd.{primary} not up")));
    }
    let kind = kind(call);
    call.pgs.scrub(&[pg], kind);
    Ok(Reply::status(format!("instructing pg {pg} on osd.{primary} to {}", kind.word())))
}

/// Scrubs all placement groups with an OSD as primary.
pub(super) fn osd(call: &mut Call<'_>) -> Outcome {
    let (map, who) = (call.state.osdmap(), call.args.required("who"));
    let osds = match who {
        "*" | "all" | "any" => map.osd_ids().filter(|osd| map.is_up(*osd)).collect(),
        _ => vec![up_osd(call, who)?],
    };
    let (kind, map) = (kind(call), call.state.osdmap());
    let led = |pg: &PgId| map.pg_to_up_acting(*pg).acting_primary.is_some_and(|osd| osds.contains(&osd));
    let pgs: Vec<PgId> = map.pools.keys().flat_map(|pool| pgs_of(call, *pool)).filter(led).collect();
    call.pgs.scrub(&pgs, kind);
    let named: Vec<String> = osds.iter().map(ToString::to_string).collect();
    Ok(Reply::status(format!("instructed osd(s) {} to {}", named.join(","), kind.word())))
}

fn up_osd(call: &Call<'_>, who: &str) -> Result<OsdId, Failure> {
    let number = who.strip_prefix("osd.").unwrap_or(who).parse::<i32>().ok().filter(|number| *number >= 0);
    let said = || format!("Expected option value to be integer, got '{who}'invalid osd '{who}'");
    let osd = OsdId(number.ok_or_else(|| Failure::invalid(said()))?);
    match call.state.osdmap().is_up(osd) {
        true => Ok(osd),
        false => Err(Failure::new(Errno::EAGAIN, format!("osd.{osd} is not up"))),
    }
}

/// Scrubs all placement groups of pools.
pub(super) fn pool(call: &mut Call<'_>) -> Outcome {
    let pgs = pgs_of_pools(call)?;
    call.pgs.scrub(&pgs, kind(call));
    Ok(Reply::default())
}

fn pgs_of_pools(call: &Call<'_>) -> Result<Vec<PgId>, Failure> {
    let mut pgs = Vec::new();
    for name in call.args.texts("who") {
        let unknown = || Failure::missing(format!("unrecognized pool '{name}'"));
        let pool = call.state.osdmap().pool_by_name(name.as_bytes()).ok_or_else(unknown)?;
        pgs.extend(pgs_of(call, pool));
    }
    Ok(pgs)
}

fn pgs_of(call: &Call<'_>, pool: PoolId) -> impl Iterator<Item = PgId> + use<> {
    let number = call.state.osdmap().pool(pool).map_or(0, |pool| pool.pg_num());
    (0..number).map(move |seed| PgId { pool, seed })
}

fn existing(call: &Call<'_>, name: &str) -> Result<PgId, Failure> {
    let invalid = || Failure::invalid(format!("invalid pgid '{name}'"));
    let pg: PgId = name.parse().map_err(|_| invalid())?;
    let number = call.state.osdmap().pool(pg.pool).map_or(0, |pool| pool.pg_num());
    match pg.seed < number {
        true => Ok(pg),
        false => Err(Failure::missing(format!("pg {name} does not exist"))),
    }
}

/// `pg [cancel-]force-recovery | [cancel-]force-backfill`: nothing is ever recovered or backfilled here.
pub(super) fn force(call: &mut Call<'_>) -> Outcome {
    let mut pgs = Vec::new();
    let mut status = String::new();
    for name in call.args.texts("pgid") {
        match existing(call, name) {
            Ok(pg) => pgs.push(pg),
            Err(failure) => status += &format!("{}; ", failure.status),
        }
    }
    Ok(Reply::status(status + &not_forced(call, &pgs)))
}

/// The same for all placement groups of pools.
pub(super) fn force_pools(call: &mut Call<'_>) -> Outcome {
    let pgs = pgs_of_pools(call)?;
    Ok(Reply::status(not_forced(call, &pgs)))
}

fn not_forced(call: &Call<'_>, pgs: &[PgId]) -> String {
    let word = call.args.prefix().unwrap_or_default().rsplit(' ').next().unwrap_or_default();
    let why = match word {
        "force-recovery" => "doesn't require recovery",
        "force-backfill" => "doesn't require backfilling",
        "cancel-force-recovery" => "recovery not forced",
        _ => "backfill not forced",
    };
    let each: String = pgs.iter().map(|pg| format!("pg {pg} {why}; ")).collect();
    each + "\n"
}

/// `pg debug unfound_objects_exist | degraded_pgs_exist`: there are never any.
pub(super) fn debug(_: &mut Call<'_>) -> Outcome {
    Ok(Reply::output("FALSE\n"))
}

/// `pg repeer`: there is no other copy to peer with.
pub(super) fn repeer(call: &mut Call<'_>) -> Outcome {
    existing(call, call.args.required("pgid"))?;
    let status = "not enough up OSDs in the cluster to force repeer";
    Err(Failure::new(Errno::EAGAIN, status))
}
