//! Ceph authentication, keys and keyrings.
//!
//! - [`handshake`]: what the messenger asks of authentication.
//! - [`client`]: cephx and `none` from the client's side, with tickets and their renewal.
//! - [`server`]: the same from the monitor's and the services' side.
//! - [`keyring`] and [`key`]: keys, who has which, and the text of keyrings.
//! - [`ini`]: the lines of ceph.conf and of keyrings.
//!
//! What this crate refuses to do: it opens no socket and no file (the crate `conf` does). A server's session keys and service secrets are of type `aes`, which all releases read, whatever
//! its clients' keys are.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

pub mod caps;
pub mod client;
#[doc(hidden)]
pub mod fuzz;
pub mod handshake;
pub mod ini;
pub mod key;
pub mod keyring;
mod random;
pub mod server;
mod wire;

// Errnos travel as Linux numbers them.
const EACCES: i32 = 13;
const EAGAIN: i32 = 11;
const EINVAL: i32 = 22;
const EOPNOTSUPP: i32 = 95;

/// Bytes of secret that secure mode asks of the authentication: keys and nonces are cut from them.
const CONNECTION_SECRET_LEN: usize = 64;
