//! A CephFS client: the file system of any Ceph cluster of releases 16 to 20, without a mount.
//!
//! ```no_run
//! # async fn example() -> Result<(), loligo_fs::Error> {
//! use loligo_fs::{FileSystem, MountOptions, OpenOptions};
//!
//! let rados = loligo_rados::Rados::connect().await?;
//! let fs = FileSystem::mount(&rados, MountOptions::new()).await?;
//! fs.create_dir("/logs", 0o755).await?;
//! let file = fs.open("/logs/today", OpenOptions::new().write().create()).await?;
//! file.write_at(0, "hello").await?;
//! file.sync().await?;
//! file.close().await?;
//! fs.unmount().await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`FileSystem`] is a mount: names, attributes, extended attributes, directories ([`ReadDir`]).
//! - [`Node`] is a file or directory without its path: for what works by inodes, as a mount in the kernel
//!   does.
//! - [`File`] is an open file. One read or write goes to all of its objects at once, and reads and writes
//!   of several tasks go on at the same time.
//! - [`blocking`] is the same interface without `async`.
//!
//! Nothing is locked per client or per mount for the time of an operation: an inode has a lock that is held
//! to look at it, a session has one that is held to number a message, the tables of both are locked to find
//! something in them, and no lock is held while anything is sent or waited for.
//!
//! A read or write takes a reference on an atomic word of its inode and goes to the data without a lock: into
//! the client's cache, where the servers' capabilities allow that, or to all objects at once. A capability
//! that a server takes back goes when the last such operation has ended; what was written is in the store
//! before. Attributes and names are cached under the same rules. Snapshots have the data of their time.
//!
//! The client keeps its sessions over lost connections and restarts of servers.
//!
//! What servers leave to their clients is done here: permissions and access control lists, quotas, and
//! the ends of files' locks.
//!
//! Not here: encryption.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod acl;
mod attributes;
pub mod blocking;
mod cached;
mod caller;
mod core;
mod data;
mod dir;
mod enforce;
mod error;
mod file;
mod inode;
mod life;
mod locks;
mod mds;
mod metadata;
mod mount;
mod names;
mod node;
mod node_id;
mod options;
mod path;
mod permission;
mod quota;
mod realm;
mod session;
mod sink;
mod virtual_xattrs;
mod walk;
mod xattrs;

pub use attributes::{Changes, XattrMode};
pub use caller::Caller;
pub use dir::{DirEntry, ReadDir};
pub use error::Error;
pub use file::{File, OpenOptions};
pub use locks::{Lock, LockKind};
pub use loligo_rados::Errno;
pub use loligo_wire::{Caps, Fscid, Ino, PoolId, SnapId, UTime};
pub use metadata::{FileLayout, FileType, Metadata, Recursive};
pub use mount::FileSystem;
pub use node::{Node, RenameFlags, Trust};
pub use node_id::NodeId;
pub use options::{MountOptions, Which};
pub use quota::Space;
pub use sink::{Invalidation, Sink, WhenDone};
