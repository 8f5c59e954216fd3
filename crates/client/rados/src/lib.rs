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
//! - [`Builder`] connects; [`Rados`] is the connected client: pools, statistics, commands to monitors,
//!   managers and OSDs, and registration as a daemon of a service.
//! - [`IoCtx`] is a pool with a namespace: operations on objects, their attributes and maps, snapshots,
//!   watches, advisory locks, methods of object classes, and listing. [`WriteOp`] and [`ReadOp`] do several
//!   things to an object at once, under conditions.
//! - [`blocking`] is the same without `async`.
//! - [`Trace`] writes when each operation was new, queued, acked and done ([`Builder::trace`]).
//!
//! Below, [`Cluster`] keeps sessions with a monitor and, if one is wanted, with the active manager; `objecter`
//! carries operations to the OSDs. An operation that is lost on the way (a lost connection, a map
//! that moves the object) is sent again under the same number until it is answered; the OSD knows it again,
//! so that an append happens once.
//!
//! All of it is also run in simulated time against a modelled cluster, many thousand times, each with another
//! seed (`tests/simulated`).
//!
//! What this crate refuses to do: it does not cache, does not stripe (an object is at most what an OSD takes
//! in one request's worth of writes), and has no threads of its own but those of the runtime it is given.
#![forbid(unsafe_code)]

pub mod blocking;
mod builder;
mod core;
mod error;
mod ioctx;
mod objecter;
mod rados;
mod trace;

pub use builder::Builder;
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
pub use rados::{MonitorsSettings, Rados};
pub use trace::{Trace, Traced};
