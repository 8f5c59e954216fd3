//! Why a mount fails.

use std::io;
use std::path::PathBuf;

/// Why a file system could not be mounted, or not be unmounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no `/dev/fuse`, or it cannot be opened.
    #[error(
        "/dev/fuse: {0}; load the kernel's module ('modprobe fuse'), or pass the device into the container"
    )]
    NoDevice(io::Error),
    /// The directory cannot be mounted on.
    #[error("{}: {source}", dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The kernel, or `fusermount3` for a user who is not root, refused the mount.
    #[error("mount at {}: {source}", dir.display())]
    Refused {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The threads that take requests have ended.
    #[error("serving {}: {source}", dir.display())]
    Ended {
        /// The directory.
        dir: PathBuf,
        /// The reason.
        source: io::Error,
    },
}
