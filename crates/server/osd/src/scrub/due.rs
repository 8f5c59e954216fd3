//! Selects the placement group whose periodic scrub is due.

use std::collections::BTreeMap;
use std::time::Duration;

use loligo_maps::{MapFlags, OsdMap, PgPool, PoolFlags, PoolOpt, PoolOptKey};
use loligo_wire::{PgId, UTime};

use crate::place::Places;
use crate::scrubs::{ScrubJob, ScrubKind, Scrubbed};

/// The default scrub intervals, which a pool's options may override, and the pace of scrubs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScrubPolicy {
    /// Time between two scrubs of a placement group (`osd_scrub_min_interval`).
    pub min_interval: Duration,
    /// Time between two deep scrubs (`osd_deep_scrub_interval`).
    pub deep_interval: Duration,
    /// Minimum pause between two steps of any scrub (`osd_scrub_sleep`).
    pub pause: Duration,
}

impl Default for ScrubPolicy {
    /// A day, a week, and no pause.
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self { min_interval: DAY, deep_interval: DAY.saturating_mul(7), pause: Duration::ZERO }
    }
}

/// Returns the scrub that is longest overdue.
pub(super) fn longest(
    places: &Places,
    groups: &BTreeMap<PgId, Scrubbed>,
    policy: &ScrubPolicy,
    now: UTime,
) -> Option<ScrubJob> {
    let pools = places.pools().map(|(id, pool)| (id, &pool.pool));
    let all = pools.flat_map(|(pool, facts)| {
        let allowed = Allowed::of(&places.map, facts, policy);
        (0..facts.pg_num()).filter_map(move |seed| {
            let pg = PgId { pool, seed };
            let last = groups.get(&pg).copied().unwrap_or_default();
            let (since, kind) = allowed.due(&last, facts.create_time, now)?;
            Some((since, pg, kind))
        })
    });
    let (_, pg, kind) = all.min_by_key(|(since, pg, _)| (*since, *pg))?;
    Some(ScrubJob { pg, kind, asked: false })
}

/// The intervals of a pool's scrubs; `None` where a flag forbids that kind.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Allowed {
    shallow: Option<Duration>,
    deep: Option<Duration>,
}

impl Allowed {
    fn of(map: &OsdMap, pool: &PgPool, policy: &ScrubPolicy) -> Self {
        let own = |key: PoolOptKey, general: Duration| match pool.opts.0.get(&key) {
            Some(PoolOpt::Double(seconds)) if *seconds > 0.0 => {
                Duration::try_from_secs_f64(*seconds).unwrap_or(Duration::MAX)
            }
            _ => general,
        };
        let forbidden = |of_map, of_pool| map.flags.contains(of_map) || pool.flags.contains(of_pool);
        Self {
            shallow: (!forbidden(MapFlags::NOSCRUB, PoolFlags::NOSCRUB))
                .then(|| own(PoolOptKey::SCRUB_MIN_INTERVAL, policy.min_interval)),
            deep: (!forbidden(MapFlags::NODEEP_SCRUB, PoolFlags::NODEEP_SCRUB))
                .then(|| own(PoolOptKey::DEEP_SCRUB_INTERVAL, policy.deep_interval)),
        }
    }

    /// Returns the scrub that is due and the time of the last one of its kind.
    fn due(self, last: &Scrubbed, created: UTime, now: UTime) -> Option<(UTime, ScrubKind)> {
        let over = |at: UTime, interval: Option<Duration>| {
            // A scrub never done counts from the pool's creation.
            let at = at.max(created);
            interval
                .filter(|interval| now.since_epoch().saturating_sub(at.since_epoch()) >= *interval)
                .map(|_| at)
        };
        let deep = over(last.deep_at, self.deep).map(|at| (at, ScrubKind::Deep));
        deep.or_else(|| over(last.at, self.shallow).map(|at| (at, ScrubKind::Shallow)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(sec: u32) -> UTime {
        UTime { sec, nsec: 0 }
    }

    fn due(map: &OsdMap, pool: &PgPool, last: (u32, u32), now: u32) -> Option<ScrubKind> {
        let policy = ScrubPolicy {
            min_interval: Duration::from_secs(10),
            deep_interval: Duration::from_secs(70),
            pause: Duration::ZERO,
        };
        let last = Scrubbed { at: at(last.0), deep_at: at(last.1), ..Scrubbed::default() };
        Allowed::of(map, pool, &policy).due(&last, at(100), at(now)).map(|(_, kind)| kind)
    }

    #[test]
    fn a_scrub_is_due_after_its_interval_unless_a_flag_forbids_it() {
        use ScrubKind::{Deep, Shallow};
        let (mut map, mut pool) = (OsdMap::default(), PgPool::default());
        let never = (0, 0);
        assert_eq!(due(&map, &pool, never, 109), None, "the pool is new");
        assert_eq!(due(&map, &pool, never, 110), Some(Shallow));
        assert_eq!(due(&map, &pool, never, 170), Some(Deep));
        assert_eq!(due(&map, &pool, (172, 171), 181), None);
        assert_eq!(due(&map, &pool, (172, 171), 182), Some(Shallow));
        assert_eq!(due(&map, &pool, (172, 171), 90), None, "a clock that was set back");
        pool.opts.0.insert(PoolOptKey::SCRUB_MIN_INTERVAL, PoolOpt::Double(1e300));
        pool.opts.0.insert(PoolOptKey::DEEP_SCRUB_INTERVAL, PoolOpt::Double(0.5));
        assert_eq!(due(&map, &pool, never, 110), Some(Deep), "the pool's own intervals");
        assert_eq!(due(&map, &pool, (110, 110), 110), None);
        pool.opts.0.clear();
        map.flags = MapFlags::NOSCRUB;
        assert_eq!((due(&map, &pool, never, 120), due(&map, &pool, never, 170)), (None, Some(Deep)));
        map.flags = MapFlags::NODEEP_SCRUB;
        assert_eq!(due(&map, &pool, never, 170), Some(Shallow));
        pool.flags = PoolFlags::NOSCRUB;
        assert_eq!(due(&map, &pool, never, 170), None);
        (map.flags, pool.flags) = (MapFlags::default(), PoolFlags::NODEEP_SCRUB);
        assert_eq!(due(&map, &pool, never, 170), Some(Shallow));
    }
}
