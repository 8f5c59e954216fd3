//! The traits by which both sides of a connection prove who they are.

use std::net::SocketAddr;

use loligo_cephx::handshake::{ClientAuth, ServerAuth};
use loligo_wire::EntityType;

/// Authenticates ourselves towards a peer that we connect to.
pub trait ConnectAuth: Send + Sync + 'static {
    /// One exchange; called for every attempt to connect.
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth>;
}

/// Authenticates peers that connect to us.
pub trait AcceptAuth: Send + Sync + 'static {
    /// One exchange; called for every accepted socket.
    fn acceptor(&self, from: SocketAddr) -> Box<dyn ServerAuth>;
}
