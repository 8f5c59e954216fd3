//! Errors of a start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use loligo_conf::KeyringFileError;
use loligo_mon::FileError;
use loligo_mon::command::Failure;
use loligo_store_disk::OpenError;
use loligo_wire::EntityName;

use crate::snapshot::SnapshotError;

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or directory could not be created.
    #[error("{path}: {source}")]
    Path {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another user could change the data directory, or has put something there.
    #[error("{path}: {what}; use a directory of your own, in one that nobody else may write to")]
    NotOurs {
        /// The directory or file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// Another server uses the data directory.
    #[error("{0} is in use by another server")]
    InUse(PathBuf),
    /// An added daemon has the name of another one, or is a monitor.
    #[error("{0} cannot be added: the server has a daemon of this name, or a monitor of its own")]
    Daemon(EntityName),
    /// The server cannot listen at the address.
    #[error("cannot listen at {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The object store cannot be opened.
    #[error("object store {path}: {source}")]
    Store {
        /// The store's directory.
        path: PathBuf,
        /// The reason.
        source: OpenError,
    },
    /// The directory belongs to a server, but the server's state is missing.
    #[error(
        "{path}: mon.json and mon.json.copy are lost, but there are: {traces}; put one of the two back, or remove all of the \
         directory to begin anew without the data"
    )]
    Lost {
        /// The directory.
        path: PathBuf,
        /// The server's files that exist.
        traces: String,
    },
    /// The state of the last run cannot be used.
    #[error(transparent)]
    State(#[from] FileError),
    /// The keyring could not be written.
    #[error(transparent)]
    Keyring(#[from] KeyringFileError),
    /// A user cannot be created: the capabilities are wrong, or there is a user of this name that has others.
    #[error("user {name}: {why}")]
    User {
        /// The user's name.
        name: EntityName,
        /// The reason, and what to do.
        why: String,
    },
    /// The snapshot that the server was to begin with cannot be used.
    #[error("snapshot {0}")]
    Snapshot(#[from] SnapshotError),
    /// The monitor refused the configuration of the cluster.
    #[error("{}", .0.status)]
    Cluster(#[from] Failure),
    /// The runtime or its threads could not be created, or the monitor stopped at once.
    #[error("cannot start: {0}")]
    Runtime(#[from] io::Error),
}

impl StartError {
    /// Converts the error of an operation on a path, for `map_err`.
    pub(crate) fn at(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Path { path, source }
    }
}
