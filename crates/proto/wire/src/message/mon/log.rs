//! Lines for the cluster's log.

use super::PaxosHeader;
use crate::message::macros::message_body;
use crate::{Decode, DecodeError, Encode, EntityAddrVec, EntityName, EntityNum, Reader, UTime, Uuid, Writer};

/// One line (`LogEntry`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Who writes, by name.
    pub name: EntityName,
    /// Who writes, by number.
    pub rank: EntityNum,
    /// Where the writer listens.
    pub addrs: EntityAddrVec,
    /// When.
    pub stamp: UTime,
    /// The writer's number for the line.
    pub seq: u64,
    /// How grave: 0 debug, 1 info, 2 security, 3 warning, 4 error.
    pub prio: u16,
    /// The line.
    pub message: String,
    /// The channel: `cluster`, `audit`, …
    pub channel: String,
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(5, 5, |w| {
            w.put(&self.name);
            w.put(&self.rank);
            w.put(&self.addrs);
            w.put(&self.stamp);
            w.u64(self.seq);
            w.u16(self.prio);
            w.put(&self.message);
            w.put(&self.channel);
        });
    }
}

impl Decode for LogEntry {
    const MIN_LEN: usize = 54;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("LogEntry", 5, 5, |r, _| {
            Ok(Self {
                name: r.get()?,
                rank: r.get()?,
                addrs: r.get()?,
                stamp: r.get()?,
                seq: r.u64()?,
                prio: r.u16()?,
                message: r.get()?,
                channel: r.get()?,
            })
        })
    }
}

message_body! {
    /// Hands lines to the monitors.
    MLog = 52 "log", version 1, compat 1, PRIORITY_DEFAULT {
        /// No version is meant.
        paxos: PaxosHeader,
        /// The cluster.
        fsid: Uuid,
        /// The lines.
        entries: Vec<LogEntry>,
    }
}

message_body! {
    /// The answer to an [`MLog`].
    MLogAck = 53 "log_ack", version 1, compat 1, PRIORITY_HIGH {
        /// The cluster.
        fsid: Uuid,
        /// The last line that is safe.
        last: u64,
        /// The channel.
        channel: String,
    }
}
