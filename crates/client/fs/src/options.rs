//! What to mount, and as whom.

use std::collections::BTreeMap;
use std::time::Duration;

use loligo_wire::Fscid;

/// Inodes kept at most (`client_cache_size`).
const INODES_MAX: usize = 16_384;

/// Which file system of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// The cluster's default: the first one made, or the one that `ceph fs set-default` named.
    #[default]
    Default,
    /// The one of this name.
    Named(String),
    /// The one of this number.
    Numbered(Fscid),
}

/// Which directory of which file system is mounted, and as which user.
#[derive(Clone, Debug)]
pub struct MountOptions {
    pub(crate) which: Which,
    pub(crate) root: Vec<u8>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) gids: Vec<u32>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) patience: Option<Duration>,
    pub(crate) recovers: bool,
    pub(crate) inodes_max: usize,
    pub(crate) cache_bytes: u64,
    pub(crate) permissions: Option<bool>,
    pub(crate) acls: Option<bool>,
    pub(crate) quotas: Option<bool>,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl MountOptions {
    /// Memory for the data of files, if nothing else is chosen (`client_oc_size`).
    pub const CACHE_BYTES: u64 = 200 << 20;

    /// The root directory of the cluster's default file system, as user 0.
    pub fn new() -> Self {
        Self {
            which: Which::Default,
            root: b"/".to_vec(),
            uid: 0,
            gid: 0,
            gids: Vec::new(),
            metadata: BTreeMap::new(),
            patience: None,
            recovers: false,
            inodes_max: INODES_MAX,
            cache_bytes: Self::CACHE_BYTES,
            permissions: None,
            acls: None,
            quotas: None,
        }
    }

    /// Mounts the file system of this name.
    pub fn named(self, name: &str) -> Self {
        Self { which: Which::Named(name.to_owned()), ..self }
    }

    /// Mounts this file system.
    pub fn which(self, which: Which) -> Self {
        Self { which, ..self }
    }

    /// Mounts this directory: it is the root of all paths.
    pub fn root(self, path: impl AsRef<[u8]>) -> Self {
        Self { root: path.as_ref().to_vec(), ..self }
    }

    /// Makes new files and directories belong to this user and group.
    pub fn owner(self, uid: u32, gid: u32) -> Self {
        Self { uid, gid, ..self }
    }

    /// Names further groups of the user, which the metadata server considers for keys that are limited
    /// to a user.
    pub fn groups(self, gids: &[u32]) -> Self {
        Self { gids: gids.to_vec(), ..self }
    }

    /// Adds a pair to what `ceph tell mds.N session ls` shows of this client.
    pub fn metadata(mut self, name: &str, value: &str) -> Self {
        self.metadata.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Goes on after the cluster has shut this client out, as kernel clients mounted with
    /// `recover_session=clean` do: with a new identity, without the capabilities and locks of the old one.
    /// What had not reached the servers is lost, and the next `sync` or `close` of its file says so (EIO).
    /// Otherwise every call fails with [`Error::Blocklisted`](crate::Error::Blocklisted) from then on.
    pub fn recovers(self, recovers: bool) -> Self {
        Self { recovers, ..self }
    }

    /// Keeps no more than so many inodes that nothing uses (16,384 otherwise, as `client_cache_size`): those
    /// used longest ago are forgotten, and their capabilities given back. Servers may ask for fewer.
    pub fn inodes_max(self, inodes_max: usize) -> Self {
        Self { inodes_max, ..self }
    }

    /// Uses up to this much memory to cache the data of files; with 0 each read and write goes to the OSDs.
    /// [`CACHE_BYTES`](Self::CACHE_BYTES) otherwise.
    pub fn cache(self, bytes: u64) -> Self {
        Self { cache_bytes: bytes, ..self }
    }

    /// Waits for maps and servers no longer than this, instead of `client_mount_timeout`.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Checks the permissions of files and directories, or leaves that to the kernel or the program,
    /// instead of what `client_permissions` says: they are checked.
    pub fn permissions(self, are_checked: bool) -> Self {
        Self { permissions: Some(are_checked), ..self }
    }

    /// Lets POSIX access control lists count, or refuses them, instead of what `client_acl_type` says:
    /// they are refused.
    pub fn acls(self, count: bool) -> Self {
        Self { acls: Some(count), ..self }
    }

    /// Keeps the quotas of directories, or ignores them, instead of what `client_quota` says: they are
    /// kept.
    pub fn quotas(self, are_kept: bool) -> Self {
        Self { quotas: Some(are_kept), ..self }
    }
}
