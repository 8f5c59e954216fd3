//! The manager: a door of this process at which clients ask what a cluster's manager answers.

use loligo_wire::message::mon::MgrMap;
use loligo_wire::{EntityAddrVec, Epoch, UTime, features};

use super::State;

/// The manager's name.
pub const MGR_ID: &str = "a";

/// Its number: a stock one has that of its session with the monitors.
const MGR_GID: u64 = 1;

/// Where clients find the manager. Over when the process ends.
#[derive(Clone, Debug)]
pub struct Manager {
    /// Where it listens.
    pub addrs: EntityAddrVec,
    /// When it began to.
    pub since: UTime,
    /// The map's version.
    epoch: Epoch,
}

impl State {
    /// Makes known where the manager listens. The map gets a version that is newer than those of earlier
    /// starts, as the osdmap does at each of them: clients that stay ask for what is newer than what they
    /// have.
    pub fn set_manager(&mut self, now: UTime, addrs: EntityAddrVec) {
        let epoch = self.osdmap().epoch;
        self.manager = Some(Manager { addrs, since: now, epoch });
    }

    /// The manager, once it listens.
    pub fn manager(&self) -> Option<&Manager> {
        self.manager.as_ref()
    }

    /// The map of managers.
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
