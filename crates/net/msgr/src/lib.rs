//! Sockets, out-queues and throttles: connections that carry Ceph messages over TCP.
//!
//! - [`Messenger`] listens ([`Messenger::bind`]) and connects ([`Messenger::connect`]); it is built from
//!   a [`Config`] and a [`Dispatcher`].
//! - [`Connection`] is one session with one peer. [`Connection::send`] may be called from any thread. It
//!   never waits for the socket or for dispatch, and for the out-queue's lock only in rare cases (a
//!   queue near its bound, a writer of a lossless session). It appends the message to the out-queue or,
//!   if another thread holds the queue's lock, leaves the message for that thread to append. A sender
//!   that finds no writer active flushes the queue without blocking; other senders' messages leave with
//!   that flush or the next one.
//! - [`Dispatcher`] receives all messages of one socket read in one call. Messages that it sends during
//!   the call are gathered and leave in few vectored writes, usually one when the call returns.
//! - [`Policy`] determines what happens when the socket is lost: a lossy connection is closed and
//!   reports that once; a lossless one reconnects and resends, in order, the messages that the peer has
//!   not acknowledged.
//! - [`Network`] provides sockets and random numbers: the kernel's or, with the feature `testing`, those
//!   of a simulation (`testing::SimulatedNetwork`).
//! - [`Throttle`] bounds the messages that were read from peers and are not yet processed.
//!
//! This crate does not interpret messages, and it does not implement the protocol's encoding: that is
//! `loligo-msgr-proto`.
// Integers that come from peers are never truncated, wrapped or reinterpreted implicitly: conversions
// that may lose bits are explicit (crate `az`).
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
