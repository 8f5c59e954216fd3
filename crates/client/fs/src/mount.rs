//! Mounting and unmounting.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use loligo_maps::{FsMapUser, MdsMap, MdsState};
use loligo_rados::{Errno, Rados};
use loligo_wire::message::Message as _;
use loligo_wire::message::mds::{FilePath, RequestOp};
use loligo_wire::message::mon::{MFSMapUser, MMDSMap};
use loligo_wire::{Caps, EntityType, Fscid, Ino};
use tokio::task::AbortHandle;

use crate::caller::Caller;
use crate::core::Core;
use crate::error::Error;
use crate::inode::{Inode, InodeId};
use crate::mds::missing;
use crate::options::{MountOptions, Which};
use crate::path::Rest;
use crate::session::{Ended, Phase, Request, Session};

/// How long a server may take to close a session (`client_shutdown_timeout`).
const CLOSING_MAX: Duration = Duration::from_secs(30);

/// Files whose data is written at a time, when all are.
const SAVED_AT_ONCE: usize = 16;

/// A mounted file system. Clones share one mount, which ends with [`FileSystem::unmount`], or without
/// waiting for anything when the last clone and the last file are dropped.
///
/// Paths are bytes; they begin at the mount's root, with or without a slash.
#[derive(Clone)]
pub struct FileSystem {
    pub(crate) core: Arc<Core>,
    /// As whom the servers are asked.
    pub(crate) caller: Arc<Caller>,
    pub(crate) _keeper: Arc<Keeper>,
}

/// Ends the mount's tasks with the last handle.
pub(crate) struct Keeper {
    tasks: Vec<AbortHandle>,
    core: Arc<Core>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        self.core.abandon();
    }
}

impl FileSystem {
    /// Mounts a file system. One client has one mount at a time. The mount's tasks run on the calling
    /// runtime.
    ///
    /// # Errors
    /// There is no such file system or directory, no metadata server serves it, or it refuses the
    /// client; EEXIST if this client has a mount already.
    pub async fn mount(rados: &Rados, options: MountOptions) -> Result<Self, Error> {
        let core = Core::new(rados.clone(), options);
        register(&core).await?;
        core.cluster().monitors().follow("fsmap.user", 0);
        let observed: Weak<Core> = Arc::downgrade(&core);
        core.cluster().waits().look_at(observed);
        let weak = || Arc::downgrade(&core);
        let standing = tokio::spawn(Core::watch_standing(weak())).abort_handle();
        // From here on, whatever ends this function ends the mount.
        let mut keeper = Keeper { tasks: vec![standing], core: Arc::clone(&core) };
        let patience = core.patience;
        match tokio::time::timeout(patience, core.find_root()).await {
            Ok(found) => found?,
            Err(_) => return Err(core.why_not_yet(patience)),
        }
        keeper.tasks.push(tokio::spawn(Core::keep_renewed(weak())).abort_handle());
        keeper.tasks.push(tokio::spawn(Core::keep(weak())).abort_handle());
        let caller = Arc::clone(&core.caller);
        Ok(Self { core, caller, _keeper: Arc::new(keeper) })
    }

    /// Makes all changes durable, gives everything back and closes the sessions. Files that are open
    /// cannot be used afterwards.
    ///
    /// # Errors
    /// Changes could not be made durable. The mount has ended all the same.
    pub async fn unmount(self) -> Result<(), Error> {
        let patience = self.core.patience;
        let synced = match tokio::time::timeout(patience, self.sync()).await {
            Ok(synced) => synced,
            Err(_) => Err(loligo_rados::Error::Timeout(patience).into()),
        };
        self.core.is_closed.store(true, Ordering::Release);
        self.core.close_sessions(CLOSING_MAX.min(patience)).await;
        self.core.leave_identities().await;
        synced
    }

    /// Makes all changes durable.
    ///
    /// # Errors
    /// A session has ended before its server confirmed a change.
    pub async fn sync(&self) -> Result<(), Error> {
        self.core.flush_all();
        self.core.ask_for_logs();
        let mut failed = None;
        let all = self.core.inodes.all();
        let save = |inode: Arc<_>| async move { self.core.save(&inode).await };
        let each = futures_util::stream::iter(all).map(save);
        let mut done = each.buffer_unordered(SAVED_AT_ONCE);
        while let Some(saved) = done.next().await {
            failed = failed.or(saved.err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns the file system's name.
    pub fn name(&self) -> String {
        self.core.fs_name()
    }

    /// Returns the file system's number in its cluster.
    pub fn id(&self) -> Fscid {
        self.core.followed.get().map_or(Fscid::NONE, |(id, _)| *id)
    }

    /// Returns the client of the file system's objects.
    pub fn rados(&self) -> &Rados {
        &self.core.rados
    }

    /// Returns the number of requests without a durable answer, for tests and observers.
    pub fn in_flight(&self) -> usize {
        let of = |session: &Arc<Session>| {
            let state = session.state();
            state.pending.len() + state.unconfirmed.len()
        };
        self.core.all_sessions().iter().map(of).sum()
    }
}

impl fmt::Debug for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file system {} ({})", self.name(), self.id())
    }
}

impl Core {
    /// Makes the data and the attributes of a file durable.
    pub(crate) async fn save(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        let stored = match inode.cached.get() {
            Some(cached) => cached.flush().await.map_err(crate::cached::of_cache),
            None => Ok(()),
        };
        self.settle(inode).await?;
        let lost = inode.known().failures.tell_anybody();
        stored.and(lost.map_or(Ok(()), |errno| Err(errno.into())))
    }

    /// Finds the file system, its servers and the directory to be mounted.
    async fn find_root(&self) -> Result<(), Error> {
        let (id, what) = self.find_map().await?;
        let _ = self.followed.set((id, what.clone()));
        self.cluster().monitors().follow(&what, 0);
        let place = self.inodes.get_or_add(InodeId::head(Ino::ROOT), || FilePath::new(Ino::ROOT, Vec::new()));
        let mut path = Vec::new();
        let mut rest = Rest::of(&self.options.root)?;
        while let Some(name) = rest.next() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
        }
        // In one request: a key may allow nothing above the directory.
        let get = RequestOp::GetAttr { mask: Caps::STAT };
        let request = Request { path: FilePath::new(Ino::ROOT, path), ..Request::about(&place, get) };
        let root = self.call(request).await?.target.ok_or_else(|| missing("mount", 0))?;
        if !root.is_dir() {
            return Err(Errno::ENOTDIR.into());
        }
        let _ = self.root.set(root);
        Ok(())
    }

    /// Returns the file system's number, and the name of its map at the monitors.
    async fn find_map(&self) -> Result<(Fscid, String), Error> {
        let mut names = self.names.subscribe();
        loop {
            if let Some(map) = names.borrow_and_update().as_ref() {
                let id = chosen(map, &self.options.which)?;
                return Ok((id, format!("mdsmap.{id}")));
            }
            if names.changed().await.is_err() {
                return Err(Error::Unmounted);
            }
        }
    }

    /// Says why a mount was not made in time.
    fn why_not_yet(&self, after: Duration) -> Error {
        match self.mds_map() {
            Some(map) => Error::NoServer { fs: map.fs_name.to_string(), state: states(&map), after },
            None => {
                let fs = match &self.options.which {
                    Which::Default => "the default file system".to_owned(),
                    Which::Named(name) => format!("file system '{name}'"),
                    Which::Numbered(id) => format!("file system {id}"),
                };
                Error::NoMap { fs, after }
            }
        }
    }

    /// Ends the mount without waiting.
    fn abandon(&self) {
        self.is_closed.store(true, Ordering::Release);
        for session in self.all_sessions() {
            if session.phase() == Phase::Open {
                session.ask_to_close();
            }
            self.session_ended(&session, Ended::Closed);
        }
        self.clear_sessions();
        self.inodes.clear();
        self.standing.send_modify(|_| ());
    }
}

/// How often, and how long apart, a mount looks whether the client's previous one is gone: the tasks of
/// connections may hold it for a moment after its end.
const PREVIOUS: (u32, Duration) = (200, Duration::from_millis(5));

/// Makes the mount the client's only one.
async fn register(core: &Arc<Core>) -> Result<(), Error> {
    for _ in 0..PREVIOUS.0 {
        match core.cluster().register(EntityType::MDS, &[MMDSMap::KIND, MFSMapUser::KIND], core) {
            Err(e) if e.errno() == Errno::EEXIST => tokio::time::sleep(PREVIOUS.1).await,
            done => return Ok(done?),
        }
    }
    Err(Errno::EEXIST.into())
}

/// Returns the number of the file system that is asked for.
fn chosen(map: &FsMapUser, which: &Which) -> Result<Fscid, Error> {
    let known = || map.filesystems.iter().map(|fs| fs.name.to_string()).collect();
    let none = |name: String| Error::NoFileSystem { name, known: known() };
    match which {
        Which::Named(name) => map.by_name(name.as_bytes()).ok_or_else(|| none(name.clone())),
        Which::Numbered(id) => map.name(*id).map(|_| *id).ok_or_else(|| none(id.to_string())),
        Which::Default => match map.filesystems.as_slice() {
            _ if map.legacy_fscid != Fscid::NONE => Ok(map.legacy_fscid),
            // Where there is one only, it is meant.
            [only] => Ok(only.fscid),
            _ => Err(none("(the default)".to_owned())),
        },
    }
}

/// Describes the servers of a file system.
fn states(map: &MdsMap) -> String {
    let servers = map.up.keys().filter_map(|rank| map.server(*rank));
    let all: Vec<String> = servers
        .map(|info| match info.state {
            MdsState::ACTIVE => format!("rank {} is active, and does not answer", info.rank),
            state => format!("rank {} is {state}", info.rank),
        })
        .collect();
    if all.is_empty() { "none is up".to_owned() } else { all.join(", ") }
}
