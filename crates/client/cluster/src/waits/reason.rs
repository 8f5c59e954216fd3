//! Reasons for a wait.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use loligo_wire::{EntityAddr, Epoch, OsdId, PgId, PoolId, Rank};

/// The reason for a wait, with the details known.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A session with a monitor.
    Monitor {
        /// Known addresses of monitors.
        known: Vec<EntityAddr>,
        /// The last failure.
        last_error: String,
    },
    /// A reply from a monitor.
    MonitorAnswer(EntityAddr),
    /// The DNS lookup of the monitors.
    Dns,
    /// A map of the cluster.
    Map {
        /// Minimum epoch required.
        wanted: Epoch,
        /// Newest epoch received.
        known: Epoch,
    },
    /// An active manager, or the manager of this name becoming active.
    Manager {
        /// The required name, if any.
        wanted: Option<String>,
        /// The active manager's name.
        active: Option<String>,
    },
    /// A connection to the active manager.
    ManagerConnection(EntityAddr),
    /// A reply from the active manager.
    ManagerAnswer(String),
    /// A primary for these placement groups.
    NoPrimary {
        /// The placement groups.
        pgs: BTreeSet<PgId>,
        /// The OSDs that should serve the first placement group and are down.
        down: Vec<OsdId>,
        /// Their pool.
        pool: PoolId,
    },
    /// Space in a pool.
    PoolFull {
        /// The pool's name.
        pool: String,
        /// `true` if the pool's quota is reached; `false` if the OSDs have no space.
        by_quota: bool,
    },
    /// Space in the cluster.
    ClusterFull,
    /// The end of a pause of all reads (`pauserd`) or writes (`pausewr`).
    Paused(&'static str),
    /// The end of a backoff: the OSD holds back requests to these placement groups.
    Backoff {
        /// The OSD.
        osd: OsdId,
        /// The placement groups.
        pgs: BTreeSet<PgId>,
    },
    /// A connection to an OSD.
    OsdConnection {
        /// The OSD.
        osd: OsdId,
        /// The OSD's address in the map.
        addr: Option<EntityAddr>,
    },
    /// A reply from an OSD.
    OsdAnswer {
        /// The OSD.
        osd: OsdId,
        /// The placement groups of the requests; empty for a command.
        pgs: BTreeSet<PgId>,
    },
    /// A reply from a metadata server.
    MdsAnswer {
        /// The server's rank.
        rank: Rank,
        /// The name of the file system.
        fs: String,
    },
    /// A metadata server that serves a file system.
    NoMds {
        /// The name of the file system.
        fs: String,
    },
    /// A new identity in the cluster, which has evicted the client.
    NewIdentity {
        /// The last failure, if an attempt has failed.
        last_error: Option<String>,
    },
    /// A free place among the operations in flight.
    Place,
    /// Earlier requests, which are being resent.
    Turn,
    /// The watchers' replies to a notification.
    Watchers {
        /// The object.
        object: Vec<u8>,
    },
    /// A lock held by another client.
    Lock {
        /// The locked item: `image 'i'`.
        what: String,
        /// The lock's holder.
        holder: String,
    },
}

impl Reason {
    /// Returns `true` if both reasons share a line of output.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Monitor { .. }, Self::Monitor { .. }) => true,
            (Self::Map { .. }, Self::Map { .. }) => true,
            (Self::NewIdentity { .. }, Self::NewIdentity { .. }) => true,
            (Self::NoPrimary { pool, .. }, Self::NoPrimary { pool: other, .. }) => pool == other,
            (Self::Backoff { osd, .. }, Self::Backoff { osd: other, .. })
            | (Self::OsdAnswer { osd, .. }, Self::OsdAnswer { osd: other, .. })
            | (Self::OsdConnection { osd, .. }, Self::OsdConnection { osd: other, .. }) => osd == other,
            _ => self == other,
        }
    }

    /// Merges the details of a reason that [is like](Self::is_like) this one.
    pub(super) fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::NoPrimary { pgs, .. }, Self::NoPrimary { pgs: more, .. })
            | (Self::Backoff { pgs, .. }, Self::Backoff { pgs: more, .. })
            | (Self::OsdAnswer { pgs, .. }, Self::OsdAnswer { pgs: more, .. }) => pgs.extend(more),
            (Self::Map { wanted, .. }, Self::Map { wanted: other, .. }) => *wanted = other.max(*wanted),
            _ => {}
        }
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Monitor { known, last_error } => {
                write!(f, "no session with a monitor of {}; the last attempt: {last_error}", Places(known))
            }
            Self::MonitorAnswer(addr) => write!(f, "the monitor at {} has not answered", Place(addr)),
            Self::Dns => f.write_str("DNS has not said where the monitors are"),
            Self::Map { wanted, known } => {
                write!(f, "OSD map {} has not come; the newest known is {}", wanted.0, known.0)
            }
            Self::Manager { wanted: Some(name), active } => {
                let active = active.as_deref().unwrap_or("none");
                write!(f, "manager {name} is not the active one; active: {active}")
            }
            Self::Manager { wanted: None, .. } => {
                f.write_str("the cluster has no active manager; see 'ceph mgr stat'")
            }
            Self::ManagerConnection(addr) => {
                write!(f, "no connection to the active manager at {}", Place(addr))
            }
            Self::ManagerAnswer(name) => write!(f, "manager {name} has not answered"),
            Self::NoPrimary { pgs, down, .. } => {
                let have = if pgs.len() == 1 { "has" } else { "have" };
                write!(f, "{} {have} no primary ({})", Pgs(pgs), Down(down))
            }
            Self::PoolFull { pool, by_quota: false } => {
                write!(f, "pool '{pool}' is full: remove objects with --force-full, or add space")
            }
            Self::PoolFull { pool, by_quota: true } => write!(
                f,
                "pool '{pool}' is full, its quota is reached: remove objects with --force-full, or raise it with \
                 'ceph osd pool set-quota'"
            ),
            Self::ClusterFull => {
                f.write_str("the cluster is full: remove objects with --force-full, or add space")
            }
            Self::Paused(flag) => {
                write!(f, "the cluster has the flag {flag}; 'ceph osd unpause' ends that")
            }
            Self::Backoff { osd, pgs } => {
                write!(f, "osd.{} holds requests to {} back until it can serve them", osd.0, Pgs(pgs))
            }
            Self::OsdConnection { osd, addr: Some(addr) } => {
                write!(f, "no connection to osd.{} at {}", osd.0, Place(addr))
            }
            Self::OsdConnection { osd, addr: None } => write!(f, "no connection to osd.{}", osd.0),
            Self::OsdAnswer { osd, pgs } if pgs.is_empty() => write!(f, "osd.{} has not answered", osd.0),
            Self::OsdAnswer { osd, pgs } => write!(f, "osd.{} has not answered for {}", osd.0, Pgs(pgs)),
            Self::MdsAnswer { rank, fs } => write!(f, "mds.{rank} of '{fs}' has not answered"),
            Self::NoMds { fs } => {
                write!(f, "no metadata server serves file system '{fs}'; see 'ceph fs status'")
            }
            Self::NewIdentity { last_error: None } => {
                f.write_str("the cluster has evicted this client, which asks for a new identity")
            }
            Self::NewIdentity { last_error: Some(why) } => {
                write!(f, "the cluster has evicted this client, and gives it no new identity: {why}")
            }
            Self::Place => f.write_str(
                "as many requests or bytes are in flight as objecter_inflight_ops and objecter_inflight_op_bytes allow",
            ),
            Self::Turn => f.write_str("requests before them are being sent again"),
            Self::Watchers { object } => {
                write!(f, "not all who watch '{}' have answered a notification", object.escape_ascii())
            }
            Self::Lock { what, holder } => write!(f, "{what} is locked by {holder}"),
        }
    }
}

/// Displays an address without its type and nonce.
struct Place<'a>(&'a EntityAddr);

impl Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.sock {
            Some(sock) => sock.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

struct Places<'a>(&'a [EntityAddr]);

impl Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, addr) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, Place(addr))?;
        }
        Ok(())
    }
}

/// Displays placement groups: the first by name, then the number of others.
struct Pgs<'a>(&'a BTreeSet<PgId>);

impl Display for Pgs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return f.write_str("no pg") };
        match self.0.len() - 1 {
            0 => write!(f, "pg {first}"),
            1 => write!(f, "pg {first} and 1 other"),
            n => write!(f, "pg {first} and {n} others"),
        }
    }
}

/// Displays the OSDs that should serve a placement group.
struct Down<'a>(&'a [OsdId]);

impl Display for Down<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("its CRUSH rule finds no OSD that is in"),
            [osd] => write!(f, "osd.{} is down", osd.0),
            [osds @ .., last] => {
                for (i, osd) in osds.iter().enumerate() {
                    write!(f, "{}osd.{}", if i > 0 { ", " } else { "" }, osd.0)?;
                }
                write!(f, " and osd.{} are down", last.0)
            }
        }
    }
}
