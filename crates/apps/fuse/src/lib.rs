//! A mount of CephFS in the kernel, through FUSE.
//!
//! [`Mount::new`] puts a [`loligo_fs::FileSystem`] into a directory. Requests of the kernel are taken by
//! several threads. The thread that has a result answers, and no thread waits for a server. The kernel keeps
//! names, attributes and data of files as long as the metadata servers' capabilities allow.
//!
//! What happens to a request:
//! 1. `serve` finds the node or the open file and begins the work on the thread that read the request.
//!    What is known already (attributes, names, cached data) is answered there.
//! 2. What must wait goes on as a task of the client's runtime, which answers when it is done.
//!
//! No lock is held while a node's method runs: the table of nodes is locked to find one, and open files are
//! found without a lock.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![deny(unsafe_code)]

mod attributes;
mod caller;
mod dirs;
mod error;
mod handles;
mod ids;
mod invalidate;
mod kernel;
mod locks;
mod mount;
mod nodes;
mod options;
mod pages;
mod read_ahead;
mod serve;

pub use error::MountError;
pub use mount::{Mount, Unmounter};
pub use options::MountOptions;
