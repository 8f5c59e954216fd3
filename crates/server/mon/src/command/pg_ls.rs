//! `pg ls` and similar commands: a selection of placement groups with their statistics. In Ceph, the
//! manager answers them.

use loligo_wire::{OsdId, PoolId};

use super::osd_args::osd_arg;
use super::pg_dump::{OMAP_NOTE, pg_stat, placed_cells, scrub_stamps, sum_cells};
use super::{Call, Errno, Failure, Outcome};
use crate::PgUsage;
use crate::output::json::{Node, object};
use crate::output::table::{Align, Table};
use crate::output::units::age_of;
use crate::text;

/// The states of placement groups, as a manager of 16.2.15 lists them.
const STATES: &str = "stale+creating+active+activating+clean+recovery_wait+recovery_toofull+recovering+forced_recovery+down+\
    recovery_unfound+backfill_unfound+undersized+degraded+remapped+premerge+scrubbing+deep+inconsistent+peering+repair+\
    backfill_wait+backfilling+forced_backfill+backfill_toofull+incomplete+peered+snaptrim+snaptrim_wait+snaptrim_error";

pub(super) fn ls(call: &mut Call<'_>) -> Outcome {
    let pool = pool_arg(call)?;
    list(call, pool, Holder::Any)
}

pub(super) fn ls_by_pool(call: &mut Call<'_>) -> Outcome {
    let name = call.args.required("poolstr");
    let pool = call.state.osdmap().pool_by_name(&text::to_bytes(name));
    let pool = pool.ok_or_else(|| Failure::missing(format!("pool {name} does not exist")))?;
    list(call, Some(pool), Holder::Any)
}

/// `pg ls-by-osd`: the placement groups whose acting set contains the OSD.
pub(super) fn ls_by_osd(call: &mut Call<'_>) -> Outcome {
    ls_by(call, Holder::Acting)
}

/// `pg ls-by-primary`: the placement groups whose acting primary is the OSD.
pub(super) fn ls_by_primary(call: &mut Call<'_>) -> Outcome {
    ls_by(call, Holder::Primary)
}

/// The OSD that placement groups are selected by.
enum Holder {
    Any,
    Acting(OsdId),
    Primary(OsdId),
}

fn ls_by(call: &mut Call<'_>, holder: fn(OsdId) -> Holder) -> Outcome {
    let pool = pool_arg(call)?;
    let osd = osd_arg(call, "osd")?;
    if !call.state.osdmap().is_up(osd) {
        return Err(Failure::new(Errno::EAGAIN, format!("osd {osd} is not up")));
    }
    list(call, pool, holder(osd))
}

fn pool_arg(call: &Call<'_>) -> Result<Option<PoolId>, Failure> {
    let Some(id) = call.args.int("pool").filter(|id| *id >= 0) else { return Ok(None) };
    match call.state.osdmap().pool(PoolId(id)) {
        Some(_) => Ok(Some(PoolId(id))),
        None => Err(Failure::missing(format!("pool {id} does not exist"))),
    }
}

fn list(call: &mut Call<'_>, pool: Option<PoolId>, holder: Holder) -> Outcome {
    let wanted = Wanted::of(&call.args.texts("states"))?;
    let map = call.state.osdmap();
    let has = |pg: &PgUsage| {
        let is_held = || match holder {
            Holder::Any => true,
            Holder::Acting(osd) => map.pg_to_up_acting(pg.pg).acting.contains(&osd),
            Holder::Primary(osd) => map.pg_to_up_acting(pg.pg).acting_primary == Some(osd),
        };
        wanted.has(&pg.state()) && pool.is_none_or(|pool| pg.pg.pool == pool) && is_held()
    };
    let pgs: Vec<PgUsage> = call.pgs.placement_groups().into_iter().filter(has).collect();
    Ok(call.print(|call| describe(call, &pgs), |call| text(call, &pgs)))
}

/// The requested states; `None` for all.
struct Wanted(Option<Vec<String>>);

impl Wanted {
    /// Parses the words from the last to the first, like a stock manager.
    fn of(states: &[&str]) -> Result<Self, Failure> {
        for state in states.iter().rev() {
            if *state == "all" {
                return Ok(Self(None));
            }
            if !STATES.split('+').any(|known| known == *state) {
                let said = format!("'{state}' is not a valid pg state, available choices: {STATES}");
                return Err(Failure::invalid(said));
            }
        }
        let words = states.iter().map(|state| (*state).to_owned()).collect();
        Ok(Self((!states.is_empty()).then_some(words)))
    }

    /// Whether a state contains one of the words.
    fn has(&self, state: &str) -> bool {
        self.0.as_ref().is_none_or(|wanted| state.split('+').any(|own| wanted.iter().any(|word| word == own)))
    }
}

fn describe(call: &Call<'_>, pgs: &[PgUsage]) -> Node {
    let mut node = object! { "pg_ready": true };
    if !pgs.is_empty() {
        node.push("pg_stats", Node::array(pgs.iter().map(|pg| pg_stat(call.state, call.now, pg))));
    }
    node
}

fn text(call: &Call<'_>, pgs: &[PgUsage]) -> String {
    use Align::{BelowLeft, Left};
    if pgs.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        ("PG", Left),
        ("OBJECTS", BelowLeft),
        ("DEGRADED", BelowLeft),
        ("MISPLACED", BelowLeft),
        ("UNFOUND", BelowLeft),
        ("BYTES", BelowLeft),
        ("OMAP_BYTES*", BelowLeft),
        ("OMAP_KEYS*", BelowLeft),
        ("LOG", BelowLeft),
        ("STATE", BelowLeft),
        ("SINCE", BelowLeft),
        ("VERSION", BelowLeft),
        ("REPORTED", BelowLeft),
        ("UP", BelowLeft),
        ("ACTING", BelowLeft),
        ("SCRUB_STAMP", BelowLeft),
        ("DEEP_SCRUB_STAMP", BelowLeft),
    ]);
    let (epoch, since) = (call.state.osdmap().epoch, call.state.started());
    for pg in pgs {
        let [up, up_primary, acting, acting_primary] = placed_cells(call, pg.pg);
        // Leaves out the objects missing on the primary, and the on-disk part of the log, which is the
        // whole log.
        let mut sums = sum_cells(std::slice::from_ref(pg));
        sums.remove(1);
        sums.pop();
        let [scrubbed, deeply, _] = scrub_stamps(call.state, pg);
        let rest = [
            pg.state(),
            age_of(call.now, since),
            pg.version.to_string(),
            format!("{epoch}:{}", pg.version.version),
            format!("{up}p{up_primary}"),
            format!("{acting}p{acting_primary}"),
            scrubbed,
            deeply,
        ];
        table.row(std::iter::once(pg.pg.to_string()).chain(sums).chain(rest));
    }
    format!("{table}{OMAP_NOTE}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results are those of a manager of 16.2.15.
    #[test]
    fn states_are_alternatives() {
        let wants = |states: &[&str]| {
            let wanted = Wanted::of(states).map_err(|failure| failure.status);
            wanted.map(|wanted| wanted.has("active+clean"))
        };
        for (states, ours) in [
            (&[][..], true),
            (&["active"], true),
            (&["stale"], false),
            (&["stale", "clean"], true),
            (&["bogus", "all"], true),
        ] {
            assert_eq!(wants(states), Ok(ours), "{states:?}");
        }
        let said = wants(&["clean", "bogus"]).expect_err("there is no such state");
        assert!(
            said.starts_with("'bogus' is not a valid pg state, available choices: stale+creating+active+"),
            "{said}"
        );
        assert!(wants(&["all", "bogus"]).is_err(), "it stands behind");
    }
}
