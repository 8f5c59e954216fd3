//! The OSDs that the map shows. They share one store, see `loligo_osd::Door`.

use loligo_maps::OsdMap;
use loligo_maps::crush::CrushMap;
use loligo_wire::{OsdId, UTime};

use super::State;
use crate::failure::{Errno, Failure};

/// The number of OSDs that a cluster shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OsdCount(u8);

impl OsdCount {
    /// Enough for every pool that Ceph's tools create by default and for wide erasure codes. Each OSD
    /// costs a listening port, and a connection of each client.
    pub const MAX: u8 = 64;

    /// Returns `None` for 0, and above [`OsdCount::MAX`].
    pub fn new(count: usize) -> Option<Self> {
        u8::try_from(count).ok().filter(|count| (1..=Self::MAX).contains(count)).map(Self)
    }

    /// The number.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }

    /// The OSDs' ids.
    pub fn ids(self) -> impl Iterator<Item = OsdId> {
        (0..i32::from(self.0)).map(OsdId)
    }
}

impl State {
    /// The number of OSDs for this run of the process: `wanted`, or else as many as before.
    ///
    /// # Errors
    /// EINVAL if there were more before: pools may be placed on them.
    pub fn osd_count_for(&self, wanted: Option<OsdCount>) -> Result<OsdCount, Failure> {
        let had = self.served_osds().map(|osd| osd.0 + 1).max().unwrap_or(1);
        let had = usize::try_from(had).ok().and_then(OsdCount::new);
        let had = had.ok_or_else(|| Failure::invalid("the osdmap has more OSDs than a server shows"))?;
        match wanted {
            Some(wanted) if wanted < had => Err(Failure::invalid(format!(
                "the cluster has {} OSDs, and its pools may need them: it cannot be served with {}; say --osds {} or \
                 more, or nothing",
                had.get(),
                wanted.get(),
                had.get(),
            ))),
            wanted => Ok(wanted.unwrap_or(had)),
        }
    }

    /// Extends the map to `count` OSDs. Each new one is on a host of its own, in the CRUSH map, and in.
    /// No OSD is removed.
    ///
    /// # Errors
    /// A name is already taken in the CRUSH map.
    pub fn add_osds(&mut self, now: UTime, count: usize, host: &str) -> Result<(), Failure> {
        let map = self.osdmap();
        let ids = (0..).map(OsdId).take(count);
        let new: Vec<OsdId> = ids.filter(|osd| !self.is_served(*osd)).collect();
        let Some(last) = new.last() else { return Ok(()) };
        let room = usize::try_from(last.0).map_or(0, |last| last + 1).max(map.max_osd());
        let room = u32::try_from(room).map_err(|_| Failure::invalid(format!("no map has {room} OSDs")))?;
        let mut crush = CrushMap::clone(&map.crush);
        for osd in new.iter().filter(|osd| crush_lacks(map, **osd)) {
            let added = crush.add_host_with_device(&host_of(host, *osd), osd.0);
            added.map_err(|e| {
                Failure::new(Errno::EEXIST, format!("cannot add osd.{osd} to the CRUSH map: {e}"))
            })?;
        }
        self.change_osdmap(now, |_, inc| {
            inc.new_max_osd = Some(room);
            inc.set_crush(&crush);
            new.iter().for_each(|osd| inc.osd_weight(*osd, OsdMap::WEIGHT_IN));
        })?;
        // Ids that `osd new` has reserved belong to served OSDs from now on.
        self.reserved_osds.retain(|osd| !new.contains(osd));
        Ok(())
    }
}

fn crush_lacks(map: &OsdMap, osd: OsdId) -> bool {
    map.crush.item_by_name(&format!("osd.{osd}")).is_none()
}

/// The host on which an OSD is shown. Separate hosts give CRUSH rules several failure domains.
fn host_of(host: &str, osd: OsdId) -> String {
    format!("{host}-{}", osd.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use loligo_cephx::key::CryptoKey;
    use loligo_wire::{PgId, Uuid};

    use super::*;
    use crate::state::NewCluster;

    fn state(now: UTime) -> State {
        let cluster = NewCluster {
            fsid: Uuid([7; 16]),
            now,
            host: "here".to_owned(),
            admin_key: CryptoKey::generate(now),
        };
        State::new(cluster).expect("a cluster")
    }

    #[test]
    fn osds_are_added_on_hosts_of_their_own_and_none_is_taken_away() {
        let now = UTime { sec: 7, nsec: 0 };
        let mut state = state(now);
        assert_eq!(state.osd_count_for(None), Ok(OsdCount(1)));
        state.add_osds(now, 3, "here").expect("two more");
        state.add_osds(now, 3, "here").expect("none more");
        assert_eq!(state.osdmap().osd_ids().collect::<Vec<_>>(), [OsdId(0), OsdId(1), OsdId(2)]);
        let hosts = ["here", "here-1", "here-2"];
        assert!(hosts.iter().all(|host| state.osdmap().crush.item_by_name(host).is_some()));
        assert_eq!(state.osd_count_for(None), Ok(OsdCount(3)));
        assert_eq!(state.osd_count_for(OsdCount::new(5)), Ok(OsdCount(5)));
        assert!(state.osd_count_for(OsdCount::new(2)).unwrap_err().status.contains("--osds 3"));
        assert_eq!([0, 1, 64, 65].map(|n| OsdCount::new(n).is_some()), [false, true, true, false]);
    }

    #[test]
    fn a_pool_has_three_copies_where_there_are_three_osds_and_all_osds_are_primaries() {
        let now = UTime { sec: 7, nsec: 0 };
        let mut state = state(now);
        state.create_pool(now, "one", 8).expect("a pool");
        state.add_osds(now, 4, "here").expect("three more");
        for osd in (0..4).map(OsdId) {
            state.boot_osd(now, osd, Uuid([osd.0 as u8 + 1; 16]), Default::default()).expect("it boots");
        }
        state.create_pool(now, "three", 32).expect("a pool");
        let map = state.osdmap();
        let pool = state.pool_id("three").expect("it is there");
        let sizes: Vec<_> = map.pools.values().map(|pool| (pool.size, pool.min_size)).collect();
        assert_eq!(sizes, [(1, 1), (3, 2)]);
        let placed: Vec<_> = (0..32).map(|seed| map.pg_to_up_acting(PgId { pool, seed })).collect();
        assert!(placed.iter().all(|at| at.acting.iter().collect::<BTreeSet<_>>().len() == 3));
        let primaries: BTreeSet<_> = placed.iter().filter_map(|at| at.acting_primary).collect();
        assert_eq!(primaries.len(), 4);
    }
}
