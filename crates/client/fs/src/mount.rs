//! Mounting and unmounting.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_maps::{FsMapUser, MdsMap, MdsState};
use loligo_rados::{Errno, Rados};
use loligo_wire::message::mds::{ClientSession, FilePath, RequestOp, SessionOp};
use loligo_wire::message::mon::{MFSMapUser, MMDSMap};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Caps, EntityType, Fscid, Ino};
use tokio::task::AbortHandle;

use crate::core::Core;
use crate::error::Error;
use crate::inode::InodeId;
use crate::mds::missing;
use crate::options::{MountOptions, Which};
use crate::path::Rest;
use crate::session::{Ended, Phase, Request, Session};

/// How long a server may take to close a session (`client_shutdown_timeout`).
const CLOSING_MAX: Duration = Duration::from_secs(30);

/// A mounted file system. Clones share one mount, which ends with [`FileSystem::unmount`], or without
/// waiting for anything when the last clone and the last file are dropped.
///
/// Paths are bytes; they begin at the mount's root, with or without a slash.
#[derive(Clone)]
pub struct FileSystem {
    pub(crate) core: Arc<Core>,
    _keeper: Arc<Keeper>,
}

/// Ends the mount's task with the last handle.
struct Keeper {
    task: AbortHandle,
    core: Arc<Core>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
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
        let patience = core.patience;
        let mounted = tokio::time::timeout(patience, core.find_root()).await;
        if mounted.is_err() {
            let why = core.why_not_yet(patience);
            core.abandon();
            return Err(why);
        }
        if let Ok(Err(e)) = mounted {
            core.abandon();
            return Err(e);
        }
        let task = tokio::spawn(Core::keep(Arc::downgrade(&core))).abort_handle();
        let keeper = Keeper { task, core: Arc::clone(&core) };
        Ok(Self { core, _keeper: Arc::new(keeper) })
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
        self.core.close_sessions(CLOSING_MAX.min(self.core.patience)).await;
        synced
    }

    /// Makes all changes durable.
    ///
    /// # Errors
    /// A session has ended before its server confirmed a change.
    pub async fn sync(&self) -> Result<(), Error> {
        self.core.flush_all();
        for session in self.core.all_sessions() {
            if session.phase() == Phase::Open {
                session.send(Msg::new(&ClientSession::new(SessionOp::RequestFlushMdLog, 0)));
            }
        }
        let mut failed = None;
        for inode in self.core.inodes.all() {
            if let Err(e) = self.core.settled(&inode).await {
                failed.get_or_insert(e);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Returns the file system's name.
    pub fn name(&self) -> String {
        self.core.mds_map().map(|map| map.fs_name.to_string()).unwrap_or_default()
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
        self.sessions.write().clear();
        self.inodes.clear();
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
