//! Limits on the blocklist entries of a user. Every client and OSD keeps the whole blocklist, as part of
//! every map.

use loligo_wire::{EntityAddr, EntityName};

use super::State;
use crate::failure::{Errno, Failure};

/// Maximum number of unexpired entries of a user without `allow *`.
const FENCES_PER_USER_MAX: usize = 1_000;
/// Maximum number of entries of all users.
const FENCES_MAX: usize = 65_536;

impl State {
    /// Records that a user is about to blocklist an address or to extend its entry.
    ///
    /// # Errors
    /// ENOSPC: the user has too many entries, or all users together have.
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
        // The address may have been another user's, whose entry has ended.
        self.fenced_by.values_mut().for_each(|addrs| _ = addrs.remove(&addr));
        self.fenced_by.entry(user.clone()).or_default().insert(addr);
        Ok(())
    }
}
