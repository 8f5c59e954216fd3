//! Ceph's messages, which clients, monitors and OSDs exchange, and the records of RBD images.
//!
//! Contents: the bodies of the messages (module [`message`]) and the records of images (module [`rbd`]).
//! The codec and the small types come from `loligo-types` and are re-exported here.
//!
//! Out of scope: sockets, clocks and maps (a map passes through as opaque bytes; `loligo-maps` decodes
//! it). No input causes a panic or an allocation larger than the bytes at hand.
// Numbers from peers must not be truncated or change sign silently. Intended conversions are written
// explicitly (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod crc;
pub mod features;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
pub mod message;
pub mod rbd;

pub use loligo_types::{
    AddrKind, CapId, Caps, Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, EntityName, EntityNum,
    EntityType, Epoch, Errno, Eversion, Fscid, GlobalId, Incarnation, Ino, Name, OsdId, ParseEntityNameError,
    PgId, PoolId, Rank, Reader, SnapContext, SnapId, SnapSet, SpgId, Tid, UTime, Uuid, Writer,
};
