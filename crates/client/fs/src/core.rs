//! What all handles of a mount share: maps, sessions and inodes. Nothing here is locked for the time of a
//! request or an I/O.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loligo_cluster::{Cluster, Dialer};
use loligo_lockstat::{Class, RwLock};
use loligo_maps::{FsMapUser, MdsMap};
use loligo_rados::Rados;
use loligo_wire::message::mds::{FilePath, InodeStat};
use loligo_wire::{CapId, Epoch, Fscid, Name, Rank, SnapId, Tid};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::inode::{Grant, Held, Inode, InodeId, Table};
use crate::options::MountOptions;
use crate::realm::Realms;
use crate::session::Session;

/// Held to find a session, and to add or remove one.
static SESSIONS: Class = Class::new("fs.sessions");

/// The shared parts of a mount.
pub(crate) struct Core {
    pub(crate) rados: Rados,
    pub(crate) options: MountOptions,
    /// How long to wait for maps and servers.
    pub(crate) patience: Duration,
    began: Instant,
    pub(crate) map: watch::Sender<Option<Arc<MdsMap>>>,
    pub(crate) names: watch::Sender<Option<FsMapUser>>,
    /// What the mount follows of the monitors' maps.
    pub(crate) followed: OnceLock<(Fscid, String)>,
    pub(crate) sessions: RwLock<BTreeMap<Rank, Arc<Session>>>,
    pub(crate) inodes: Table,
    pub(crate) realms: Realms,
    pub(crate) root: OnceLock<Arc<Inode>>,
    tids: AtomicU64,
    flush_tids: AtomicU64,
    pub(crate) is_closed: AtomicBool,
}

impl Core {
    pub(crate) fn new(rados: Rados, options: MountOptions) -> Arc<Self> {
        let patience = options.patience.unwrap_or_else(|| rados.cluster().patience());
        Arc::new(Self {
            rados,
            options,
            patience,
            began: Instant::now(),
            map: watch::Sender::new(None),
            names: watch::Sender::new(None),
            followed: OnceLock::new(),
            sessions: RwLock::new(&SESSIONS, BTreeMap::new()),
            inodes: Table::new(),
            realms: Realms::new(),
            root: OnceLock::new(),
            tids: AtomicU64::new(1),
            flush_tids: AtomicU64::new(1),
            is_closed: AtomicBool::new(false),
        })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.rados.cluster()
    }

    pub(crate) fn dialer(&self) -> &Arc<Dialer> {
        self.cluster().dialer()
    }

    /// Returns the client's clock: milliseconds since the mount began.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn next_tid(&self) -> Tid {
        Tid(self.tids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn next_flush_tid(&self) -> u64 {
        self.flush_tids.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn map_epoch(&self) -> Epoch {
        self.map.borrow().as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    /// Returns the file system's map.
    pub(crate) fn mds_map(&self) -> Option<Arc<MdsMap>> {
        self.map.borrow().clone()
    }

    /// Returns the session with a server, if there is one.
    pub(crate) fn session_of(&self, rank: Rank) -> Option<Arc<Session>> {
        self.sessions.read().get(&rank).cloned()
    }

    /// Returns all sessions.
    pub(crate) fn all_sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.read().values().cloned().collect()
    }

    /// What `session ls` of a metadata server shows of this client, as stock clients tell it.
    pub(crate) fn metadata(&self) -> BTreeMap<Name, Name> {
        let conf = self.cluster().conf();
        let mut pairs = self.options.metadata.clone();
        pairs.insert("hostname".to_owned(), self.cluster().hostname().to_owned());
        pairs.insert("pid".to_owned(), std::process::id().to_string());
        pairs.insert("entity_id".to_owned(), conf.name().id.clone());
        pairs.insert("loligo_version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let mut all: BTreeMap<Name, Name> =
            pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        // The server refuses a root without a slash, and compares it with the key's path.
        let root = self.options.root.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let root: Vec<u8> = root.flat_map(|name| [&b"/"[..], name].concat()).collect();
        all.insert("root".into(), if root.is_empty() { "/".into() } else { Name::from(root) });
        all
    }

    /// Takes over what a server says of an inode, and the capability that comes with it.
    pub(crate) fn learn(
        &self,
        session: &Session,
        stat: &InodeStat,
        address: impl FnOnce() -> FilePath,
    ) -> Arc<Inode> {
        let id = InodeId { ino: stat.ino, snap: stat.snapid };
        let inode = self.inodes.get_or_add(id, address);
        let now = self.now_ms();
        {
            let mut known = inode.known();
            let issued = known.issued(now) | known.caps.unacknowledged();
            let cap = stat.cap;
            if id.is_head() && cap.cap_id != CapId(0) {
                let grant = Grant {
                    rank: session.rank,
                    id: cap.cap_id,
                    caps: cap.caps,
                    wanted: cap.wanted,
                    seq: cap.seq,
                    mseq: cap.mseq,
                    is_auth: cap.is_auth(),
                };
                known.caps.add(grant, &session.trust);
            } else if !id.is_head() {
                known.of_snapshot |= cap.caps;
            }
            if cap.realm.0 != 0 {
                known.realm = cap.realm;
            }
            let new = cap.caps - issued;
            known.attrs.merge(stat, Held { issued, new, is_auth: cap.is_auth() });
        }
        inode.changed.notify_waiters();
        inode
    }

    /// Returns the directory of a directory's snapshots, which no server knows as an inode.
    pub(crate) fn snap_dir(&self, dir: &Arc<Inode>) -> Arc<Inode> {
        let id = InodeId { ino: dir.id.ino, snap: SnapId::DIR };
        let inode = self.inodes.get_or_add(id, || FilePath { base: dir.id.ino, path: Vec::new() });
        let (attrs, realm) = {
            let known = dir.known();
            (known.attrs.clone(), known.realm)
        };
        {
            let mut known = inode.known();
            known.attrs = attrs;
            known.realm = realm;
        }
        inode
    }

    /// Returns `true` once the mount has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }
}
