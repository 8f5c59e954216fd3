//! The map of managers.

use crate::message::macros::message_body;
use crate::{Decode, DecodeError, Encode, EntityAddrVec, Epoch, Reader, UTime, Writer};

message_body! {
    /// The map of managers, for clients that sent commands to them.
    MMgrMap = 0x704 "mgrmap", version 1, compat 1, PRIORITY_HIGH {
        /// The map.
        map: MgrMap,
    }
}

/// Who manages (`MgrMap`): the part that clients use. The rest, modules and their options, is written empty;
/// what follows the name is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrMap {
    /// The map's version.
    pub epoch: Epoch,
    /// Where the active manager listens; empty if there is none.
    pub active_addrs: EntityAddrVec,
    /// The active manager's number.
    pub active_gid: u64,
    /// Whether it has started up.
    pub available: bool,
    /// Its name.
    pub active_name: String,
    /// When it became the active one.
    pub active_change: UTime,
    /// What it can be sent: clients look whether commands for the cluster have a message of their own.
    pub active_features: u64,
}

/// Standbys, modules, services, available modules: a count each.
const EMPTY_LISTS_LEN: usize = 4 * 4;

impl Encode for MgrMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(11, 6, |w| {
            w.put(&self.epoch);
            w.put(&self.active_addrs);
            w.u64(self.active_gid);
            w.bool(self.available);
            w.put(&self.active_name);
            w.zeros(EMPTY_LISTS_LEN);
            w.put(&self.active_change);
            w.u32(0); // always-on modules
            w.u64(self.active_features);
            w.put(&Epoch(0)); // the last failure
            w.u32(0); // clients
        });
    }
}

impl Decode for MgrMap {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("MgrMap", 6, 12, |r, _| {
            Ok(Self {
                epoch: r.get()?,
                active_addrs: r.get()?,
                active_gid: r.u64()?,
                available: r.bool()?,
                active_name: r.get()?,
                ..Self::default()
            })
        })
    }
}
