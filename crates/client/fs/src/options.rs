//! What to mount, and as whom.

use std::collections::BTreeMap;
use std::time::Duration;

use loligo_wire::Fscid;

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
}

impl Default for MountOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl MountOptions {
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

    /// Waits for maps and servers no longer than this, instead of `client_mount_timeout`.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }
}
