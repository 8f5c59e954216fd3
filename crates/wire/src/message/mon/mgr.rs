//! The map of managers.

use crate::message::macros::message_body;
use crate::{Decode, DecodeError, Encode, EntityAddrVec, Epoch, Reader, Writer};

message_body! {
    /// The map of managers, for clients that sent commands to them.
    MMgrMap = 0x704 "mgrmap", version 1, compat 1, PRIORITY_HIGH {
        /// The map.
        map: MgrMap,
    }
}

/// Who manages (`MgrMap`): the part that clients use. The rest, modules and their options, is written empty and not read.
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
}

/// Eight fields of version 11, all empty: standbys, modules, services, available modules (a count each), the time of the
/// last change of the active manager, always-on modules, the manager's features, the epoch of the last failure, clients.
const EMPTY_REST_LEN: usize = 4 * 4 + 8 + 4 + 8 + 4 + 4;

impl Encode for MgrMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(11, 6, |w| {
            w.put(&self.epoch);
            w.put(&self.active_addrs);
            w.u64(self.active_gid);
            w.bool(self.available);
            w.put(&self.active_name);
            w.zeros(EMPTY_REST_LEN);
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
            })
        })
    }
}
