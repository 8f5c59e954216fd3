//! The rules of CephFS as state machines: events in, effects out. No socket, no clock, no file.
//!
//! A client drives them from its messages and calls, a metadata server uses the same rules from the other
//! side ([`grant`]), and the simulator in `tests/` runs both in one thread against each other.
//!
//! | module | state of |
//! |---|---|
//! | [`caps`] | one inode's capabilities and attributes on a client |
//! | [`word`] | the same for the data path, in one atomic word without a lock |
//! | [`request`] | requests of a client to metadata servers |
//! | [`session`] | one session of a client with a metadata server |
//! | [`dir`] | a directory's fragments, listings, completeness and leases |
//! | [`realm`] | snapshot realms, and what must be flushed with an older snapshot context |
//! | [`quota`] | the limits above an inode |
//! | [`grant`] | one inode's capabilities on the metadata server |
//!
//! Times are [`Moment`]s that the caller passes in. Numbers from peers are checked before they allocate or
//! loop.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod caps;
pub mod dir;
pub mod grant;
pub mod quota;
pub mod realm;
pub mod request;
pub mod session;
mod time;
pub mod word;

pub use time::Moment;
