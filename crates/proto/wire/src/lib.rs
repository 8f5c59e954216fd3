//! Ceph's messages: what clients, monitors and OSDs exchange, and records of images.
//!
//! What is here: the bodies of the messages (module [`message`]) and the records of images (module [`rbd`]).
//! The codec and the small types are those of `loligo-types`, and can be named from here.
//!
//! What this crate refuses to do: no sockets, no clocks, no maps (a map travels through here as opaque bytes
//! and is opened by `loligo-maps`), no panic and no allocation beyond the bytes at hand, whatever those bytes
//! are.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod crc;
pub mod features;
#[doc(hidden)]
pub mod fuzz;
pub mod message;
pub mod rbd;

pub use loligo_types::{
    AddrKind, Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, EntityName, EntityNum, EntityType,
    Epoch, Eversion, GlobalId, Incarnation, Name, OsdId, ParseEntityNameError, PgId, PoolId, Reader, SnapId,
    SpgId, Tid, UTime, Uuid, Writer,
};
