//! The maps of a cluster: [`MonMap`] (the monitors), [`OsdMap`] (pools, OSDs and data placement) with
//! its [`Incremental`]s, [`crush`], the placement algorithm, [`MdsMap`] (the metadata servers of a file
//! system), and [`FsMap`] and [`FsMapUser`] (all file systems).
//!
//! A client decodes an [`OsdMap`], updates it with [`OsdMap::apply_incremental`], and looks up the
//! location of objects with [`Targets`]. A server creates maps with [`OsdMap::build`] and changes them
//! by applying incrementals that it builds.
//!
//! Maps of releases 16 to 20 can be decoded. Maps are encoded as release 16 encodes them: in the form
//! that all of these releases accept, with checksums. Sources: Ceph's `src/osd/OSDMap.cc`,
//! `src/osd/osd_types.cc`, `src/mon/MonMap.cc`, `src/mds/` and `src/crush/`, and maps written by stock
//! daemons.
//!
//! Out of scope: sockets, clocks and threads. Decoding any input neither panics nor loops endlessly, and
//! allocates at most a small multiple of the input's size.
// Numbers from peers must not be truncated or change sign silently. Intended conversions are written
// explicitly (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod compat;
pub mod crush;
mod features;
mod fsmap;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod mdsmap;
mod mix;
mod monmap;
mod osdmap;
mod pool;
mod strhash;

pub use compat::{CompatFeatures, CompatSet};
pub use features::Features;
pub use fsmap::{Filesystem, FsMap, FsMapUser, FsName};
pub use loligo_wire::{Name, SnapSet};
pub use mdsmap::{Availability, MdsInfo, MdsMap, MdsState, QuiesceCluster};
pub use monmap::{MonAuth, MonInfo, MonMap};
pub use osdmap::{
    AddrTimes, ApplyError, Blocklist, CrimsonChange, EncodedOsdMap, HOLE, Incremental, MapFlags, NextEpoch,
    Osd, OsdInfo, OsdMap, OsdMapBuilder, OsdSet, OsdState, OsdXInfo, StretchMode, Target, Targets, UpActing,
};
pub use pool::{
    PeeringCrush, PgMergeMeta, PgPool, PoolFlags, PoolKind, PoolOpt, PoolOptKey, PoolOpts, PoolSnap,
    ShardSet, Tiering, stable_mod,
};
pub use strhash::ObjectHash;
