//! The small types that everything shares (ids, names, times, addresses), and the codec that writes and reads
//! them.
//!
//! What is here: [`Writer`] and [`Reader`], the [`Encode`] and [`Decode`] traits with the versioned-struct
//! envelope, and a type for each kind of id, so that no two are confused.
//!
//! What this crate refuses to do: no messages, no maps, no sockets; no panic and no allocation beyond the
//! bytes at hand, whatever those bytes are.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod addr;
mod codec;
mod entity;
mod error;
mod ids;
mod name;
mod time;

pub use addr::{AddrKind, EntityAddr, EntityAddrVec};
pub use codec::{Decode, Encode, Reader, Writer};
pub use entity::{EntityName, EntityNum, EntityType, ParseEntityNameError};
pub use error::DecodeError;
pub use ids::{Epoch, Eversion, GlobalId, Incarnation, OsdId, PgId, PoolId, SnapId, SpgId, Tid, Uuid};
pub use name::Name;
pub use time::UTime;
