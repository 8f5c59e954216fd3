//! The traits by which the two sides of a connection authenticate each other.

use std::net::SocketAddr;

use loligo_cephx::handshake::{ClientAuth, ServerAuth};
use loligo_wire::EntityType;

/// Authenticates this side towards a peer that it connects to.
pub trait ConnectAuth: Send + Sync + 'static {
    /// Creates the authentication of one handshake; called for every attempt to connect.
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth>;
}

/// Authenticates peers that connect to this side.
pub trait AcceptAuth: Send + Sync + 'static {
    /// Creates the authentication of one handshake; called for every accepted socket.
    fn acceptor(&self, from: SocketAddr) -> Box<dyn ServerAuth>;
}
