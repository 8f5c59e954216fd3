//! Space usage and object counts of the cluster and of pools.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::PaxosHeader;
use crate::message::macros::message_body;
use crate::message::osd::PoolStat;
use crate::{Decode, DecodeError, Encode, PoolId, Reader, Uuid, Writer};

message_body! {
    /// Requests the cluster's space usage, or the space available to one pool (version 2 of the
    /// message).
    MStatfs = 13 "statfs", version 2, compat 1, PRIORITY_DEFAULT {
        /// The version of the statistics that the client has.
        paxos: PaxosHeader,
        /// The cluster.
        fsid: Uuid,
        /// The pool, or `None` for the whole cluster.
        data_pool: Option<PoolId>,
    }
}

/// Space usage (`ceph_statfs`); 1 kB is 1,024 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterStatfs {
    /// Total, in kB.
    pub kb: u64,
    /// Used, in kB.
    pub kb_used: u64,
    /// Free, in kB.
    pub kb_avail: u64,
    /// Number of objects.
    pub num_objects: u64,
}

impl Encode for ClusterStatfs {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.kb);
        w.u64(self.kb_used);
        w.u64(self.kb_avail);
        w.u64(self.num_objects);
    }
}

impl Decode for ClusterStatfs {
    const MIN_LEN: usize = 32;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { kb: r.u64()?, kb_used: r.u64()?, kb_avail: r.u64()?, num_objects: r.u64()? })
    }
}

message_body! {
    /// The reply to an [`MStatfs`].
    MStatfsReply = 14 "statfs_reply", version 1, compat 1, PRIORITY_HIGH {
        /// The cluster.
        fsid: Uuid,
        /// The version of the statistics.
        version: u64,
        /// The space usage.
        statfs: ClusterStatfs,
    }
}

message_body! {
    /// Requests the statistics of pools.
    MGetPoolStats = 58 "getpoolstats", version 1, compat 1, PRIORITY_DEFAULT {
        /// The version of the statistics that the client has.
        paxos: PaxosHeader,
        /// The cluster.
        fsid: Uuid,
        /// The pools' names.
        pools: Vec<Bytes>,
    }
}

message_body! {
    /// The reply to an [`MGetPoolStats`] (version 2 of the message).
    MGetPoolStatsReply = 59 "getpoolstatsreply", version 2, compat 1, PRIORITY_HIGH {
        /// The version of the statistics.
        paxos: PaxosHeader,
        /// The cluster.
        fsid: Uuid,
        /// Statistics by pool name; pools that do not exist are left out.
        pool_stats: BTreeMap<Bytes, PoolStat>,
        /// Whether all OSDs report their space usage per pool.
        per_pool: bool,
    }
}
