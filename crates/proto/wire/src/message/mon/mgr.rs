//! The manager map.

use crate::message::macros::message_body;
use crate::{Decode, DecodeError, Encode, EntityAddrVec, Epoch, Reader, UTime, Writer};

message_body! {
    /// The manager map, for clients that send commands to managers.
    MMgrMap = 0x704 "mgrmap", version 1, compat 1, PRIORITY_HIGH {
        /// The map.
        map: MgrMap,
    }
}

/// The manager map (`MgrMap`), limited to the fields that clients use. The encoder writes the rest,
/// modules and their options, as empty; the decoder ignores everything after the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MgrMap {
    /// The map's version.
    pub epoch: Epoch,
    /// The addresses of the active manager; empty if there is none.
    pub active_addrs: EntityAddrVec,
    /// The active manager's global id.
    pub active_gid: u64,
    /// Whether the active manager has finished starting.
    pub available: bool,
    /// The active manager's name.
    pub active_name: String,
    /// When the active manager became active.
    pub active_change: UTime,
    /// The active manager's features. Clients derive from them whether commands to the cluster have a
    /// message type of their own.
    pub active_features: u64,
}

/// The counts of four lists: standbys, modules, services, available modules.
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
            w.put(&Epoch(0)); // the epoch of the last failure
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
