//! One metadata server in a map: [`MdsInfo`].

use std::collections::BTreeSet;
use std::fmt;

use loligo_wire::{Decode, DecodeError, Encode, EntityAddrVec, Fscid, GlobalId, Rank, Reader, UTime, Writer};

use crate::Name;
use crate::compat::CompatSet;

/// The state of a metadata server (`MDSMap::DaemonState`). Numbers above 0 are states of a server that has
/// a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MdsState(pub i32);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $code:literal $word:literal,)*) => {
        impl MdsState {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// Ceph's name of the state; `None` for an unknown one.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some($word),)*
                    _ => None,
                }
            }
        }
    };
}

states! {
    /// The rank never existed.
    DNE = 0 "down:dne",
    /// The rank was removed.
    STOPPED = -1 "down:stopped",
    /// The server has started.
    BOOT = -4 "up:boot",
    /// The server waits for a rank.
    STANDBY = -5 "up:standby",
    /// The server creates a new rank.
    CREATING = -6 "up:creating",
    /// The server takes over a rank that was removed.
    STARTING = -7 "up:starting",
    /// The server follows the journal of a rank that another one has.
    STANDBY_REPLAY = -8 "up:standby-replay",
    /// The server reads the journal.
    REPLAY = 8 "up:replay",
    /// The server settles changes that involved other ranks.
    RESOLVE = 9 "up:resolve",
    /// The server waits for its clients to say what they hold.
    RECONNECT = 10 "up:reconnect",
    /// The server rebuilds what it shares with other ranks.
    REJOIN = 11 "up:rejoin",
    /// The server executes the requests that clients send again.
    CLIENTREPLAY = 12 "up:clientreplay",
    /// The server serves.
    ACTIVE = 13 "up:active",
    /// The server hands its rank's directories to others.
    STOPPING = 14 "up:stopping",
    /// The rank's metadata are damaged.
    DAMAGED = 15 "down:damaged",
}

impl fmt::Display for MdsState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "state {}", self.0),
        }
    }
}

/// A metadata server (`MDSMap::mds_info_t`).
///
/// Version 9 added the flags, and version 10, which releases 16 to 20 write, the features of stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdsInfo {
    /// The number that the monitors gave to the process.
    pub gid: GlobalId,
    /// The daemon's name, without `mds.`.
    pub name: Name,
    /// The rank; [`Rank::NONE`] for none.
    pub rank: Rank,
    /// Counts the servers that have had the rank.
    pub inc: i32,
    /// The state.
    pub state: MdsState,
    /// Counts the changes of the state.
    pub state_seq: u64,
    /// The addresses.
    pub addrs: EntityAddrVec,
    /// Since when the monitors have not heard of the server; zero if they hear of it.
    pub laggy_since: UTime,
    /// The ranks whose clients should open sessions with this server, because directories move there.
    pub export_targets: BTreeSet<Rank>,
    /// The features of the server's connections.
    pub mds_features: u64,
    /// The file system that the server prefers.
    pub join_fscid: Fscid,
    /// [`MdsInfo::FROZEN`].
    pub flags: u64,
    /// The features of stored data that the server understands.
    pub compat: Option<CompatSet>,
}

impl Default for MdsInfo {
    fn default() -> Self {
        Self {
            gid: GlobalId(0),
            name: Name::new(),
            rank: Rank::NONE,
            inc: 0,
            state: MdsState::STANDBY,
            state_seq: 0,
            addrs: EntityAddrVec::default(),
            laggy_since: UTime::default(),
            export_targets: BTreeSet::new(),
            mds_features: 0,
            join_fscid: Fscid::NONE,
            flags: 0,
            compat: None,
        }
    }
}

impl MdsInfo {
    /// The monitors do not give the server another state.
    pub const FROZEN: u64 = 1;

    /// Whether the monitors no longer hear of the server.
    pub fn is_laggy(&self) -> bool {
        !self.laggy_since.is_zero()
    }
}

impl Encode for MdsInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(if self.compat.is_some() { 10 } else { 9 }, 4, |w| {
            w.put(&self.gid);
            w.put(&self.name);
            w.put(&self.rank);
            w.i32(self.inc);
            w.i32(self.state.0);
            w.u64(self.state_seq);
            w.put(&self.addrs);
            w.put(&self.laggy_since);
            w.put(&Rank::NONE); // the rank to stand by for, which is no longer used
            w.put(&Name::new()); // the name of the server to stand by for, likewise
            w.put(&self.export_targets);
            w.u64(self.mds_features);
            w.put(&self.join_fscid);
            w.bool(false); // whether to follow the journal, likewise
            w.u64(self.flags);
            if let Some(compat) = &self.compat {
                w.put(compat);
            }
        });
    }
}

impl Decode for MdsInfo {
    const MIN_LEN: usize = 70;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("mds_info_t", 7, 10, |r, version| {
            let mut info = Self {
                gid: r.get()?,
                name: r.get()?,
                rank: r.get()?,
                inc: r.i32()?,
                state: MdsState(r.i32()?),
                state_seq: r.u64()?,
                addrs: r.get()?,
                laggy_since: r.get()?,
                ..Self::default()
            };
            r.skip(4)?;
            r.blob()?;
            info.export_targets = r.get()?;
            info.mds_features = r.u64()?;
            info.join_fscid = r.get()?;
            r.skip(1)?;
            if version >= 9 {
                info.flags = r.u64()?;
            }
            if version >= 10 {
                info.compat = Some(r.get()?);
            }
            Ok(info)
        })
    }
}
