//! Opening connections to every kind of daemon.

use std::sync::{Arc, Weak};

use loligo_cephx::client::AuthClient;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr::{ConnectAuth, Connection, Messenger, Policy};
use loligo_wire::{EntityAddr, EntityType, GlobalId};

/// Opens connections that authenticate as this client. It does not keep the client alive.
pub struct Dialer {
    messenger: Weak<Messenger>,
    auth: Arc<AuthClient>,
}

impl Dialer {
    pub(crate) fn new(messenger: Weak<Messenger>, auth: Arc<AuthClient>) -> Self {
        Self { messenger, auth }
    }

    /// Returns the client's global id, as new connections send it.
    pub fn global_id(&self) -> GlobalId {
        self.auth.global_id()
    }

    /// Opens a connection to a daemon with the given policy. Use
    /// [`Policy::lossy_client`](loligo_msgr::Policy::lossy_client) if the caller itself resends what is
    /// lost with a connection, and [`lossless_client`](loligo_msgr::Policy::lossless_client) if the
    /// daemon keeps the session. Returns `None` if the client is being dropped.
    ///
    /// `ready` runs before the connection is opened, because the connection may be lost before this
    /// function returns: it publishes the connection to the code that handles its loss. If a lossless
    /// connection to this address exists, it is returned unchanged and `ready` is not called.
    pub fn connect(
        &self,
        kind: EntityType,
        addr: EntityAddr,
        policy: Policy,
        ready: impl FnOnce(&Arc<Connection>),
    ) -> Option<Arc<Connection>> {
        let messenger = self.messenger.upgrade()?;
        let global_id = self.global_id();
        if global_id != GlobalId(0) {
            messenger.set_num(global_id.0 as i64);
        }
        let auth: Arc<dyn ConnectAuth> = Arc::new(Authenticator { auth: Arc::clone(&self.auth), global_id });
        Some(messenger.connect_with(kind, addr, policy, auth, ready))
    }
}

/// Authenticates connections: to monitors with the key, to other daemons with the tickets the monitors
/// issued.
struct Authenticator {
    auth: Arc<AuthClient>,
    /// The client's global id when the connection was opened.
    global_id: GlobalId,
}

impl ConnectAuth for Authenticator {
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth> {
        match peer {
            EntityType::MON => self.auth.mon_auth(),
            // A manager knows nothing of a client beyond the session.
            EntityType::MGR => self.auth.service_auth(EntityType::MGR, self.auth.global_id()),
            // Other daemons identify by the global id what they have executed or granted.
            service => self.auth.service_auth(service, self.global_id),
        }
    }
}
