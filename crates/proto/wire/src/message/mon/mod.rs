//! Messages between clients and monitors.
//!
//! Messages about state that the monitors agree on by Paxos begin with a [`PaxosHeader`].

mod auth;
mod command;
mod fs;
mod log;
mod mgr;
mod pool;
mod session;
mod stats;

pub use auth::{MAuth, MAuthReply};
pub use command::{MCommand, MCommandReply, MMonCommand, MMonCommandAck};
pub use fs::{MFSMap, MFSMapUser, MMDSMap};
pub use log::{LogEntry, MLog, MLogAck};
pub use mgr::{MMgrMap, MgrMap};
pub use pool::{MPoolOp, MPoolOpReply, PoolOpCode};
pub use session::{
    MConfig, MMonGetMap, MMonGetVersion, MMonGetVersionReply, MMonMap, MMonSubscribe, MMonSubscribeAck,
    MPing, Subscription,
};
pub use stats::{ClusterStatfs, MGetPoolStats, MGetPoolStatsReply, MStatfs, MStatfsReply};

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// The first fields of `PaxosServiceMessage`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaxosHeader {
    /// The version of the service's state that the sender has seen, or that the reply is based on; 0
    /// means "any".
    pub version: u64,
}

impl Encode for PaxosHeader {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.version);
        w.u16(u16::MAX); // two fields that monitors formerly used among themselves
        w.u64(0);
    }
}

impl Decode for PaxosHeader {
    const MIN_LEN: usize = 18;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let header = Self { version: r.u64()? };
        r.skip(10)?;
        Ok(header)
    }
}
