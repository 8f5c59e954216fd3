//! A client's place in a Ceph cluster: what clients of OSDs, of metadata servers and of any other daemon have in
//! common.
//!
//! - [`Builder`] reads the configuration, finds the monitors (in DNS if need be) and authenticates.
//! - [`Cluster`] is the client as the cluster sees it: one name, one number, one messenger. It keeps a session
//!   with a monitor ([`MonClient`]: questions, subscriptions to maps, tickets before the old ones expire) and, if
//!   one is wanted, with the active manager ([`MgrClient`]).
//! - A client of another kind of daemon implements [`Peers`] and [registers](Cluster::register): it gets the
//!   messages of its connections and the maps that it asks monitors for, and tickets are fetched for its daemons.
//!   It opens connections with the [`Dialer`], lossy or lossless as it chooses.
//! - [`Waits`] shows what the client waits for, in words.
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
//! What this crate refuses to do: it knows no objects, no pools and no files, and keeps no map but those of the
//! monitors and of the managers.
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
pub use loligo_cephx::conf::{Conf, ConfError, Environment, Options};
pub use mgrc::{MgrClient, Service, ToMgr};
pub use monc::MonClient;
pub use peers::Peers;
pub use waits::{Gathered, Observed, Reason, Wait, WaitGuard, Waiter, Waits};
