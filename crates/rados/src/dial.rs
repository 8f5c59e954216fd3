//! Opening connections, to monitors and OSDs alike.

use std::sync::{Arc, Weak};

use loligo_cephx::client::AuthClient;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr::{ConnectAuth, Connection, Messenger, Policy};
use loligo_wire::{EntityAddr, EntityType};

/// Opens connections.
pub(crate) struct Dialer {
    messenger: Weak<Messenger>,
    auth: Arc<Authenticator>,
}

impl Dialer {
    pub(crate) fn new(messenger: Weak<Messenger>, auth: Arc<AuthClient>) -> Self {
        Self { messenger, auth: Arc::new(Authenticator(auth)) }
    }

    /// Opens a connection; `None` if the client is being dropped.
    pub(crate) fn connect(&self, kind: EntityType, addr: EntityAddr) -> Option<Arc<Connection>> {
        self.connect_with(kind, addr, |_| {})
    }

    /// As [`connect`](Self::connect). Whoever has to be known by the connection when it is lost is made known in `ready`: it may
    /// be lost before this returns.
    pub(crate) fn connect_with(
        &self,
        kind: EntityType,
        addr: EntityAddr,
        ready: impl FnOnce(&Arc<Connection>),
    ) -> Option<Arc<Connection>> {
        let auth = Arc::clone(&self.auth) as Arc<dyn ConnectAuth>;
        Some(self.messenger.upgrade()?.connect_with(kind, addr, Policy::lossy_client(), auth, ready))
    }
}

/// Authenticates connections: to monitors with the key, to others with the tickets that they gave.
struct Authenticator(Arc<AuthClient>);

impl ConnectAuth for Authenticator {
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth> {
        match peer {
            EntityType::MON => self.0.mon_auth(),
            service => self.0.service_auth(service),
        }
    }
}
