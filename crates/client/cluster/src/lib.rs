//! The part of a Ceph client that does not depend on the kind of daemon: clients of OSDs, of metadata
//! servers and of any other daemon share it.
//!
//! - [`Builder`] reads the configuration, finds the monitors (through DNS if necessary) and authenticates.
//! - [`Cluster`] is the client as the cluster sees it: one name, one global id, one messenger. It keeps
//!   a session with a monitor ([`MonClient`]: requests, subscriptions to maps, ticket renewal) and, on
//!   demand, a session with the active manager ([`MgrClient`]).
//! - A client of another kind of daemon implements [`Peers`] and [registers](Cluster::register). It then
//!   receives the messages of its connections and the maps it subscribed to, and the cluster fetches
//!   tickets for its daemons. It opens lossy or lossless connections with the [`Dialer`].
//! - [`Waits`] reports, as text, what the client waits for.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use loligo_cluster::{Builder, Peers};
//! use loligo_msgr::Connection;
//! use loligo_wire::message::Msg;
//! use loligo_wire::EntityType;
//!
//! struct MdsClient;
//!
//! impl Peers for MdsClient {
//!     fn dispatch(&self, _conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
//!         msgs.clear();
//!     }
//! }
//!
//! # async fn example() -> Result<(), loligo_cluster::Error> {
//! let mds = Arc::new(MdsClient);
//! let joining = Builder::new().prepare().await?;
//! joining.cluster().register(EntityType::MDS, &[], &mds)?;
//! let cluster = joining.connect().await?;
//! cluster.monitors().follow("mdsmap", 0);
//! # Ok(())
//! # }
//! ```
//!
//! The crate knows no objects, pools or files, and keeps no maps except those of the monitors and the
//! managers.
#![forbid(unsafe_code)]

mod builder;
mod cluster;
mod dial;
mod discover;
mod dispatch;
mod error;
mod mgrc;
mod monc;
mod peers;
mod waits;

pub use builder::{Builder, Joining};
pub use cluster::Cluster;
pub use dial::Dialer;
pub use error::{Errno, Error};
pub use loligo_conf::{Conf, ConfError, Environment, Options};
pub use mgrc::{MgrClient, Service, ToMgr};
pub use monc::MonClient;
pub use peers::Peers;
pub use waits::{Gathered, Observed, Reason, Wait, WaitGuard, Waiter, Waits};
