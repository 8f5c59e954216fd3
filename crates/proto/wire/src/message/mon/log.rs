//! Entries for the cluster log.

use super::PaxosHeader;
use crate::message::macros::message_body;
use crate::{Decode, DecodeError, Encode, EntityAddrVec, EntityName, EntityNum, Reader, UTime, Uuid, Writer};

/// One entry of the cluster log (`LogEntry`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The writer's name.
    pub name: EntityName,
    /// The writer's number.
    pub rank: EntityNum,
    /// The writer's addresses.
    pub addrs: EntityAddrVec,
    /// The time of the entry.
    pub stamp: UTime,
    /// The number that the writer assigned to the entry.
    pub seq: u64,
    /// The severity: 0 debug, 1 info, 2 security, 3 warning, 4 error.
    pub prio: u16,
    /// The text.
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
    /// Sends log entries to the monitors.
    MLog = 52 "log", version 1, compat 1, PRIORITY_DEFAULT {
        /// Unused: no version applies.
        paxos: PaxosHeader,
        /// The cluster.
        fsid: Uuid,
        /// The entries.
        entries: Vec<LogEntry>,
    }
}

message_body! {
    /// The reply to an [`MLog`].
    MLogAck = 53 "log_ack", version 1, compat 1, PRIORITY_HIGH {
        /// The cluster.
        fsid: Uuid,
        /// The number of the last entry that the monitors have stored.
        last: u64,
        /// The channel.
        channel: String,
    }
}
