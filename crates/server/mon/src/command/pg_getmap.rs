//! `pg getmap`: the content of `pg dump`, encoded as a manager's map.

use az::SaturatingAs as _;
use loligo_wire::message::osd::{OsdStat, PgMap, PgStat, StoreStatfs, pg_state};
use loligo_wire::{Encode as _, Epoch, OsdId, PgId};

use super::pg_dump::scrub_times;
use super::usage::Totals;
use super::{Call, Outcome, Reply};
use crate::{PgUsage, Scrub};

pub(super) fn getmap(call: &mut Call<'_>) -> Outcome {
    let map = call.state.osdmap();
    let version = u64::from(map.epoch.0);
    let pgs = call.pgs.placement_groups();
    let encoded = PgMap {
        version,
        pgs: pgs.iter().map(|pg| (pg.pg, pg_stat(call, pg))).collect(),
        osds: map.osd_ids().map(|osd| (osd.0, osd_stat(call, osd))).collect(),
        stamp: call.now,
        ..PgMap::default()
    };
    Ok(Reply::output(encoded.to_bytes()).with_status(format!("got pgmap version {version}")))
}

fn pg_stat(call: &Call<'_>, pg: &PgUsage) -> PgStat {
    let (map, now, since) = (call.state.osdmap(), call.now, call.state.started());
    let created = map.pool(pg.pg.pool).map_or(Epoch(0), |pool| pool.last_change);
    let placed = map.pg_to_up_acting(pg.pg);
    let numbers = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect();
    let number = |osd: Option<OsdId>| osd.map_or(-1, |osd| osd.0);
    let [last_scrub_stamp, last_deep_scrub_stamp, last_clean_scrub_stamp] = scrub_times(call.state, pg);
    PgStat {
        version: pg.version,
        reported_seq: pg.version.version,
        reported_epoch: map.epoch,
        state: state(pg),
        created,
        last_epoch_clean: created,
        parent: PgId::default(),
        last_scrub: pg.scrubs.version,
        last_scrub_stamp,
        sum: pg.sum,
        log_size: pg.log_entries.saturating_as::<i64>(),
        ondisk_log_size: pg.log_entries.saturating_as::<i64>(),
        up: numbers(&placed.up),
        acting: numbers(&placed.acting),
        last_fresh: now,
        last_change: since,
        last_active: now,
        last_clean: now,
        last_unstale: now,
        mapping_epoch: created,
        last_deep_scrub: pg.scrubs.deep_version,
        last_deep_scrub_stamp,
        last_clean_scrub_stamp,
        last_became_active: since,
        up_primary: number(placed.up_primary),
        acting_primary: number(placed.acting_primary),
        last_undegraded: now,
        last_fullsized: now,
        last_peered: now,
        last_became_peered: since,
        ..PgStat::default()
    }
}

/// The bits for the words of [`PgUsage::state`].
fn state(pg: &PgUsage) -> u64 {
    let scrubbing = match pg.scrubs.running {
        None => 0,
        Some(Scrub::Shallow) => pg_state::SCRUBBING,
        Some(Scrub::Deep) => pg_state::SCRUBBING | pg_state::DEEP_SCRUB,
        Some(Scrub::Repair) => pg_state::SCRUBBING | pg_state::DEEP_SCRUB | pg_state::REPAIR,
    };
    let damaged = if pg.sum.num_scrub_errors > 0 { pg_state::INCONSISTENT } else { 0 };
    pg_state::ACTIVE | pg_state::CLEAN | scrubbing | damaged
}

fn osd_stat(call: &Call<'_>, osd: OsdId) -> OsdStat {
    let map = call.state.osdmap();
    let space = call.usage.space.of_one(map.osd_ids().count());
    let statfs = StoreStatfs { total: space.total, available: space.available(), ..StoreStatfs::default() };
    OsdStat {
        statfs,
        up_from: map.osd(osd).map_or(Epoch(0), |osd| osd.info.up_from),
        num_pgs: Totals::pgs_on(call, osd).all,
        num_osds: 1,
        ..OsdStat::default()
    }
}
