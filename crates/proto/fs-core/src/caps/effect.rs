//! What the state of an inode's capabilities asks its owner to do.

use loligo_types::{CapId, Caps, Rank, Tid};

/// Something that the owner of the state must do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send an update (`CEPH_CAP_OP_UPDATE`) with the inode's current attributes.
    SendUpdate(Update),
    /// Tell a metadata server that a capability is gone (`MClientCapRelease`).
    SendRelease(Release),
    /// Drop all cached data that has been written to the store, then call
    /// [`InodeCaps::cache_dropped`](super::InodeCaps::cache_dropped).
    DropCache,
    /// Write all buffered data to the store. Once the store has acknowledged it, call
    /// [`InodeCaps::data_flushed`](super::InodeCaps::data_flushed).
    FlushData,
    /// A directory's names that the owner remembers may not be true any more, unless leases vouch for them.
    ForgetNames,
    /// Operations that wait for capabilities should try again.
    Wake,
    /// Changes that the metadata server had not acknowledged are lost, because its session is.
    Lost(Lost),
}

/// One update of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The metadata server.
    pub rank: Rank,
    /// The capability.
    pub cap_id: CapId,
    /// The last message that this client has processed.
    pub seq: u32,
    /// The last issue that this client has processed.
    pub issue_seq: u32,
    /// The number of migrations.
    pub mseq: u32,
    /// What the client holds. It includes revoked bits that are still in use.
    pub caps: Caps,
    /// What the client wants.
    pub wanted: Caps,
    /// The changed parts that the message carries; empty if it carries none.
    pub dirty: Caps,
    /// The number of the flush, if the message carries changed parts.
    pub flush_tid: Option<Tid>,
    /// Whether somebody waits until the server has noted the message in its log.
    pub is_urgent: bool,
    /// The size up to which the client wants to write; zero if it asks for nothing.
    pub max_size: u64,
}

/// The end of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The metadata server.
    pub rank: Rank,
    /// The capability.
    pub cap_id: CapId,
    /// The number of migrations.
    pub mseq: u32,
    /// The last issue that this client has processed.
    pub issue_seq: u32,
}

/// What a request tells its server of a capability, some of which it may give back
/// (`ceph_mds_request_release`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The capability.
    pub cap_id: CapId,
    /// What the client still holds.
    pub caps: Caps,
    /// What the client wants.
    pub wanted: Caps,
    /// The last message that this client has processed.
    pub seq: u32,
    /// The last issue that this client has processed.
    pub issue_seq: u32,
    /// The number of migrations.
    pub mseq: u32,
    /// What goes back.
    pub given: Caps,
}

/// What was lost with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Parts whose changes had not been acknowledged.
    pub dirty: Caps,
    /// Whether buffered data had not been written.
    pub has_data: bool,
}
