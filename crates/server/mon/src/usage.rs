//! What the monitor asks of the stores: space and the pools' statistics.

use std::collections::BTreeMap;

use loligo_maps::{OsdMap, PoolFlags};
use loligo_wire::message::osd::ObjectStatSum;
use loligo_wire::{Eversion, PgId, PoolId, UTime};

/// Whoever stores the cluster's objects.
pub trait UsageSource: Send + Sync {
    /// What the cluster holds now. Called while the monitor works: must not wait.
    fn usage(&self) -> Usage;

    /// What each placement group holds, in order. Called while the monitor works: must not wait.
    fn placement_groups(&self) -> Vec<PgUsage>;

    /// Has placement groups scrubbed, some time after this returns.
    fn scrub(&self, pgs: &[PgId], how: Scrub);
}

/// A way to scrub a placement group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrub {
    /// What the store says of each object.
    Shallow,
    /// All data.
    Deep,
    /// All data, and what can be repaired is.
    Repair,
}

impl Scrub {
    /// Its name in commands.
    pub fn word(self) -> &'static str {
        match self {
            Self::Shallow => "scrub",
            Self::Deep => "deep-scrub",
            Self::Repair => "repair",
        }
    }
}

/// What is known of a placement group's scrubs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgScrubs {
    /// The one in progress.
    pub running: Option<Scrub>,
    /// When the newest ended; zero if there was none.
    pub at: UTime,
    /// The newest change then.
    pub version: Eversion,
    /// When the newest deep one ended.
    pub deep_at: UTime,
    /// The newest change then.
    pub deep_version: Eversion,
    /// When the newest one ended that found all in order.
    pub clean_at: UTime,
}

/// What a placement group holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgUsage {
    /// Which.
    pub pg: PgId,
    /// What it holds, and what was done with it.
    pub sum: ObjectStatSum,
    /// Its newest change.
    pub version: Eversion,
    /// Requests whose results it remembers.
    pub log_entries: u64,
    /// Its scrubs.
    pub scrubs: PgScrubs,
}

impl PgUsage {
    /// The words for what it is, as a stock cluster puts them together.
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

/// What the cluster holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The store's space.
    pub space: Space,
    /// What pools hold, and what was done with them.
    pub pools: BTreeMap<PoolId, ObjectStatSum>,
}

impl Usage {
    /// What a pool holds; zeros for an unknown one.
    pub fn pool(&self, pool: PoolId) -> ObjectStatSum {
        self.pools.get(&pool).copied().unwrap_or_default()
    }
}

/// Space of the store, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All.
    pub total: u64,
    /// In use.
    pub used: u64,
}

impl Space {
    /// What is free.
    pub fn available(self) -> u64 {
        self.total.saturating_sub(self.used)
    }

    /// The part of it that one of `osds` OSDs shows, which have it together.
    pub fn of_one(self, osds: usize) -> Self {
        let osds = osds.max(1) as u64;
        Self { total: self.total / osds, used: self.used / osds }
    }

    /// The part in use, from 0 to 1.
    pub fn used_ratio(self) -> f64 {
        if self.total == 0 { 0.0 } else { self.used as f64 / self.total as f64 }
    }
}

/// The default of `osd_failsafe_full_ratio`.
pub(crate) const FAILSAFE: f32 = 0.97;

/// Whether a pool has a quota, or is full because of one: then [`crate::state::State::check_quotas`] has
/// something to do.
pub fn has_quotas(map: &OsdMap) -> bool {
    map.pools.values().any(|pool| {
        pool.quota_max_bytes > 0 || pool.quota_max_objects > 0 || pool.flags.has(PoolFlags::FULL_QUOTA)
    })
}

/// How near the store is to being full, by the ratios of a map. Ceph's monitor tells OSDs so, and each pool
/// on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fullness {
    /// There is room.
    Room,
    /// Somebody should look after it (`nearfull_ratio`, 0.85).
    Near,
    /// An OSD takes no objects of others any more (`backfillfull_ratio`, 0.90).
    Backfill,
    /// There is hardly any room (`full_ratio`, 0.95).
    Full,
}

impl Fullness {
    /// Of a store with such a space. As for a stock OSD (`OSDService::recalc_full_state`) no ratio is smaller
    /// than the one before, and none that is 0 counts: then it is full at 0.97 (`osd_failsafe_full_ratio`).
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

    /// The health check of OSDs, the word for them in its summary, and the word in `osd.0 is …`; none if
    /// there is room.
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
