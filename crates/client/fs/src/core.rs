//! What all handles of a mount share: maps, sessions and inodes. Nothing here is locked for the time of a
//! request or an I/O.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use loligo_cache::Cache;
use loligo_cluster::{Cluster, Dialer};
use loligo_fs_core::caps::ReplyCap;
use loligo_lockstat::{Class, RwLock};
use loligo_maps::{FsMapUser, MdsMap};
use loligo_rados::{Errno, Rados, Reason, WaitGuard};
use loligo_wire::message::mds::{FilePath, InodeStat};
use loligo_wire::{CapId, Caps, Epoch, Fscid, Name, Rank, SnapId, Tid};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cached::Backing;
use crate::caller::Caller;
use crate::enforce::Enforced;
use crate::inode::{Held, Inode, InodeId, Table};
use crate::life::{Barrier, Instances, Metrics, Standing};
use crate::options::MountOptions;
use crate::realm::Realms;
use crate::session::Session;
use crate::sink::Sink;

/// Held to find a session, and to add or remove one.
static SESSIONS: Class = Class::new("fs.sessions");

/// The shared parts of a mount.
pub(crate) struct Core {
    /// The client of the cluster: the one that the mount was made with, or a later identity.
    pub(crate) rados: Instances,
    pub(crate) standing: watch::Sender<Standing>,
    pub(crate) metrics: Metrics,
    pub(crate) barrier: Barrier,
    /// For tasks, which run as long as the mount is there.
    pub(crate) me: Weak<Core>,
    pub(crate) runtime: Handle,
    /// Files' data, unless the mount has no cache.
    pub(crate) cache: Option<Cache<Backing>>,
    pub(crate) options: MountOptions,
    pub(crate) enforced: Enforced,
    /// The user that the mount was made for.
    pub(crate) caller: Arc<Caller>,
    /// A cache above this client, which is told what it must forget.
    pub(crate) sink: OnceLock<Arc<dyn Sink>>,
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
        let caller = Arc::new(Caller::of_mount(&options));
        let enforced = Enforced::of(&options, &rados.cluster().conf());
        let bytes = options.cache_bytes;
        let cache = (bytes > 0).then(|| Cache::new(crate::cached::options(bytes)));
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            runtime: Handle::current(),
            cache,
            inodes: Table::new(bytes > 0, options.inodes_max),
            rados: Instances::new(rados),
            standing: watch::Sender::new(Standing::default()),
            metrics: Metrics::default(),
            barrier: Barrier::default(),
            options,
            enforced,
            caller,
            sink: OnceLock::new(),
            patience,
            began: Instant::now(),
            map: watch::Sender::new(None),
            names: watch::Sender::new(None),
            followed: OnceLock::new(),
            sessions: RwLock::new(&SESSIONS, BTreeMap::new()),
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
        self.ms_at(Instant::now())
    }

    /// Returns a time by the client's clock.
    pub(crate) fn ms_at(&self, at: Instant) -> u64 {
        u64::try_from((at - self.began).as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn next_tid(&self) -> Tid {
        Tid(self.tids.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the counter of flushes of capabilities.
    pub(crate) fn flush_tids(&self) -> &AtomicU64 {
        &self.flush_tids
    }

    pub(crate) fn map_epoch(&self) -> Epoch {
        self.map.borrow().as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    /// Returns the file system's map.
    pub(crate) fn mds_map(&self) -> Option<Arc<MdsMap>> {
        self.map.borrow().clone()
    }

    /// Returns the file system's name, if it is known.
    pub(crate) fn fs_name(&self) -> String {
        self.map.borrow().as_ref().map(|map| map.fs_name.to_string()).unwrap_or_default()
    }

    /// Reports an operation that waits for a server until the guard is dropped.
    pub(crate) fn waits_for_server(&self, rank: Rank) -> WaitGuard {
        self.rados.waits_for(Reason::MdsAnswer { rank, fs: self.fs_name() })
    }

    /// Checks that a file may be so large.
    ///
    /// # Errors
    /// EFBIG.
    pub(crate) fn check_size(&self, size: u64) -> Result<(), Errno> {
        let is_possible = self.map.borrow().as_ref().is_none_or(|map| size <= map.max_file_size);
        if is_possible { Ok(()) } else { Err(Errno::EFBIG) }
    }

    /// Returns the session with a server, if there is one.
    pub(crate) fn session_of(&self, rank: Rank) -> Option<Arc<Session>> {
        self.sessions.read().get(&rank).cloned()
    }

    /// Returns all sessions.
    pub(crate) fn all_sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.read().values().cloned().collect()
    }

    /// Forgets all sessions, and drops them without the lock.
    pub(crate) fn clear_sessions(&self) {
        let gone = std::mem::take(&mut *self.sessions.write());
        drop(gone);
    }

    /// Wakes every operation that waits for an inode: what it waits for may never come.
    pub(crate) fn wake_all(&self) {
        self.inodes.all().iter().for_each(|inode| inode.changed.notify_waiters());
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
        self.event(&inode, |known, clock| {
            let issued = known.issued(now) | known.caps.unacknowledged();
            let cap = stat.cap;
            if id.is_head() && cap.cap_id != CapId(0) {
                let reply = ReplyCap {
                    cap_id: cap.cap_id,
                    caps: cap.caps,
                    wanted: cap.wanted,
                    seq: cap.seq,
                    mseq: cap.mseq,
                    is_auth: cap.is_auth(),
                };
                known.trusts.insert(session.rank, Arc::clone(&session.trust));
                known.with_caps(clock, |caps, view| caps.reply_cap(session.rank, &reply, view));
            } else if !id.is_head() {
                known.of_snapshot |= cap.caps;
            }
            if cap.realm.0 != 0 && (cap.realm != known.realm || known.attrs.version == 0) {
                known.moved_to = Some(cap.realm);
            }
            known.set_name_hash(stat.dir_hash);
            let (new, permitted) = (cap.caps - issued, known.attrs.max_size);
            known.is_removed &= stat.nlink == 0;
            known.is_outdated = false;
            known.cut = known.attrs.merge(stat, Held { issued, new, is_auth: cap.is_auth() });
            if !id.is_head() && known.attrs.xattr_version == 0 {
                // A server vouches for a snapshot's attributes also where it has left them out.
                known.of_snapshot -= Caps::XATTR_SHARED;
            }
            if known.attrs.max_size != permitted {
                known.permit_size(known.attrs.max_size);
            }
            // With Fx the servers' counts may be behind what this client has changed.
            let counts = cap.is_auth() && cap.caps.contains(Caps::FILE_SHARED);
            let is_sure = id.is_head() && counts && !issued.contains(Caps::FILE_EXCL);
            if is_sure && known.is_empty_dir() {
                known.found_empty(session.rank, clock);
            }
        });
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
