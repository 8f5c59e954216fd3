//! Replacing the cluster's state by another one while clients stay connected, or come back.
//!
//! Clients keep the newest map they have seen, and OSDs recognise what clients send again by its numbers.
//! So whatever must not repeat goes on from the newer of the two states: epochs, the numbers of pools,
//! snapshots and clients. The server's own identity stays.

use std::collections::BTreeSet;

use loligo_cephx::key::CryptoKey;
use loligo_maps::OsdMap;
use loligo_wire::{EntityName, Epoch, GlobalId, OsdId, UTime};

use super::history::MapHistory;
use super::log::Severity;
use super::{Changes, State};
use crate::failure::Failure;

impl State {
    /// Replaces this state by another one of the same cluster or of another one. These stay: the cluster's
    /// id, the addresses of its daemons, the secrets that seal tickets, the log, and the id of the store.
    ///
    /// # Errors
    /// EINVAL: the other state has another number of OSDs. Then nothing has changed.
    pub fn replace(&mut self, now: UTime, other: &Self) -> Result<(), Failure> {
        self.check_osds(other)?;
        let mut next = Self {
            maps: MapHistory::new(self.map_after(now, other)),
            monmap: self.monmap.clone(),
            service_keys: self.service_keys.clone(),
            global_id_end: GlobalId(self.global_id_end.0.max(other.global_id_end.0)),
            store: self.store,
            log: self.log.clone(),
            started: self.started,
            manager: self.manager.clone(),
            changes: Changes { osdmap: true, keys: true, config: true, other: true },
            ..other.clone()
        };
        next.take_osds_from(now, self)?;
        next.log.say(now, Severity::Info, "cluster", "the state of the cluster was replaced".to_owned());
        *self = next;
        Ok(())
    }

    /// The key of `client.admin`, unless the user was removed.
    pub fn admin_key(&self) -> Option<&CryptoKey> {
        self.keys.entry(&EntityName::client("admin")).map(|entry| &entry.key)
    }

    fn check_osds(&self, other: &Self) -> Result<(), Failure> {
        let of = |state: &Self| state.served_osds().collect::<BTreeSet<OsdId>>();
        let (here, there) = (of(self), of(other));
        match here == there {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "it is the state of a cluster of {} OSDs, and this server shows {}; start one with --osds {}",
                there.len(),
                here.len(),
                there.len(),
            ))),
        }
    }

    /// The other state's map as the newest one of this cluster.
    fn map_after(&self, now: UTime, other: &Self) -> OsdMap {
        let (old, mut map) = (self.osdmap(), other.osdmap().clone());
        map.fsid = old.fsid;
        map.epoch = Epoch(old.epoch.0.max(map.epoch.0) + 1);
        map.modified = now;
        map.pool_max = map.pool_max.max(old.pool_max);
        // These are the changes of one epoch.
        map.new_removed_snaps.clear();
        map.new_purged_snaps.clear();
        for (id, pool) in &mut map.pools {
            if let Some(old) = old.pools.get(id) {
                pool.snap_seq = pool.snap_seq.max(old.snap_seq);
            }
        }
        map
    }

    /// Marks the OSDs up at the addresses where they are.
    fn take_osds_from(&mut self, now: UTime, running: &Self) -> Result<(), Failure> {
        let osds: Vec<OsdId> = running.served_osds().collect();
        for osd in osds {
            let Some(facts) = running.osdmap().osd(osd) else { continue };
            let known = self.osdmap().osd(osd);
            let is_same = known.is_some_and(|known| known.client_addrs == facts.client_addrs);
            let is_known_up = is_same && self.osdmap().is_up(osd);
            // An OSD that does not listen yet has no address.
            if !is_known_up && !facts.client_addrs.0.is_empty() {
                self.boot_osd(now, osd, facts.uuid, facts.client_addrs.clone())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use loligo_cephx::key::KeyType;
    use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec, PoolId, SnapId, Uuid};

    use super::*;
    use crate::state::NewCluster;
    use crate::state::pools::Created;

    const NOW: UTime = UTime { sec: 9, nsec: 0 };

    fn state(fsid: u8, port: u16) -> State {
        let admin_key = CryptoKey::generate_of(KeyType::Aes, NOW);
        let new = NewCluster { fsid: Uuid([fsid; 16]), now: NOW, host: "h".to_owned(), admin_key };
        let mut state = State::new(new).expect("a host's name");
        let sock = Some(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        let addr = EntityAddr { kind: AddrKind::Msgr2, sock, ..EntityAddr::default() };
        state.boot_osd(NOW, OsdId(0), Uuid([fsid; 16]), EntityAddrVec(vec![addr])).expect("osd.0 exists");
        state
    }

    fn pool(state: &mut State, name: &str) -> PoolId {
        match state.create_pool(NOW, name, 8).expect("it can be created") {
            Created::New(id) | Created::Existed(id) => id,
        }
    }

    #[test]
    fn what_was_comes_back_and_no_number_repeats() {
        let mut state = state(1, 6800);
        let kept = pool(&mut state, "kept");
        state.set_config(NOW, "osd", "debug_osd", "5");
        let before = state.clone();
        let other = pool(&mut state, "other");
        let snap = state.create_snap_id(NOW, kept).expect("an id");
        state.remove_config(NOW, "osd", "debug_osd");
        state.reserve_global_ids();
        let (epoch, ids) = (state.osdmap().epoch, state.global_id_end());
        state.replace(NOW, &before).expect("the same OSDs");
        let map = state.osdmap();
        assert_eq!(map.pools.keys().copied().collect::<Vec<_>>(), [kept]);
        assert_eq!(state.config().stored("osd", "debug_osd"), Some("5"));
        assert_eq!((map.epoch, state.global_id_end()), (Epoch(epoch.0 + 1), ids));
        assert!(map.is_up(OsdId(0)));
        assert!(state.create_snap_id(NOW, kept).expect("an id") > snap);
        assert!(pool(&mut state, "again") > other);
        let all = Changes { osdmap: true, keys: true, config: true, other: true };
        assert_eq!(state.take_changes(), all);
    }

    #[test]
    fn a_state_of_another_cluster_gets_this_ones_identity() {
        let (mut here, mut there) = (state(1, 6800), state(2, 6900));
        for at in 0..20 {
            pool(&mut there, &format!("p{at}"));
        }
        let first = there.osdmap().epoch;
        here.replace(NOW, &there).expect("as many OSDs");
        let (map, theirs) = (here.osdmap(), there.osdmap());
        assert_eq!((map.fsid, map.pools.len()), (Uuid([1; 16]), 20));
        assert!(map.epoch > first && map.is_up(OsdId(0)));
        let port =
            |map: &OsdMap| map.osd(OsdId(0)).and_then(|osd| osd.client_addrs.0[0].sock).map(|at| at.port());
        assert_eq!((port(map), port(theirs)), (Some(6800), Some(6900)));
        there.add_osds(NOW, 3, "h").expect("more OSDs");
        let refused = here.replace(NOW, &there).expect_err("another number of OSDs");
        assert!(refused.status.contains("--osds 3"), "{}", refused.status);
        assert_eq!(here.osdmap().pools.values().map(|pool| pool.snap_seq).max(), Some(SnapId(0)));
    }
}
