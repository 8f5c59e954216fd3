//! The OSDs' fullness in the osdmap.
//!
//! All OSDs share one store, and so are equally full. A stock OSD reports the highest of the three
//! ratios that it has reached. The monitor sets the bit for that ratio in the OSD's state, and the flag
//! for it in each pool with a placement group there, which here means all pools
//! (`OSDMonitor::prepare_full`, `encode_pending`). Clients obey the pool flag `full`.

use loligo_maps::{OsdMap, OsdState, PgPool, PoolFlags};
use loligo_wire::UTime;

use super::State;
use crate::Fullness;
use crate::failure::Failure;

const STATES: OsdState = OsdState::FULL.union(OsdState::BACKFILLFULL).union(OsdState::NEARFULL);
const FLAGS: PoolFlags = PoolFlags::FULL.union(PoolFlags::BACKFILLFULL).union(PoolFlags::NEARFULL);

impl State {
    /// The fullness that the map shows.
    pub fn fullness(&self) -> Fullness {
        let map = self.osdmap();
        let state = map.osd_ids().map(|osd| map.state(osd)).fold(OsdState::empty(), OsdState::union);
        match () {
            () if state.contains(OsdState::FULL) => Fullness::Full,
            () if state.contains(OsdState::BACKFILLFULL) => Fullness::Backfill,
            () if state.contains(OsdState::NEARFULL) => Fullness::Near,
            () => Fullness::Room,
        }
    }

    /// Sets the fullness in the map. Makes no new epoch if nothing changes.
    pub fn set_fullness(&mut self, now: UTime, fullness: Fullness) -> Result<(), Failure> {
        let (state, flag) = words(fullness);
        let map = self.osdmap();
        let osds: Vec<_> = map
            .osd_ids()
            .map(|osd| (osd, (map.state(osd) & STATES) ^ state))
            .filter(|(_, change)| !change.is_empty())
            .collect();
        let pools: Vec<_> = map
            .pools
            .iter()
            .filter_map(|(id, pool)| {
                let mut after = pool.clone();
                after.flags = flagged(pool, flag);
                (after.flags != pool.flags).then_some((*id, after))
            })
            .collect();
        if osds.is_empty() && pools.is_empty() {
            return Ok(());
        }
        let change = |_: &OsdMap, inc: &mut loligo_maps::Incremental| {
            inc.new_state.extend(osds);
            inc.new_pools.extend(pools);
        };
        self.change_osdmap(now, change).map(|_| ())
    }

    /// The fullness flag of a new pool.
    pub(super) fn flag_of_new_pools(&self) -> PoolFlags {
        words(self.fullness()).1
    }
}

fn words(fullness: Fullness) -> (OsdState, PoolFlags) {
    match fullness {
        Fullness::Room => (OsdState::empty(), PoolFlags::empty()),
        Fullness::Near => (OsdState::NEARFULL, PoolFlags::NEARFULL),
        Fullness::Backfill => (OsdState::BACKFILLFULL, PoolFlags::BACKFILLFULL),
        Fullness::Full => (OsdState::FULL, PoolFlags::FULL),
    }
}

/// A pool over its quota stays full, and gets no other fullness flag.
fn flagged(pool: &PgPool, flag: PoolFlags) -> PoolFlags {
    if pool.flags.contains(PoolFlags::FULL_QUOTA) {
        pool.flags
    } else {
        pool.flags.difference(FLAGS).union(flag)
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::OsdId;

    use super::*;
    use crate::state::NewCluster;

    const OSDS: [OsdId; 2] = [OsdId(0), OsdId(1)];

    #[test]
    fn osd_and_pools_say_the_highest_ratio_and_nothing_when_there_is_room() {
        let now = UTime { sec: 7, nsec: 0 };
        let admin_key = loligo_cephx::key::CryptoKey::generate(now);
        let cluster =
            NewCluster { fsid: loligo_wire::Uuid([7; 16]), now, host: "here".to_owned(), admin_key };
        let mut state = State::new(cluster).expect("a cluster");
        state.add_osds(now, OSDS.len(), "here").expect("another OSD");
        state.create_pool(now, "a", 1).expect("a pool");
        let expected = [
            (Fullness::Near, OsdState::NEARFULL, PoolFlags::NEARFULL),
            (Fullness::Backfill, OsdState::BACKFILLFULL, PoolFlags::BACKFILLFULL),
            (Fullness::Full, OsdState::FULL, PoolFlags::FULL),
            (Fullness::Room, OsdState::empty(), PoolFlags::empty()),
        ];
        for (i, (fullness, bits, flag)) in expected.into_iter().enumerate() {
            let epoch = state.osdmap().epoch;
            state.set_fullness(now, fullness).expect("applies");
            state.set_fullness(now, fullness).expect("applies");
            assert_eq!((state.osdmap().epoch.0, state.fullness()), (epoch.0 + 1, fullness));
            assert!(OSDS.iter().all(|osd| state.osdmap().state(*osd) & STATES == bits));
            // A pool created in this state gets the flag as well.
            state.create_pool(now, &format!("b{i}"), 1).expect("a pool");
            assert!(state.osdmap().pools.values().all(|pool| pool.flags & FLAGS == flag));
        }
        let id = state.pool_id("a").expect("it is there");
        let over = PoolFlags::FULL.union(PoolFlags::FULL_QUOTA);
        state.change_pool(now, id, |pool| pool.flags = pool.flags.union(over)).expect("applies");
        let epoch = state.osdmap().epoch;
        state.set_fullness(now, Fullness::Room).expect("applies");
        assert_eq!(state.osdmap().epoch, epoch, "over its quota it stays full");
    }
}
