//! A cluster in one process: one monitor and one OSD, or several for show ([`Builder::osds`]), in a test, in
//! a tool, or by itself.
//!
//! ```
//! let server = loligo_server::Server::memory().pool("data").start()?;
//! println!("rados -c {} -p data ls", server.conf().display());
//! # Ok::<(), loligo_server::StartError>(())
//! ```
//!
//! Stock Ceph programs use it with the configuration file that [`Handle::conf`] names. When the [`Handle`] is
//! dropped, the server stops.
//!
//! The server is a list of [daemons](Daemon): the OSDs, the manager, what [`Builder::daemon`] adds, and the
//! monitor. Each listens at a port of its own. All run on one tokio runtime of the server's: a connection's
//! task reads requests and carries them out in the thread that read them, so an operation changes threads
//! only if its placement group is busy. More threads than cores gain nothing.
//!
//! Objects of a memory server live as long as the process. With a data directory of its own
//! ([`Builder::data_dir`]) a cluster keeps its id, keys, settings and pools over a restart; its pools are
//! empty then. Those of [`Server::disk`] keep what was acknowledged, also over a loss of power.
//!
//! A running server answers questions at its admin socket ([`Handle::admin_socket`]), in Ceph's protocol:
//! `ceph --admin-daemon SOCKET help`. Whoever embeds it can add commands and settings ([`Handle::admin`]).
#![forbid(unsafe_code)]

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
mod tell;
mod usage;

pub use builder::{Auth, Builder, Server};
pub use check::{DirChecked, check_dir};
pub use daemon::{Daemon, Introduction, Listening, Listens, Surroundings};
pub use dir::prepare_dir;
pub use error::StartError;
pub use handle::Handle;
pub use loligo_cephx::key::KeyType;
pub use loligo_mon::state::OsdCount;
pub use loligo_msgr::{Compression, Level, Log, Method};
