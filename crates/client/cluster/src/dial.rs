//! Opening connections, to every kind of daemon.

use std::sync::{Arc, Weak};

use loligo_cephx::client::AuthClient;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr::{ConnectAuth, Connection, Messenger, Policy};
use loligo_wire::{EntityAddr, EntityType, GlobalId};

/// Opens connections, authenticated as this client. It does not keep the client alive.
pub struct Dialer {
    messenger: Weak<Messenger>,
    auth: Arc<AuthClient>,
}

impl Dialer {
    pub(crate) fn new(messenger: Weak<Messenger>, auth: Arc<AuthClient>) -> Self {
        Self { messenger, auth }
    }

    /// The client's number, as connections that are opened now say.
    pub fn global_id(&self) -> GlobalId {
        self.auth.global_id()
    }

    /// Opens a connection to a daemon, by a policy of the caller's choice:
    /// [`Policy::lossy_client`](loligo_msgr::Policy::lossy_client) where the caller sends again what is lost with
    /// a connection, [`lossless_client`](loligo_msgr::Policy::lossless_client) where the daemon keeps the
    /// session. `None` if the client is being dropped.
    ///
    /// What has to know the connection when it is lost is made known in `ready`: it may be lost before this
    /// returns. A lossless connection to this address that is there already is returned as it is, and `ready` is
    /// not called.
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
            // A manager knows nothing of a client but its session.
            EntityType::MGR => self.auth.service_auth(EntityType::MGR, self.auth.global_id()),
            // Others know by the number what they have executed or granted.
            service => self.auth.service_auth(service, self.global_id),
        }
    }
}
