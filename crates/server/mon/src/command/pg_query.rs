//! `ceph pg PGID query`: an OSD's report on a placement group.

use loligo_wire::{OsdId, UTime};

use super::pg_dump::{pg_stat, scrub_fields};
use crate::PgUsage;
use crate::output::json::{Node, object};
use crate::output::units::stamp;
use crate::state::State;

/// The whole report, in a stock OSD's order. The parts on copies, recovery and cache tiers are empty.
pub fn pg_query(state: &State, pg: &PgUsage, now: UTime) -> Node {
    let map = state.osdmap();
    let placed = map.pg_to_up_acting(pg.pg);
    let numbers = |osds: &[OsdId]| Node::array(osds.iter().map(|osd| osd.0));
    let named: Vec<String> = placed.acting.iter().map(|osd| osd.0.to_string()).collect();
    object! {
        "snap_trimq": "[]",
        "snap_trimq_len": 0,
        "state": pg.state(),
        "epoch": map.epoch.0,
        "up": numbers(&placed.up),
        "acting": numbers(&placed.acting),
        "acting_recovery_backfill": Node::array(named.iter().map(String::as_str)),
        "info": info(state, pg, now),
        "peer_info": Vec::new(),
        "recovery_state": Node::array([active(state), started(state)]),
        "scrubber": object! { "epoch_start": "0", "active": pg.scrubs.running.is_some() },
        "agent_state": object! {},
    }
}

fn info(state: &State, pg: &PgUsage, now: UTime) -> Node {
    let since = state.osdmap().pool(pg.pg.pool).map_or(0, |pool| pool.last_change.0);
    let version = pg.version.to_string();
    object! {
        "pgid": pg.pg.to_string(),
        "last_update": version.as_str(),
        "last_complete": version.as_str(),
        "log_tail": "0'0",
        "last_user_version": pg.version.version,
        "last_backfill": "MAX",
        "purged_snaps": Vec::new(),
        "history": history(state, pg, since),
        "stats": stats(state, pg, now),
        "empty": i32::from(pg.version.version == 0),
        "dne": 0,
        "incomplete": 0,
        "last_epoch_started": since,
        "hit_set_history": object! { "current_last_update": "0'0", "history": Vec::new() },
    }
}

fn history(state: &State, pg: &PgUsage, since: u32) -> Node {
    let mut node = Node::Object(Vec::new());
    for field in ["epoch_created", "epoch_pool_created", "last_epoch_started", "last_interval_started"] {
        node.push(field, since);
    }
    node.push("last_epoch_clean", since);
    node.push("last_interval_clean", since);
    node.push("last_epoch_split", 0);
    node.push("last_epoch_marked_full", 0);
    for field in ["same_up_since", "same_interval_since", "same_primary_since"] {
        node.push(field, since);
    }
    scrub_fields(&mut node, state, pg);
    node.push("prior_readable_until_ub", 0);
    node
}

/// The statistics of `pg dump`, without the name.
fn stats(state: &State, pg: &PgUsage, now: UTime) -> Node {
    match pg_stat(state, now, pg) {
        Node::Object(fields) => Node::Object(fields.into_iter().filter(|(name, _)| name != "pgid").collect()),
        other => other,
    }
}

fn active(state: &State) -> Node {
    let none: fn() -> Vec<Node> = Vec::new;
    object! {
        "name": "Started/Primary/Active",
        "enter_time": stamp(state.started()),
        "might_have_unfound": none(),
        "recovery_progress": object! {
            "backfill_targets": none(),
            "waiting_on_backfill": none(),
            "last_backfill_started": "MIN",
            "backfill_info": object! { "begin": "MIN", "end": "MIN", "objects": none() },
            "peer_backfill_info": none(),
            "backfills_in_flight": none(),
            "recovering": none(),
            "pg_backend": object! { "pull_from_peer": none(), "pushing": none() },
        },
    }
}

fn started(state: &State) -> Node {
    object! { "name": "Started", "enter_time": stamp(state.started()) }
}
