//! Small types that all crates share (ids, names, times, addresses, errnos, sets of snapshots, sizes), and
//! the codec that encodes and decodes them.
//!
//! Contents: [`Writer`] and [`Reader`], the [`Encode`] and [`Decode`] traits with the versioned-struct
//! envelope, and one type for each kind of id, so that ids of different kinds cannot be confused.
//!
//! Out of scope: messages, maps and sockets. No input causes a panic or an allocation larger than the
//! bytes at hand.
// Numbers from peers must not be truncated or change sign silently. Intended conversions are written
// explicitly (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod addr;
mod codec;
mod entity;
mod errno;
mod error;
mod fs;
mod ids;
mod name;
mod size;
mod snap_context;
mod snap_set;
mod time;

pub use addr::{AddrKind, EntityAddr, EntityAddrVec};
pub use codec::{Decode, Encode, Reader, Writer};
pub use entity::{EntityName, EntityNum, EntityType, ParseEntityNameError};
pub use errno::Errno;
pub use error::DecodeError;
pub use fs::{CapId, Caps, Fscid, Ino, Rank};
pub use ids::{Epoch, Eversion, GlobalId, Incarnation, OsdId, PgId, PoolId, SnapId, SpgId, Tid, Uuid};
pub use name::Name;
pub use size::{SizeError, Units, parse_number, parse_size, split_number, unit_power};
pub use snap_context::SnapContext;
pub use snap_set::SnapSet;
pub use time::UTime;
