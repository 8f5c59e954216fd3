//! The server's side: a monitor that knows all keys, and services that accept its tickets.
//!
//! An [`AuthServer`] is built from a [`KeyDatabase`] (the keys and capabilities of all names) and
//! [`ServiceKeys`] (the rotating secrets that seal tickets). It creates a [`ServerAuth`] for each
//! connection that a monitor ([`AuthServer::mon_acceptor`]) or a service
//! ([`AuthServer::service_acceptor`]) accepts, and answers renewals ([`AuthServer::renew`]). The owner
//! must call [`ServiceKeys::rotate`] periodically.

mod grant;
mod mon;
mod rotating;
mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loligo_wire::{EntityName, EntityType, Errno, GlobalId, UTime};

use crate::handshake::{AuthMethod, ConMode, Identity, ServerAuth, ServerStep};
use crate::keyring::{Entry, Keyring};

pub use mon::Renewal;
pub use rotating::{Rotation, ServiceKeys};

/// The keys and capabilities of all names.
pub trait KeyDatabase: Send + Sync {
    /// Returns the entry of a name. Called during handshakes: must not block.
    fn entity(&self, name: &EntityName) -> Option<Entry>;
}

impl KeyDatabase for Keyring {
    fn entity(&self, name: &EntityName) -> Option<Entry> {
        self.entry(name).cloned()
    }
}

/// The configuration of a server.
#[derive(Clone, Debug)]
pub struct AuthConfig {
    /// Accepted methods (`auth_client_required`, `auth_service_required`).
    pub methods: Vec<AuthMethod>,
    /// Accepted modes of connections to monitors, best first (`ms_mon_service_mode`).
    pub mon_modes: Vec<ConMode>,
    /// Accepted modes of connections to services, best first (`ms_service_mode`).
    pub service_modes: Vec<ConMode>,
    /// The validity of the ticket with which other tickets are requested (`auth_mon_ticket_ttl`).
    pub mon_ticket_ttl: Duration,
    /// The validity of a service's ticket (`auth_service_ticket_ttl`).
    pub service_ticket_ttl: Duration,
    /// Returns the current time.
    pub clock: fn() -> UTime,
}

impl AuthConfig {
    /// Ceph's defaults. `clock` returns the current time.
    pub fn new(clock: fn() -> UTime) -> Self {
        Self {
            methods: vec![AuthMethod::CEPHX],
            mon_modes: vec![ConMode::Secure, ConMode::Crc],
            service_modes: vec![ConMode::Crc, ConMode::Secure],
            mon_ticket_ttl: Duration::from_secs(72 * 3600),
            service_ticket_ttl: Duration::from_secs(3600),
            clock,
        }
    }

    /// Ceph's defaults with method `none`: every client has the name it claims and all capabilities.
    pub fn none(clock: fn() -> UTime) -> Self {
        Self { methods: vec![AuthMethod::NONE], ..Self::new(clock) }
    }

    /// Returns the mode for a connection: the first of the client's modes that is in `ours`. `None` if
    /// the method or all modes are unacceptable.
    fn choose(&self, method: AuthMethod, offered: &[u32], ours: &[ConMode]) -> Option<ConMode> {
        if !self.methods.contains(&method) {
            return None;
        }
        let fits =
            |mode: &ConMode| ours.contains(mode) && (method == AuthMethod::CEPHX || *mode == ConMode::Crc);
        offered.iter().filter_map(|code| ConMode::from_code(*code)).find(fits)
    }

    fn refuse(&self, errno: Errno, ours: &[ConMode]) -> ServerStep {
        ServerStep::Bad {
            errno,
            methods: self.methods.iter().map(|m| m.0).collect(),
            modes: ours.iter().map(|m| m.code()).collect(),
        }
    }
}

/// The authentication of one cluster. Shared by its monitor and its services; no method blocks.
pub struct AuthServer {
    config: AuthConfig,
    database: Arc<dyn KeyDatabase>,
    keys: Arc<ServiceKeys>,
    next_global_id: AtomicU64,
    /// The end of the global ids that may be assigned: a restarted process would not know that higher
    /// ones were in use.
    global_id_end: AtomicU64,
}

impl AuthServer {
    /// Creates a server that assigns global ids from `first_global_id` on. After a restart it must be
    /// higher than all ids assigned before.
    pub fn new(
        config: AuthConfig,
        database: Arc<dyn KeyDatabase>,
        keys: Arc<ServiceKeys>,
        first_global_id: GlobalId,
    ) -> Arc<Self> {
        let next_global_id = AtomicU64::new(first_global_id.0.max(1)); // 0 means "none yet"
        Arc::new(Self { config, database, keys, next_global_id, global_id_end: AtomicU64::new(u64::MAX) })
    }

    /// The configuration.
    pub fn config(&self) -> &AuthConfig {
        &self.config
    }

    /// Whether clients are accepted without proof of their identity.
    pub fn accepts_unproven(&self) -> bool {
        self.config.methods.contains(&AuthMethod::NONE)
    }

    /// The secrets that seal tickets.
    pub fn keys(&self) -> &Arc<ServiceKeys> {
        &self.keys
    }

    /// The next global id that will be assigned.
    pub fn next_global_id(&self) -> GlobalId {
        GlobalId(self.next_global_id.load(Ordering::Relaxed))
    }

    /// Sets the end (exclusive) of the global ids that may be assigned. When none is left, clients
    /// without a global id are refused. By default there is no bound.
    pub fn limit_global_ids(&self, end: GlobalId) {
        self.global_id_end.store(end.0, Ordering::Relaxed);
    }

    /// Creates the authentication of one connection that the monitor accepts.
    pub fn mon_acceptor(self: &Arc<Self>) -> Box<dyn ServerAuth> {
        Box::new(mon::MonAcceptor::new(Arc::clone(self)))
    }

    /// Creates the authentication of one connection that a service, such as [`EntityType::OSD`],
    /// accepts.
    pub fn service_acceptor(self: &Arc<Self>, service: EntityType) -> Box<dyn ServerAuth> {
        Box::new(service::ServiceAcceptor::new(Arc::clone(self), service))
    }

    fn new_global_id(&self) -> Option<GlobalId> {
        let end = self.global_id_end.load(Ordering::Relaxed);
        let next = |id: u64| Some(id + 1).filter(|next| *next <= end);
        self.next_global_id.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(GlobalId)
    }

    fn now(&self) -> UTime {
        (self.config.clock)()
    }

    fn entity(&self, name: &EntityName) -> Option<Entry> {
        self.database.entity(name)
    }
}

/// Clients without proof have all capabilities, as in Ceph.
fn unproven_identity(name: EntityName, global_id: GlobalId) -> Identity {
    Identity { name, global_id, caps: "allow *".to_owned(), challenge: 0 }
}
