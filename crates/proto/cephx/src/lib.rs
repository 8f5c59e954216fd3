//! Ceph authentication, keys and keyrings.
//!
//! - [`handshake`]: the interface between the messenger and authentication.
//! - [`client`]: the client's side of cephx and `none`, with tickets and their renewal.
//! - [`server`]: the side of the monitors and the services.
//! - [`keyring`] and [`key`]: keys, their owners, and the text of keyrings.
//! - [`signature`]: the signatures of messages in the messenger of version 1.
//! - [`ini`]: the lines of ceph.conf and of keyrings.
//!
//! This crate opens no socket and no file (the crate `conf` opens files). A server's session keys have
//! the type of the client's key; its service secrets have the configured type.
// Integers that come from peers are never truncated, wrapped or reinterpreted implicitly: conversions
// that may lose bits are explicit (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod caps;
pub mod client;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
pub mod handshake;
pub mod ini;
pub mod key;
pub mod keyring;
mod random;
pub mod server;
pub mod signature;
mod wire;

/// Length in bytes of the connection secret, from which secure mode takes its keys and nonces.
const CONNECTION_SECRET_LEN: usize = 64;
