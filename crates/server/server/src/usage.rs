//! The OSDs' usage, converted to the monitor's types.

use std::sync::Arc;

use loligo_maps::OsdMap;
use loligo_mon::{PgUsage, Scrub, Space, Usage, UsageSource};
use loligo_osd::{Osd, PgStats, PoolStats};
use loligo_wire::message::osd::ObjectStatSum;
use loligo_wire::{PgId, PoolId};

use crate::scrub;

/// Reports the OSDs' usage to the monitor.
pub(crate) struct OsdUsage(Arc<Osd>);

impl OsdUsage {
    pub(crate) fn new(osd: Arc<Osd>) -> Self {
        Self(osd)
    }
}

impl UsageSource for OsdUsage {
    fn usage(&self) -> Usage {
        usage(&self.0)
    }

    fn placement_groups(&self) -> Vec<PgUsage> {
        let (scrubs, map) = (self.0.pg_scrubs(), self.0.map());
        let of = |stats: PgStats| {
            let scrub = scrubs.get(&stats.pg).copied().unwrap_or_default();
            let (shallow, deep) = (scrub.shallow_errors as i64, scrub.deep_errors as i64);
            let sum = ObjectStatSum {
                num_scrub_errors: shallow + deep,
                num_shallow_scrub_errors: shallow,
                num_deep_scrub_errors: deep,
                ..sum(&stats.stats, copies(&map, stats.pg.pool))
            };
            let (version, log_entries) = (stats.version, stats.remembered);
            PgUsage { pg: stats.pg, sum, version, log_entries, scrubs: scrub::scrubs(&scrub) }
        };
        self.0.pg_stats().into_iter().map(of).collect()
    }

    fn scrub(&self, pgs: &[PgId], how: Scrub) {
        self.0.ask_scrub(pgs.iter().copied(), scrub::kind(how));
    }
}

pub(crate) fn usage(osd: &Osd) -> Usage {
    let map = osd.map();
    let pools = osd.pool_stats().into_iter();
    let pools = pools.map(|(id, stats)| (id, sum(&stats, copies(&map, id)))).collect();
    Usage { space: space(osd), pools }
}

pub(crate) fn space(osd: &Osd) -> Space {
    let statfs = osd.statfs();
    Space { total: statfs.total, used: statfs.total.saturating_sub(statfs.available) }
}

/// The number of copies, or shards, of each object that a pool has according to the osdmap.
fn copies(map: &OsdMap, pool: PoolId) -> u64 {
    map.pool(pool).map_or(1, |pool| pool.size.into())
}

fn sum(stats: &PoolStats, copies: u64) -> ObjectStatSum {
    ObjectStatSum {
        num_bytes: stats.stored.bytes as i64,
        num_objects: stats.stored.objects as i64,
        num_object_copies: (stats.stored.objects * copies) as i64,
        num_rd: stats.reads as i64,
        num_rd_kb: stats.read_bytes.div_ceil(1024) as i64,
        num_wr: stats.writes as i64,
        num_wr_kb: stats.written_bytes.div_ceil(1024) as i64,
        num_omap_bytes: stats.stored.omap_bytes as i64,
        num_omap_keys: stats.stored.omap_keys as i64,
        ..ObjectStatSum::default()
    }
}
