//! The manager: a second address of this process, for the commands of a cluster's manager.

use loligo_wire::message::mon::MgrMap;
use loligo_wire::{EntityAddrVec, Epoch, UTime, features};

use super::State;

/// The manager's name.
pub const MGR_ID: &str = "a";

/// The manager's number: a stock manager uses the global id of its session with the monitors.
const MGR_GID: u64 = 1;

/// The manager's address in the map. Not saved.
#[derive(Clone, Debug)]
pub struct Manager {
    /// The addresses it listens on.
    pub addrs: EntityAddrVec,
    /// When it began to listen.
    pub since: UTime,
    /// The map's version.
    epoch: Epoch,
}

impl State {
    /// Publishes the manager's addresses. The map's version is the osdmap's epoch, which grows at each
    /// start: clients that stay connected over a restart only ask for newer versions.
    pub fn set_manager(&mut self, now: UTime, addrs: EntityAddrVec) {
        let epoch = self.osdmap().epoch;
        self.manager = Some(Manager { addrs, since: now, epoch });
    }

    /// The manager, once it listens.
    pub fn manager(&self) -> Option<&Manager> {
        self.manager.as_ref()
    }

    /// The manager map.
    pub fn mgr_map(&self) -> MgrMap {
        let Some(manager) = &self.manager else { return MgrMap { epoch: Epoch(1), ..MgrMap::default() } };
        MgrMap {
            epoch: manager.epoch.max(Epoch(1)),
            active_addrs: manager.addrs.clone(),
            active_gid: MGR_GID,
            available: true,
            active_name: MGR_ID.to_owned(),
            active_change: manager.since,
            active_features: features::SUPPORTED,
        }
    }
}
