//! `ceph tell PGID …`: the commands for a placement group, at the OSD that serves it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_admin::{Admin, Command, Failure, Request};
use loligo_mon::output::json::Node;
use loligo_mon::output::units::stamp;
use loligo_mon::{MonService, UsageSource as _, command, object};
use loligo_osd::{Osd, ScrubKind};
use loligo_wire::{PgId, UTime};
use tokio::runtime::Handle;

use super::render::{Shape, shaped};
use crate::usage::OsdUsage;

/// How far the scrub stamp is set back by default, so that the scrub is due at once: a week.
const WEEK: Duration = Duration::from_secs(7 * 86_400);

const QUERY: Shape =
    Shape::of("pg").with(&[("acting_recovery_backfill", "shard"), ("recovery_state", "state")]);

/// Adds the commands.
pub(super) fn register(admin: &Admin, osd: &Arc<Osd>, mon: &Arc<MonService>) {
    let (of, runtime, mon) = (Arc::clone(osd), Handle::current(), Arc::downgrade(mon));
    let query = move |request: &Request| query(&of, &mon, &runtime, named(&of, request)?);
    let query = shaped("query", "Show the state of a placement group.", QUERY, query);
    admin.command(query.optional("pgid", &[]));
    let of = Arc::clone(osd);
    let unfound = move |request: &Request| {
        named(&of, request)?;
        list_unfound(request)
    };
    let unfound =
        shaped("list_unfound", "List objects that are lost: none ever is.", Shape::of("missing"), unfound);
    admin.command(unfound.optional("pgid", &[]).optional("offset", &[]));
    let of = Arc::clone(osd);
    let mark = move |request: &Request| {
        named(&of, request)?;
        Ok((String::new(), "pg has no unfound objects".to_owned()))
    };
    let mark =
        Command::with_status("mark_unfound_lost", "Give up objects that are lost: none ever is.", mark);
    // The placement group is optional, but precedes the required argument.
    admin.command(mark.optional("pgid", &[]).required("mulcmd", &["revert", "delete"]));
    for (prefix, kind) in [("scrub", ScrubKind::Shallow), ("deep_scrub", ScrubKind::Deep)] {
        let of = Arc::clone(osd);
        let scrub = move |request: &Request| {
            let pg = named(&of, request)?;
            of.ask_scrub([pg], kind);
            let back = request.arg("time").and_then(|time| time.parse().ok()).filter(|s| *s > 0);
            let stamp_at =
                UTime::from_system(UTime::now().to_system() - back.map_or(WEEK, Duration::from_secs));
            Ok(object! { "deep": kind.is_deep(), "stamp": stamp(stamp_at) })
        };
        let scrub = shaped(prefix, "Have a placement group scrubbed.", Shape::of("result"), scrub);
        admin.command(scrub.optional("pgid", &[]).optional_int("time"));
    }
}

/// The placement group that a request names. Fails if it does not exist.
fn named(osd: &Osd, request: &Request) -> Result<PgId, Failure> {
    let pgid = request.arg("pgid").ok_or_else(|| Failure::new("no pgid specified"))?;
    let pg: PgId = pgid.parse().map_err(|_| Failure::new(format!("couldn't parse pgid '{pgid}'")))?;
    let there = osd.map().pool(pg.pool).is_some_and(|pool| pg.seed < pool.pg_num());
    there.then_some(pg).ok_or_else(|| Failure::missing(format!("i don't have pgid {pgid}")))
}

fn query(osd: &Arc<Osd>, mon: &Weak<MonService>, runtime: &Handle, pg: PgId) -> Result<Node, Failure> {
    let stopped = || Failure::new("the monitor has stopped");
    let mon = mon.upgrade().ok_or_else(stopped)?;
    let all = OsdUsage::new(Arc::clone(osd)).placement_groups();
    let usage = all.into_iter().find(|usage| usage.pg == pg).unwrap_or_default();
    let usage = loligo_mon::PgUsage { pg, ..usage };
    runtime.block_on(mon.call(move |state, now| command::pg_query(state, &usage, now))).map_err(|_| stopped())
}

fn list_unfound(request: &Request) -> Result<Node, Failure> {
    let offset = request.arg("offset").unwrap_or_default();
    if !offset.is_empty() && !offset.trim_start().starts_with('{') {
        return Err(Failure::new("error parsing offset: bad json"));
    }
    Ok(object! {
        "num_missing": 0, "num_unfound": 0, "objects": Vec::new(), "state": "Active",
        "available_might_have_unfound": true, "might_have_unfound": Vec::new(), "more": false,
    })
}
