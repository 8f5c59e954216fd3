//! `health`: the health checks.

use loligo_maps::{MapFlags, OsdMap, PoolFlags};

use super::{Call, Outcome, health_muted, osd_group};
use crate::output::json::{Node, object};
use crate::usage::FAILSAFE;
use crate::{Fullness, text, view};

/// A health check that is raised.
pub(super) struct Check {
    code: &'static str,
    error: bool,
    summary: String,
    count: usize,
    details: Vec<String>,
}

impl Check {
    pub(super) fn code(&self) -> &'static str {
        self.code
    }

    /// The summary and the count.
    pub(super) fn what(&self) -> (&str, usize) {
        (&self.summary, self.count)
    }

    fn is_muted(&self, call: &Call<'_>) -> bool {
        call.state.mutes().contains_key(self.code)
    }

    fn severity(&self) -> &'static str {
        if self.error { "HEALTH_ERR" } else { "HEALTH_WARN" }
    }
}

/// All checks that are raised.
pub(super) fn checks(call: &Call<'_>) -> Vec<Check> {
    let checks = [
        osd_down(call),
        out_of_order(call.state.osdmap()),
        full(call),
        scrub_errors(call),
        pgs_damaged(call),
        pools_full(call),
        flags(call),
        flagged(call.state.osdmap()),
        no_application(call),
    ];
    let mut checks: Vec<Check> = checks.into_iter().flatten().collect();
    checks.sort_by_key(|check| check.code); // as in Ceph
    checks
}

/// Ends the mutes of checks that have cleared or got worse.
pub(crate) fn end_mutes(call: &mut Call<'_>) {
    if !call.state.mutes().is_empty() {
        let checks = checks(call);
        let raised = |code: &str| checks.iter().find(|check| check.code == code).map(Check::what);
        call.state.end_mutes(call.now, raised);
    }
}

/// `HEALTH_OK`, or the highest severity of the checks that are not muted.
pub(super) fn overall(call: &Call<'_>, checks: &[Check]) -> &'static str {
    let worst = checks.iter().filter(|check| !check.is_muted(call)).map(|check| check.error).max();
    match worst {
        None => "HEALTH_OK",
        Some(true) => "HEALTH_ERR",
        Some(false) => "HEALTH_WARN",
    }
}

/// The summaries of the checks that are not muted.
pub(super) fn summaries<'a>(call: &Call<'_>, checks: &'a [Check]) -> impl Iterator<Item = &'a str> {
    checks.iter().filter(|check| !check.is_muted(call)).map(|check| check.summary.as_str())
}

pub(super) fn health(call: &mut Call<'_>) -> Outcome {
    let detail = call.args.text("detail") == Some("detail");
    let checks = checks(call);
    let plain = |call: &Call<'_>| {
        let mut text = overall(call, &checks).to_owned();
        let mutes = health_muted::list(call);
        let said: Vec<_> = summaries(call, &checks).chain(mutes.as_deref()).collect();
        if !said.is_empty() {
            text = format!("{text} {}", said.join("; "));
        }
        if detail {
            text.extend(checks.iter().map(|check| format!("\n{}", detail_text(call, check))));
        }
        text + "\n"
    };
    Ok(call.print(|call| describe(call, &checks, detail), plain))
}

/// The `health` section of several outputs.
pub(super) fn describe(call: &Call<'_>, checks: &[Check], detail: bool) -> Node {
    object! {
        "status": overall(call, checks),
        "checks": Node::map(checks.iter().map(|check| (check.code, check_node(call, check, detail)))),
        "mutes": health_muted::describe(call),
    }
}

fn check_node(call: &Call<'_>, check: &Check, detail: bool) -> Node {
    let mut node = object! {
        "severity": check.severity(),
        "summary": object! { "message": check.summary.as_str(), "count": check.count },
    };
    if detail {
        node.push(
            "detail",
            Node::array(check.details.iter().map(|line| object! { "message": line.as_str() })),
        );
    }
    node.push("muted", check.is_muted(call));
    node
}

fn detail_text(call: &Call<'_>, check: &Check) -> String {
    let tag = if check.error { "[ERR]" } else { "[WRN]" };
    let lines = check.details.iter().map(|line| format!("\n    {line}"));
    let mark = health_muted::mark(call, check.code);
    format!("{mark}{tag} {}: {}{}", check.code, check.summary, lines.collect::<String>())
}

fn osd_down(call: &Call<'_>) -> Option<Check> {
    let map = call.state.osdmap();
    let down: Vec<_> = call.state.served_osds().filter(|osd| map.is_in(*osd) && !map.is_up(*osd)).collect();
    (!down.is_empty()).then(|| Check {
        code: "OSD_DOWN",
        error: false,
        summary: format!("{} osds down", down.len()),
        count: down.len(),
        details: down.iter().map(|osd| format!("osd.{osd} is down")).collect(),
    })
}

/// Each ratio must be at least as large as the previous ones. A smaller one is treated as increased to
/// the largest of them.
fn out_of_order(map: &OsdMap) -> Option<Check> {
    let ratios = [
        ("nearfull_ratio", map.nearfull_ratio),
        ("backfillfull_ratio", map.backfillfull_ratio),
        ("full_ratio", map.full_ratio),
        ("osd_failsafe_full_ratio", FAILSAFE),
    ];
    let mut details = Vec::new();
    let (mut before, mut least) = ratios[0];
    for (name, ratio) in &ratios[1..] {
        if *ratio < least {
            details.push(format!("{name} ({ratio}) < {before} ({least}), increased"));
        }
        (before, least) = (name, ratio.max(least));
    }
    // As in a stock monitor, the count is 0.
    let (summary, count) = ("full ratio(s) out of order".to_owned(), 0);
    (!details.is_empty()).then_some(Check {
        code: "OSD_OUT_OF_ORDER_FULL",
        error: true,
        summary,
        count,
        details,
    })
}

fn full(call: &Call<'_>) -> Option<Check> {
    let fullness = Fullness::of(call.usage.space, call.state.osdmap());
    let (code, kind, word) = fullness.check()?;
    // All OSDs share one store.
    let osds = call.state.osdmap().osd_ids();
    let details: Vec<_> = osds.map(|osd| format!("osd.{osd} is {word}")).collect();
    Some(Check {
        code,
        error: fullness == Fullness::Full,
        summary: format!("{} {kind} osd(s)", details.len()),
        count: details.len(),
        details,
    })
}

/// Errors found by scrubs that are still present.
fn scrub_errors(call: &Call<'_>) -> Option<Check> {
    let errors: i64 = call.pgs.placement_groups().iter().map(|pg| pg.sum.num_scrub_errors).sum();
    let (summary, count) = (format!("{errors} scrub errors"), usize::try_from(errors).ok()?);
    (count > 0).then(|| Check { code: "OSD_SCRUB_ERRORS", error: true, summary, count, details: Vec::new() })
}

fn pgs_damaged(call: &Call<'_>) -> Option<Check> {
    let pgs = call.pgs.placement_groups();
    let damaged: Vec<_> = pgs.iter().filter(|pg| pg.sum.num_scrub_errors > 0).collect();
    let count = damaged.len();
    let detail = |pg: &&crate::PgUsage| {
        let [_, _, acting, _] = super::pg_dump::placed_cells(call, pg.pg);
        format!("pg {} is {}, acting {acting}", pg.pg, pg.state())
    };
    (count > 0).then(|| Check {
        code: "PG_DAMAGED",
        error: true,
        summary: format!("Possible data damage: {count} pg{} inconsistent", if count > 1 { "s" } else { "" }),
        count,
        details: damaged.iter().map(detail).collect(),
    })
}

/// All pools share one store.
fn pools_full(call: &Call<'_>) -> Option<Check> {
    let map = call.state.osdmap();
    let (code, word, detail) = match Fullness::of(call.usage.space, map) {
        Fullness::Room => return quotas_reached(map),
        Fullness::Near => ("POOL_NEARFULL", "nearfull", "nearfull"),
        Fullness::Backfill => ("POOL_BACKFILLFULL", "backfillfull", "backfillfull"),
        Fullness::Full => ("POOL_FULL", "full", "full (no space)"),
    };
    let details: Vec<_> = map
        .pools
        .keys()
        .filter_map(|id| map.pool_name(*id))
        .map(text::of)
        .map(|name| format!("pool '{name}' is {detail}"))
        .collect();
    let (count, summary) = (details.len(), format!("{} pool(s) {word}", details.len()));
    (count > 0).then_some(Check { code, error: false, summary, count, details })
}

fn quotas_reached(map: &OsdMap) -> Option<Check> {
    let full = map.pools.iter().filter(|(_, pool)| pool.flags.contains(PoolFlags::FULL_QUOTA));
    let names = full.filter_map(|(id, _)| map.pool_name(*id)).map(text::of);
    let details: Vec<_> = names.map(|name| format!("pool '{name}' is full (running out of quota)")).collect();
    let (count, summary) = (details.len(), format!("{} pool(s) full", details.len()));
    (count > 0).then_some(Check { code: "POOL_FULL", error: false, summary, count, details })
}

fn flags(call: &Call<'_>) -> Option<Check> {
    let ordinary = MapFlags::SORTBITWISE
        .union(MapFlags::RECOVERY_DELETES)
        .union(MapFlags::PURGED_SNAPDIRS)
        .union(MapFlags::PGLOG_HARDLIMIT);
    let words = view::map_flags(call.state.osdmap().flags.difference(ordinary));
    (!words.is_empty()).then(|| Check {
        code: "OSDMAP_FLAGS",
        error: false,
        summary: format!("{} flag(s) set", words.join(",")),
        // As in Ceph, counts all flags that are set, including the ordinary ones.
        count: call.state.osdmap().flags.bits().count_ones() as usize,
        details: Vec::new(),
    })
}

fn flagged(map: &OsdMap) -> Option<Check> {
    let flagged = osd_group::flagged(map);
    let count = flagged.len();
    let summary =
        format!("{count} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set");
    let details = flagged.iter().map(|(what, flags)| format!("{what} has flags {flags}")).collect();
    (count > 0).then_some(Check { code: "OSD_FLAGS", error: false, summary, count, details })
}

fn no_application(call: &Call<'_>) -> Option<Check> {
    let map = call.state.osdmap();
    let silent = map
        .pools
        .iter()
        .filter(|(id, pool)| pool.application_metadata.is_empty() && call.usage.pool(**id).num_objects > 0);
    let mut details: Vec<_> = silent
        .filter_map(|(id, _)| map.pool_name(*id))
        .map(text::of)
        .map(|name| format!("application not enabled on pool '{name}'"))
        .collect();
    let count = details.len();
    details.push(
        "say what uses it: ceph osd pool application enable <pool> <cephfs|rbd|rgw|any name>".to_owned(),
    );
    (count > 0).then(|| Check {
        code: "POOL_APP_NOT_ENABLED",
        error: false,
        summary: format!("{count} pool(s) do not have an application enabled"),
        count,
        details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts are those of a monitor of 16.2.15.
    #[test]
    fn ratios_that_are_out_of_order_are_named() {
        let of = |near, backfill, full| {
            let mut map = OsdMap::default();
            (map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio) = (near, backfill, full);
            out_of_order(&map).map_or(Vec::new(), |check| check.details)
        };
        assert!(of(0.85, 0.9, 0.95).is_empty());
        assert!(of(0.9, 0.9, 0.97).is_empty());
        assert_eq!(
            of(0.92, 0.9, 0.2),
            [
                "backfillfull_ratio (0.9) < nearfull_ratio (0.92), increased",
                "full_ratio (0.2) < backfillfull_ratio (0.92), increased"
            ]
        );
        assert_eq!(of(0.85, 0.9, 0.99), ["osd_failsafe_full_ratio (0.97) < full_ratio (0.99), increased"]);
    }
}
