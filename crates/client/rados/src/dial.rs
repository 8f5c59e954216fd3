//! Opening connections, to monitors and OSDs alike.

use std::sync::{Arc, Weak};

use loligo_cephx::client::AuthClient;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr::{ConnectAuth, Connection, Messenger, Policy};
use loligo_wire::{EntityAddr, EntityType, GlobalId};

/// Opens connections.
pub(crate) struct Dialer {
    messenger: Weak<Messenger>,
    auth: Arc<AuthClient>,
}

impl Dialer {
    pub(crate) fn new(messenger: Weak<Messenger>, auth: Arc<AuthClient>) -> Self {
        Self { messenger, auth }
    }

    /// The client's number, as connections that are opened now say.
    pub(crate) fn global_id(&self) -> GlobalId {
        self.auth.global_id()
    }

    /// Opens a connection; `None` if the client is being dropped.
    pub(crate) fn connect(&self, kind: EntityType, addr: EntityAddr) -> Option<Arc<Connection>> {
        self.connect_with(kind, addr, |_| {})
    }

    /// As [`connect`](Self::connect). Whoever has to be known by the connection when it is lost is made known
    /// in `ready`: it may be lost before this returns.
    pub(crate) fn connect_with(
        &self,
        kind: EntityType,
        addr: EntityAddr,
        ready: impl FnOnce(&Arc<Connection>),
    ) -> Option<Arc<Connection>> {
        let messenger = self.messenger.upgrade()?;
        let global_id = self.global_id();
        if global_id != GlobalId(0) {
            messenger.set_num(global_id.0 as i64);
        }
        let auth: Arc<dyn ConnectAuth> = Arc::new(Authenticator { auth: Arc::clone(&self.auth), global_id });
        Some(messenger.connect_with(kind, addr, Policy::lossy_client(), auth, ready))
    }
}

/// Authenticates connections: to monitors with the key, to others with the tickets that they gave.
struct Authenticator {
    auth: Arc<AuthClient>,
    /// As whom the connection was opened.
    global_id: GlobalId,
}

impl ConnectAuth for Authenticator {
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth> {
        match peer {
            EntityType::MON => self.auth.mon_auth(),
            // OSDs know by the number what they have executed; nobody else does.
            EntityType::OSD => self.auth.service_auth(EntityType::OSD, self.global_id),
            service => self.auth.service_auth(service, self.auth.global_id()),
        }
    }
}
