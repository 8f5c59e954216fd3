//! The RADOS client: objects in pools, on any Ceph cluster of releases 16 to 20.
//!
//! ```no_run
//! # async fn example() -> Result<(), loligo_rados::Error> {
//! let rados = loligo_rados::Rados::connect().await?;
//! let pool = rados.ioctx("p").await?;
//! pool.write_full("greeting", "hello".into()).await?;
//! assert_eq!(pool.read("greeting", 0, 0).await?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! - [`Builder`] connects. [`Rados`] is the connected client: pools, statistics, commands to monitors,
//!   managers and OSDs, and registration as a daemon of a service.
//! - [`IoCtx`] is a pool with a namespace: operations on objects, their attributes and omaps, snapshots,
//!   watches, advisory locks, object class methods, and listing. [`WriteOp`] and [`ReadOp`] combine
//!   several operations on one object, with conditions.
//! - [`blocking`] is the same interface without `async`.
//! - [`Trace`] records when each operation was created, queued, acked and done ([`Builder::trace`]).
//!
//! Underneath, [`Cluster`] keeps sessions with a monitor and, on demand, with the active manager. `objecter`
//! sends the operations to the OSDs. It resends an unanswered operation under the same tid when its
//! connection is lost or a map moves the object. The OSD recognises the tid, so an append is executed once.
//!
//! The tests also run the whole client in simulated time against a model of a cluster, many thousand
//! times with different seeds (`tests/simulated`).
//!
//! The crate does not cache and does not stripe: an object is at most as large as an OSD allows. It has
//! no threads except those of the runtime it is given.
#![forbid(unsafe_code)]

pub mod blocking;
mod builder;
mod cluster_log;
mod core;
mod error;
mod ioctx;
mod objecter;
mod rados;
mod trace;

pub use builder::Builder;
pub use cluster_log::{ClusterLog, LogEntry};
pub use error::{Errno, Error};
pub use ioctx::{
    Answer, Checksum, ChecksumKind, Confirmation, Damaged, IoCtx, ListCursor, ListedObject, LockGuard,
    LockHolder, LockInfo, LockMode, LockOptions, LockState, Notification, Notified, ObjectList, ObjectStat,
    Outcome, PoolSnapshot, ReadFrom, ReadOp, Watch, WatchNews, WatcherId, WhenFull, WriteOp, WriteOptions,
};
pub use loligo_cluster::{Cluster, Reason, Wait, WaitGuard, Waiter, Waits};
pub use loligo_conf::{Conf, ConfError, Environment, Options};
pub use loligo_wire::message::mon::ClusterStatfs;
pub use loligo_wire::message::osd::{
    CmpOp, ObjectSnaps, OmapKeys, OmapPairs, OpCode, OpFlags, OsdOp, SnapClone,
};
pub use loligo_wire::message::osd::{
    DamagedObject, DamagedSnaps, ObjectStatSum, PoolStat, ScrubbedId, Shard, ShardErrors, WatchItem,
    object_error, shard_error, snaps_error,
};
pub use loligo_wire::{
    EntityAddr, EntityName, EntityNum, EntityType, Epoch, GlobalId, Name, OsdId, PgId, PoolId, SnapId, Tid,
    Uuid,
};
pub use objecter::{InFlight, Request, Resent, WaitsFor};
pub use rados::{CommandReply, MonitorsSettings, Rados};
pub use trace::{Trace, Traced};
