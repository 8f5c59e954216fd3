//! Space and pool statistics, which the monitor gets from the stores.

use std::collections::BTreeMap;

use loligo_maps::{OsdMap, PoolFlags};
use loligo_wire::message::osd::ObjectStatSum;
use loligo_wire::{Eversion, PgId, PoolId, UTime};

/// The store of the cluster's objects, as seen by the monitor.
pub trait UsageSource: Send + Sync {
    /// The cluster's current usage. Called from the monitor's task: must not block.
    fn usage(&self) -> Usage;

    /// The usage of each placement group, in order. Called from the monitor's task: must not block.
    fn placement_groups(&self) -> Vec<PgUsage>;

    /// Schedules scrubs of placement groups. Returns before they run.
    fn scrub(&self, pgs: &[PgId], how: Scrub);
}

/// A way to scrub a placement group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrub {
    /// Checks the store's metadata of each object.
    Shallow,
    /// Checks all data.
    Deep,
    /// Checks all data, and repairs it where possible.
    Repair,
}

impl Scrub {
    /// The command's name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Shallow => "scrub",
            Self::Deep => "deep-scrub",
            Self::Repair => "repair",
        }
    }
}

/// The state of a placement group's scrubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgScrubs {
    /// The scrub in progress.
    pub running: Option<Scrub>,
    /// When the latest scrub ended; zero if there was none.
    pub at: UTime,
    /// The placement group's version at that scrub.
    pub version: Eversion,
    /// When the latest deep scrub ended.
    pub deep_at: UTime,
    /// The placement group's version at that deep scrub.
    pub deep_version: Eversion,
    /// When the latest scrub without errors ended.
    pub clean_at: UTime,
}

/// The statistics of a placement group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgUsage {
    /// The placement group.
    pub pg: PgId,
    /// Statistics of its objects and of operations.
    pub sum: ObjectStatSum,
    /// Its latest version.
    pub version: Eversion,
    /// Number of requests whose results it remembers.
    pub log_entries: u64,
    /// Its scrubs.
    pub scrubs: PgScrubs,
}

impl PgUsage {
    /// The state, in the words and order of a stock cluster.
    pub fn state(&self) -> String {
        let mut state = "active+clean".to_owned();
        if let Some(running) = self.scrubs.running {
            state += if running == Scrub::Shallow { "+scrubbing" } else { "+scrubbing+deep" };
        }
        if self.sum.num_scrub_errors > 0 {
            state += "+inconsistent";
        }
        if self.scrubs.running == Some(Scrub::Repair) {
            state += "+repair";
        }
        state
    }
}

/// The cluster's usage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The store's space.
    pub space: Space,
    /// Statistics of each pool's objects and operations.
    pub pools: BTreeMap<PoolId, ObjectStatSum>,
}

impl Usage {
    /// The statistics of a pool; zeros for an unknown one.
    pub fn pool(&self, pool: PoolId) -> ObjectStatSum {
        self.pools.get(&pool).copied().unwrap_or_default()
    }
}

/// Space of the store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Total.
    pub total: u64,
    /// In use.
    pub used: u64,
}

impl Space {
    /// Free space.
    pub fn available(self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// The share of one of `osds` OSDs, which share the space equally.
    pub fn of_one(self, osds: usize) -> Self {
        let osds = osds.max(1) as u64;
        Self { total: self.total / osds, used: self.used / osds }
    }

    /// The fraction in use, from 0 to 1.
    pub fn used_ratio(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 / self.total as f64 }
    }
}

/// The default of `osd_failsafe_full_ratio`.
pub(crate) const FAILSAFE: f32 = 0.97;

/// Whether a pool has a quota, or is full because of one: then [`crate::state::State::check_quotas`] may
/// have work to do.
pub fn has_quotas(map: &OsdMap) -> bool {
    map.pools.values().any(|pool| {
        pool.quota_max_bytes > 0 || pool.quota_max_objects > 0 || pool.flags.contains(PoolFlags::FULL_QUOTA)
    })
}

/// How full the store is, by the ratios of a map. The osdmap shows it as a state of each OSD, and as a
/// flag of each pool on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fullness {
    /// Below all ratios.
    Room,
    /// An operator should act (`nearfull_ratio`, 0.85).
    Near,
    /// The OSD accepts no backfill any more (`backfillfull_ratio`, 0.90).
    Backfill,
    /// There is almost no space left (`full_ratio`, 0.95).
    Full,
}

impl Fullness {
    /// The fullness of a store. As in a stock OSD (`OSDService::recalc_full_state`), each ratio is at
    /// least the previous one. If `nearfull_ratio` is 0, the store is full at 0.97
    /// (`osd_failsafe_full_ratio`) or at a higher `full_ratio`.
    pub fn of(space: Space, map: &OsdMap) -> Self {
        let mut near = map.nearfull_ratio;
        let mut backfill = map.backfillfull_ratio.max(near);
        let mut full = map.full_ratio.max(backfill);
        if near <= 0.0 {
            full = full.max(FAILSAFE);
            (near, backfill) = (full, full);
        }
        let reached = |ratio: f32| space.used_ratio() >= f64::from(ratio);
        match () {
            () if reached(full) => Self::Full,
            () if reached(backfill) => Self::Backfill,
            () if reached(near) => Self::Near,
            () => Self::Room,
        }
    }

    /// The health check of OSDs, the word in its summary, and the word in `osd.0 is …`; `None` if there
    /// is room.
    pub fn check(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::Room => None,
            Self::Near => Some(("OSD_NEARFULL", "nearfull", "near full")),
            Self::Backfill => Some(("OSD_BACKFILLFULL", "backfillfull", "backfill full")),
            Self::Full => Some(("OSD_FULL", "full", "full")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratios_are_the_maps() {
        let mut map = OsdMap::default();
        (map.nearfull_ratio, map.backfillfull_ratio, map.full_ratio) = (0.85, 0.9, 0.95);
        let of = |used| Fullness::of(Space { total: 1000, used }, &map);
        use Fullness::{Backfill, Full, Near, Room};
        assert_eq!(
            [0, 849, 851, 899, 901, 949, 951, 1000].map(of),
            [Room, Room, Near, Near, Backfill, Backfill, Full, Full]
        );
        assert_eq!(Fullness::of(Space::default(), &map), Room);
        let of = |used, map: &OsdMap| Fullness::of(Space { total: 1000, used }, map);
        assert_eq!([960, 980].map(|used| of(used, &OsdMap::default())), [Room, Full], "no ratios");
        map.full_ratio = 0.1;
        assert_eq!([200, 899, 901].map(|used| of(used, &map)), [Room, Near, Full], "out of order");
        map.backfillfull_ratio = 0.1;
        assert_eq!([849, 851].map(|used| of(used, &map)), [Room, Full], "out of order");
    }
}
