//! Ceph's encoding: the codec, the base types and the messages that clients, monitors and OSDs exchange.
//!
//! What is here: [`Writer`] and [`Reader`], the [`Encode`] and [`Decode`] traits with the versioned-struct
//! envelope, the small types that everything shares ([`EntityName`], [`EntityAddr`], [`PgId`], …), and the
//! bodies of the messages (module [`message`]).
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

mod addr;
mod codec;
pub mod crc;
mod entity;
mod error;
pub mod features;
#[doc(hidden)]
pub mod fuzz;
mod ids;
pub mod message;
pub mod rbd;
mod time;

pub use addr::{AddrKind, EntityAddr, EntityAddrVec};
pub use codec::{Decode, Encode, Reader, Writer};
pub use entity::{EntityName, EntityNum, EntityType, ParseEntityNameError};
pub use error::DecodeError;
pub use ids::{Epoch, Eversion, GlobalId, Incarnation, OsdId, PgId, PoolId, SnapId, SpgId, Tid, Uuid};
pub use time::UTime;
