//! A Ceph-compatible cluster in one process: a monitor, a manager and one OSD, or several that share one
//! store ([`Builder::osds`]). It runs inside a test, inside a tool, or as a program of its own.
//!
//! ```
//! let server = loligo_server::Server::memory().pool("data").start()?;
//! println!("rados -c {} -p data ls", server.conf().display());
//! # Ok::<(), loligo_server::StartError>(())
//! ```
//!
//! Stock Ceph programs use the server with the configuration file that [`Handle::conf`] names. The
//! server stops when its [`Handle`] is dropped.
//!
//! The server is a list of [daemons](Daemon): the OSDs, the manager, the daemons added by
//! [`Builder::daemon`], and the monitor. Each daemon listens at a port of its own. All daemons share one
//! tokio runtime: a connection's task reads requests and executes them on the thread that read them. An
//! operation changes threads only if its placement group is busy. More threads than cores gain nothing.
//!
//! Objects of a memory server live as long as the process. With a data directory ([`Builder::data_dir`])
//! a cluster keeps its id, keys, settings and pools over a restart, but the pools are empty then. A
//! server on disk ([`Server::disk`]) keeps every acknowledged write, also over a loss of power.
//!
//! A server in memory returns to the state that it had when it was ready, in milliseconds
//! ([`Handle::reset`]): each test of a suite finds its own world. A whole state can be written to a file
//! ([`Handle::dump`]) that another server begins with ([`Builder::snapshot`]).
//!
//! A running server answers commands at its admin socket ([`Handle::admin_socket`]), in Ceph's protocol:
//! `ceph --admin-daemon SOCKET help`. A program that embeds the server can add commands and settings
//! ([`Handle::admin`]).
#![forbid(unsafe_code)]

mod bound;
mod builder;
mod check;
mod cluster;
mod daemon;
mod daemons;
mod dir;
mod error;
mod files;
mod fullness;
mod handle;
mod host;
mod listen;
mod objects;
mod ops;
mod perf;
mod quota;
mod scrub;
mod snapshot;
mod tell;
mod usage;

pub use builder::{Auth, Builder, Server};
pub use check::{DirChecked, check_dir};
pub use daemon::{Daemon, Introduction, LastAddrs, Listening, Listens, Surroundings};
pub use dir::prepare_dir;
pub use error::StartError;
pub use handle::Handle;
pub use loligo_cephx::key::{CryptoKey, KeyType};
pub use loligo_mon::state::OsdCount;
pub use loligo_mon::state::users::Caps;
pub use loligo_msgr::{Compression, Level, Log, Method};
pub use loligo_osd::Limits;
pub use snapshot::SnapshotError;
