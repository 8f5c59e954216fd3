//! How much of the blocklist one user may fill. Every client and OSD keeps all of it, in every map.

use loligo_wire::{EntityAddr, EntityName};

use super::State;
use crate::failure::{Errno, Failure};

/// Entries of one user who may not do everything, that hold at a time.
const FENCES_PER_USER_MAX: usize = 1_000;
/// Entries of all.
const FENCES_MAX: usize = 65_536;

impl State {
    /// Notes that a user is about to put an address on the blocklist, or to have its entry hold for longer.
    ///
    /// # Errors
    /// ENOSPC: the user's entries are too many, or all are.
    pub fn fence(&mut self, addr: EntityAddr, user: &EntityName, is_unbounded: bool) -> Result<(), Failure> {
        let listed = &self.maps.current().blocklist;
        if listed.addrs.contains_key(&addr) || listed.ranges.contains_key(&addr) {
            return Ok(());
        }
        let all = listed.addrs.len() + listed.ranges.len();
        if all >= FENCES_MAX {
            let status = format!(
                "{all} clients are blocklisted, there cannot be more: `ceph osd blocklist clear` removes all entries"
            );
            return Err(Failure::new(Errno::ENOSPC, status));
        }
        if is_unbounded {
            return Ok(());
        }
        let own = self.fenced_by.entry(user.clone()).or_default();
        if own.len() >= FENCES_PER_USER_MAX {
            own.retain(|addr| listed.addrs.contains_key(addr) || listed.ranges.contains_key(addr));
        }
        if own.len() >= FENCES_PER_USER_MAX {
            let own = own.len();
            let status = format!(
                "{user} has {own} clients on the blocklist; more at a time are for users with `allow *` \
                 on the monitor. Entries end when they expire, or by `ceph osd blocklist rm`"
            );
            return Err(Failure::new(Errno::ENOSPC, status));
        }
        own.insert(addr);
        Ok(())
    }
}
