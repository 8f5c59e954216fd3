//! The maps of a cluster: [`MonMap`] (who the monitors are), [`OsdMap`] (pools, OSDs, where data lies) with
//! its [`Incremental`]s, and [`crush`], the algorithm that places data.
//!
//! A client decodes an [`OsdMap`], keeps it current with [`OsdMap::apply_incremental`], and asks a
//! [`Targets`] over it where an object is. A server makes maps with [`OsdMap::build`] and changes them by
//! applying incrementals of its own.
//!
//! Maps are read as releases 16 to 20 write them, and written as release 16 does: in the form that all of
//! them accept, checksums included. Facts come from `src/osd/OSDMap.cc`, `src/osd/osd_types.cc`,
//! `src/mon/MonMap.cc` and `src/crush/` of Ceph, and from what stock daemons wrote.
//!
//! What this crate refuses to do: no sockets, no clocks, no threads. Whatever bytes a map is decoded from,
//! nothing panics, loops, or allocates more than a small multiple of them.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod crush;
mod features;
#[doc(hidden)]
pub mod fuzz;
mod mix;
mod monmap;
mod name;
mod osdmap;
mod pool;
mod snaps;
mod strhash;

pub use features::Features;
pub use monmap::{MonAuth, MonInfo, MonMap};
pub use name::Name;
pub use osdmap::{
    AddrTimes, ApplyError, Blocklist, CrimsonChange, EncodedOsdMap, HOLE, Incremental, MapFlags, NextEpoch,
    Osd, OsdInfo, OsdMap, OsdMapBuilder, OsdSet, OsdState, OsdXInfo, StretchMode, Target, Targets, UpActing,
};
pub use pool::{
    PeeringCrush, PgMergeMeta, PgPool, PoolFlags, PoolKind, PoolOpt, PoolOptKey, PoolOpts, PoolSnap,
    ShardSet, Tiering, stable_mod,
};
pub use snaps::SnapSet;
pub use strhash::ObjectHash;
