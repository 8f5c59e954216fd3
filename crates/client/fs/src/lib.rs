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
//! - [`File`] is an open file. One read or write goes to all of its objects at once, and reads and writes
//!   of several tasks go on at the same time.
//! - [`blocking`] is the same interface without `async`.
//!
//! Nothing is locked per client or per mount: an inode has a lock that is held to look at it, a session
//! has one that is held to number a message, and no lock is held while anything is sent or waited for.
//!
//! The client caches attributes and names as far as the servers' capabilities allow, and no data: reads
//! and writes go to the OSDs. It keeps its sessions over lost connections and restarts of servers.
//!
//! Not here: file locks, data in a cache, encryption, and what a client enforces itself: permissions (the
//! limits of a key are the servers'), access control lists and quotas.
#![forbid(unsafe_code)]

mod attributes;
pub mod blocking;
mod core;
mod data;
mod dir;
mod error;
mod file;
mod inode;
mod mds;
mod metadata;
mod mount;
mod names;
mod options;
mod path;
mod realm;
mod session;
mod walk;
mod xattrs;

pub use attributes::{Changes, XattrMode};
pub use dir::{DirEntry, ReadDir};
pub use error::Error;
pub use file::{File, OpenOptions};
pub use loligo_rados::Errno;
pub use loligo_wire::{Fscid, Ino, PoolId, SnapId, UTime};
pub use metadata::{FileLayout, FileType, Metadata, Recursive};
pub use mount::FileSystem;
pub use options::{MountOptions, Which};
