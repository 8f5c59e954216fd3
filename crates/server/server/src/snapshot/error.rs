//! Why a snapshot cannot be taken, written, read or returned to.

use std::io;
use std::path::PathBuf;

use loligo_store::StoreError;

/// Why a server's state cannot be saved, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The server keeps its objects on disk.
    #[error(
        "the server keeps its objects on disk; only one in memory (serve --store memory) can be dumped, restored and \
         reset. Stop a server on disk and copy its directory instead"
    )]
    OnDisk,
    /// The server was not ready yet.
    #[error("the server is not ready yet, so it has no state to return to; try again when it says 'ready'")]
    NotReady,
    /// The server has stopped.
    #[error("the server has stopped")]
    Stopped,
    /// Another dump or restoration is in progress.
    #[error("another dump or restoration is in progress; wait until it has ended")]
    Busy,
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Path {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is damaged, or no snapshot.
    #[error("{path}, byte {at}: {what}; dump the server again, or use another file")]
    Content {
        /// The file.
        path: PathBuf,
        /// Where the fault was found.
        at: u64,
        /// The fault.
        what: String,
    },
    /// A newer program has written a file.
    #[error(
        "{path}: snapshots of version {version} are unknown here; use the program that wrote it, or a newer one"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version that it says.
        version: u32,
    },
    /// The objects do not fit.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state does not fit this server.
    #[error("{0}")]
    Cluster(String),
    /// The directory of a server on disk has a state already.
    #[error(
        "{0} has a server's state already, and a snapshot would replace it; name a new directory, or start without the \
         snapshot"
    )]
    NotNew(PathBuf),
    /// A thread cannot be started.
    #[error("{0}")]
    System(io::Error),
}
