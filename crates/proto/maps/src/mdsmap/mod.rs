//! The metadata servers of a file system ([`MdsMap`], `src/mds/MDSMap.cc`).
//!
//! Clients of old kernels read only the first part; the second part has a version of its own.
//!
//! | version | written by | adds |
//! |---|---|---|
//! | 16 | 16 | |
//! | 17, 18 | 18 | `bal_rank_mask`, `max_xattr_size` |
//! | 19 | 20 | `quiesce` |

mod info;

use std::collections::{BTreeMap, BTreeSet};

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_wire::message::mds::FeatureBits;
use loligo_wire::{
    Decode, DecodeError, Encode, EntityAddrVec, Epoch, GlobalId, PoolId, Rank, Reader, UTime, Writer,
};

use crate::Name;
use crate::compat::CompatSet;

pub use info::{MdsInfo, MdsState};

/// The oldest version of the second part that is read, and the version without any later field.
const EXTENDED_OLDEST: u16 = 16;

/// The metadata servers of a file system, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdsMap {
    /// The map's version.
    pub epoch: Epoch,
    /// [`MdsMap::NOT_JOINABLE`] and the constants after it.
    pub flags: u32,
    /// The epoch of the last failure of a server.
    pub last_failure: Epoch,
    /// The rank that has the root directory.
    pub root: Rank,
    /// Seconds without a renewal after which a session is stale.
    pub session_timeout_s: u32,
    /// Seconds without a renewal after which a client is evicted.
    pub session_autoclose_s: u32,
    /// The largest size of a file, in bytes.
    pub max_file_size: u64,
    /// The number of ranks wanted.
    pub max_mds: i32,
    /// The servers.
    pub mds_info: BTreeMap<GlobalId, MdsInfo>,
    /// The pools that data may be in; new files use the first one by default.
    pub data_pools: Vec<PoolId>,
    /// The features of the stored metadata.
    pub compat: CompatSet,
    /// The pool with the metadata.
    pub metadata_pool: PoolId,
    /// The time at which the file system was created.
    pub created: UTime,
    /// The time at which this epoch was created.
    pub modified: UTime,
    /// The rank that has the tables.
    pub tableserver: Rank,
    /// The ranks that exist.
    pub in_ranks: BTreeSet<Rank>,
    /// The number of servers that each rank has had.
    pub inc: BTreeMap<Rank, i32>,
    /// The server of each rank that has one.
    pub up: BTreeMap<Rank, GlobalId>,
    /// Ranks without a server.
    pub failed: BTreeSet<Rank>,
    /// Ranks that were removed.
    pub stopped: BTreeSet<Rank>,
    /// The osdmap that blocklists the last server that failed.
    pub last_failure_osd_epoch: Epoch,
    /// Features that were ever allowed (obsolete).
    pub ever_allowed_features: u8,
    /// Features that were allowed by an administrator (obsolete).
    pub explicitly_allowed_features: u8,
    /// Whether small files may be stored with their inode.
    pub inline_data_enabled: bool,
    /// Whether the file system is in use.
    pub enabled: bool,
    /// The file system's name.
    pub fs_name: Name,
    /// Ranks whose metadata are damaged.
    pub damaged: BTreeSet<Rank>,
    /// The name of the balancer.
    pub balancer: Name,
    /// The number of standby servers below which the cluster warns; −1 for the default.
    pub standby_count_wanted: i32,
    /// `max_mds` before the file system was taken down.
    pub old_max_mds: i32,
    /// The oldest release of clients (replaced by features; 0).
    pub min_compat_client: u8,
    /// The features that clients must have.
    pub required_client_features: FeatureBits,
    /// The ranks that the balancer uses (version 17).
    pub bal_rank_mask: Option<Name>,
    /// The maximum size of all extended attributes of an inode (version 18).
    pub max_xattr_size: Option<u64>,
    /// The servers that agree on pauses (version 19).
    pub quiesce: Option<QuiesceCluster>,
}

/// The servers that agree on pauses of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuiesceCluster {
    /// The leader.
    pub leader: GlobalId,
    /// All of them.
    pub members: BTreeSet<GlobalId>,
}

/// Whether a client can mount the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Available,
    /// It can soon: a server is starting or was replaced.
    Transient,
    /// It cannot until an administrator does something.
    Stuck,
}

impl Default for MdsMap {
    fn default() -> Self {
        Self {
            epoch: Epoch(0),
            flags: Self::ALLOW_SNAPS | Self::ALLOW_MULTIMDS_SNAPS,
            last_failure: Epoch(0),
            root: Rank(0),
            session_timeout_s: 60,
            session_autoclose_s: 300,
            max_file_size: 1 << 40,
            max_mds: 1,
            mds_info: BTreeMap::new(),
            data_pools: Vec::new(),
            compat: CompatSet::default(),
            metadata_pool: PoolId(-1),
            created: UTime::default(),
            modified: UTime::default(),
            tableserver: Rank(0),
            in_ranks: BTreeSet::new(),
            inc: BTreeMap::new(),
            up: BTreeMap::new(),
            failed: BTreeSet::new(),
            stopped: BTreeSet::new(),
            last_failure_osd_epoch: Epoch(0),
            ever_allowed_features: 0,
            explicitly_allowed_features: 0,
            inline_data_enabled: false,
            enabled: false,
            fs_name: Name::new(),
            damaged: BTreeSet::new(),
            balancer: Name::new(),
            standby_count_wanted: -1,
            old_max_mds: 0,
            min_compat_client: 0,
            required_client_features: FeatureBits::default(),
            bal_rank_mask: None,
            max_xattr_size: None,
            quiesce: None,
        }
    }
}

/// Lookups.
impl MdsMap {
    /// A flag: no server may join.
    pub const NOT_JOINABLE: u32 = 1;
    /// A flag: snapshots are allowed.
    pub const ALLOW_SNAPS: u32 = 1 << 1;
    /// A flag: snapshots are allowed with several ranks.
    pub const ALLOW_MULTIMDS_SNAPS: u32 = 1 << 4;
    /// A flag: standby servers follow journals.
    pub const ALLOW_STANDBY_REPLAY: u32 = 1 << 5;
    /// A flag: no client may open a session.
    pub const REFUSE_CLIENT_SESSION: u32 = 1 << 6;
    /// A flag: servers of other file systems do not take over.
    pub const REFUSE_STANDBY_FOR_ANOTHER_FS: u32 = 1 << 7;

    /// The server that has a rank.
    pub fn server(&self, rank: Rank) -> Option<&MdsInfo> {
        self.mds_info.get(self.up.get(&rank)?)
    }

    /// The state of a rank's server; [`MdsState::DNE`] for a rank that has none.
    pub fn state(&self, rank: Rank) -> MdsState {
        self.server(rank).map_or(MdsState::DNE, |info| info.state)
    }

    /// The addresses of a rank's server.
    pub fn addrs(&self, rank: Rank) -> Option<&EntityAddrVec> {
        self.server(rank).map(|info| &info.addrs)
    }

    /// The ranks whose server serves, in ascending order.
    pub fn active_ranks(&self) -> impl Iterator<Item = Rank> {
        self.up.keys().copied().filter(|rank| self.state(*rank) == MdsState::ACTIVE)
    }

    /// Whether a client can mount the file system, as clients decide it.
    pub fn availability(&self) -> Availability {
        if self.epoch == Epoch(0) {
            return Availability::Transient;
        }
        if !self.damaged.is_empty() || self.in_ranks.is_empty() {
            return Availability::Stuck;
        }
        let laggy = |rank: &Rank| self.server(*rank).is_some_and(MdsInfo::is_laggy);
        if self.in_ranks.iter().any(laggy) {
            return Availability::Stuck;
        }
        if self.active_ranks().next().is_some() { Availability::Available } else { Availability::Transient }
    }

    /// Whether data may be in this pool.
    pub fn is_data_pool(&self, pool: PoolId) -> bool {
        self.data_pools.contains(&pool)
    }
}

/// Encoding and decoding.
impl MdsMap {
    /// Decodes the map of a message.
    pub fn from_message(map: &Bytes) -> Result<Self, DecodeError> {
        Self::from_bytes(map)
    }

    fn extended_version(&self) -> u16 {
        match self {
            Self { quiesce: Some(_), .. } => 19,
            Self { max_xattr_size: Some(_), .. } => 18,
            Self { bal_rank_mask: Some(_), .. } => 17,
            _ => EXTENDED_OLDEST,
        }
    }

    fn encode_first(&self, w: &mut Writer) {
        w.put(&self.epoch);
        w.u32(self.flags);
        w.put(&self.last_failure);
        w.put(&self.root);
        w.u32(self.session_timeout_s);
        w.u32(self.session_autoclose_s);
        w.u64(self.max_file_size);
        w.i32(self.max_mds);
        w.put(&self.mds_info);
        w.put(&self.data_pools);
        w.i64(-1); // a pool for deduplication, which was never used
    }

    fn encode_extended(&self, w: &mut Writer) {
        let version = self.extended_version();
        w.u16(version);
        w.put(&self.compat);
        w.put(&self.metadata_pool);
        w.put(&self.created);
        w.put(&self.modified);
        w.put(&self.tableserver);
        w.put(&self.in_ranks);
        w.put(&self.inc);
        w.put(&self.up);
        w.put(&self.failed);
        w.put(&self.stopped);
        w.put(&self.last_failure_osd_epoch);
        w.u8(self.ever_allowed_features);
        w.u8(self.explicitly_allowed_features);
        w.bool(self.inline_data_enabled);
        w.bool(self.enabled);
        w.put(&self.fs_name);
        w.put(&self.damaged);
        w.put(&self.balancer);
        w.i32(self.standby_count_wanted);
        w.i32(self.old_max_mds);
        w.u8(self.min_compat_client);
        w.put(&self.required_client_features);
        if version >= 17 {
            w.put(self.bal_rank_mask.as_ref().unwrap_or(&Name::new()));
        }
        if version >= 18 {
            w.u64(self.max_xattr_size.unwrap_or(0));
        }
        if let Some(quiesce) = &self.quiesce {
            w.put(&quiesce.leader);
            w.put(&quiesce.members);
        }
    }

    fn decode_first(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let map = Self {
            epoch: r.get()?,
            flags: r.u32()?,
            last_failure: r.get()?,
            root: r.get()?,
            session_timeout_s: r.u32()?,
            session_autoclose_s: r.u32()?,
            max_file_size: r.u64()?,
            max_mds: r.i32()?,
            mds_info: r.get()?,
            data_pools: r.get()?,
            ..Self::default()
        };
        r.skip(8)?;
        Ok(map)
    }

    fn decode_extended(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        let version = r.u16()?;
        if version < EXTENDED_OLDEST {
            return Err(DecodeError::TooOld {
                what: "MDSMap's second part",
                version: version.saturating_as::<u8>(),
                oldest: EXTENDED_OLDEST.saturating_as::<u8>(),
            });
        }
        self.compat = r.get()?;
        self.metadata_pool = r.get()?;
        self.created = r.get()?;
        self.modified = r.get()?;
        self.tableserver = r.get()?;
        self.in_ranks = r.get()?;
        self.inc = r.get()?;
        self.up = r.get()?;
        self.failed = r.get()?;
        self.stopped = r.get()?;
        self.last_failure_osd_epoch = r.get()?;
        self.ever_allowed_features = r.u8()?;
        self.explicitly_allowed_features = r.u8()?;
        self.inline_data_enabled = r.bool()?;
        self.enabled = r.bool()?;
        self.fs_name = r.get()?;
        self.damaged = r.get()?;
        self.balancer = r.get()?;
        self.standby_count_wanted = r.i32()?;
        self.old_max_mds = r.i32()?;
        self.min_compat_client = r.u8()?;
        self.required_client_features = r.get()?;
        if version >= 17 {
            self.bal_rank_mask = Some(r.get()?);
        }
        if version >= 18 {
            self.max_xattr_size = Some(r.u64()?);
        }
        if version >= 19 {
            self.quiesce = Some(QuiesceCluster { leader: r.get()?, members: r.get()? });
        }
        Ok(())
    }
}

impl Encode for MdsMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(5, 4, |w| {
            self.encode_first(w);
            self.encode_extended(w);
        });
    }
}

impl Decode for MdsMap {
    const MIN_LEN: usize = 6;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("MDSMap", 4, 5, |r, _| {
            let mut map = Self::decode_first(r)?;
            map.decode_extended(r)?;
            Ok(map)
        })
    }
}

#[cfg(test)]
mod tests;
