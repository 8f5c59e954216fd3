//! Sockets, out-queues and throttles: connections that carry Ceph messages over TCP.
//!
//! - [`Messenger`] listens ([`Messenger::bind`]) and connects ([`Messenger::connect`]); it is made from a
//!   [`Config`] and a [`Dispatcher`].
//! - [`Connection`] is one session with one peer. [`Connection::send`] may be called from any thread and
//!   never waits for the socket, for dispatch, or for another sender: it appends to the out-queue, or, if
//!   somebody else is at that just now, leaves it to him. Whoever finds the queue at rest flushes it, without
//!   blocking; everybody else's message leaves with that flush or the next one.
//! - [`Dispatcher`] receives all messages that one socket read brought, in one call; what it sends meanwhile
//!   leaves in one vectored write when it returns.
//! - [`Policy`] says what happens when the socket is lost: a lossy connection is dead and says so once; a
//!   lossless one connects again and repeats, in order, what the peer has not acknowledged.
//! - [`Network`] is where sockets and random numbers come from: the kernel, or with the feature `testing` a
//!   simulation (`testing::SimulatedNetwork`).
//! - [`Throttle`] bounds what is read from peers but not yet worked off.
//!
//! What this crate refuses to do: it does not know what messages mean, and it does not speak the bytes of the
//! protocol either: those are `loligo-msgr-proto`'s.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod accept;
mod admission;
mod auth;
mod config;
mod connection;
mod context;
mod dialog;
mod dispatcher;
mod driver;
mod error;
mod log;
mod messenger;
mod socket;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod throttle;

pub use admission::{Admission, AdmissionLimits, Budget, Grant, Lobby, Seat, is_shortage, raise_limit};
pub use auth::{AcceptAuth, ConnectAuth};
pub use config::{Config, Limits, Policies, Policy, Reroute};
pub use connection::{Connection, Cork, PeerInfo, State, Ticket, Unpacked, Watcher};
pub use dispatcher::Dispatcher;
pub use error::{Dropped, Error, SendError};
pub use log::{Level, Log, bounded_log, process_log};
pub use loligo_cephx::handshake::Identity;
pub use loligo_msgr_proto::{Compression, Method};
pub use messenger::Messenger;
pub use socket::Network;
pub use throttle::{Hold, Throttle};

#[cfg(test)]
mod tests;
