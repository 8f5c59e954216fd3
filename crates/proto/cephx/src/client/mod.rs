//! The client's side: authentication to monitors, and to services with tickets.
//!
//! An [`AuthClient`] holds a program's identity: its name, its key, and the tickets that monitors
//! granted. It creates a [`ClientAuth`] for each connection: [`AuthClient::mon_auth`] fetches all
//! tickets while it connects to a monitor, [`AuthClient::service_auth`] presents one. Tickets expire:
//! when [`AuthClient::renewal`] returns a payload, send it in an MAuth to the monitor and pass the reply
//! to [`AuthClient::renewed`].

mod mon;
mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::ArcSwap;
use bytes::Bytes;
use loligo_wire::{EntityName, EntityType, Errno, GlobalId, Reader, UTime, Writer};

use crate::handshake::{AuthError, AuthMethod, ClientAuth, ConMode};
use crate::key::{CryptoKey, Usage};
use crate::random;
use crate::wire::{
    self, Authenticate, Authorize, AuthorizerHead, GET_AUTH_SESSION_KEY, GET_PRINCIPAL_SESSION_KEY,
    GrantedTicket, TicketBlob, TicketsError,
};

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Its name.
    pub name: EntityName,
    /// Its key; needed for cephx.
    pub key: Option<CryptoKey>,
    /// Accepted methods, best first (`auth_client_required`).
    pub methods: Vec<AuthMethod>,
    /// Accepted modes of connections to monitors, best first (`ms_mon_client_mode`).
    pub mon_modes: Vec<ConMode>,
    /// Accepted modes of connections to other services, best first (`ms_client_mode`).
    pub service_modes: Vec<ConMode>,
    /// The services to request tickets for from the first handshake on.
    pub services: Vec<EntityType>,
    /// Returns the current time.
    pub clock: fn() -> UTime,
}

impl ClientConfig {
    /// Ceph's defaults: cephx if there is a key, else none; secure mode preferred for monitors and crc
    /// for services. `clock` returns the current time.
    pub fn new(name: EntityName, key: Option<CryptoKey>, clock: fn() -> UTime) -> Self {
        Self {
            methods: vec![if key.is_some() { AuthMethod::CEPHX } else { AuthMethod::NONE }],
            name,
            key,
            mon_modes: vec![ConMode::Secure, ConMode::Crc],
            service_modes: vec![ConMode::Crc, ConMode::Secure],
            services: vec![EntityType::MON, EntityType::OSD, EntityType::MGR],
            clock,
        }
    }
}

/// A client's identity and tickets. Shared by all its connections; no method blocks.
pub struct AuthClient {
    config: ClientConfig,
    /// Replaced as a whole at the end of each exchange with a monitor.
    held: ArcSwap<Held>,
    /// The services to request tickets for: a set of entity types.
    services: AtomicU32,
}

/// The state granted by monitors.
#[derive(Clone)]
struct Held {
    method: AuthMethod,
    global_id: GlobalId,
    /// The number of successful handshakes with monitors. A handshake that another one has overtaken
    /// changes nothing: its global id would make this a different client for OSDs that have executed
    /// requests sent under the first one.
    handshakes: u64,
    /// The challenge of the connection that granted the tickets; it also authenticates renewals.
    server_challenge: u64,
    tickets: Vec<Ticket>,
}

#[derive(Clone)]
struct Ticket {
    service: EntityType,
    session_key: CryptoKey,
    blob: TicketBlob,
    /// `None`: the ticket does not expire.
    expires: Option<Expiry>,
}

#[derive(Clone, Copy)]
struct Expiry {
    renew_after: UTime,
    expires: UTime,
}

/// The parts of a monitor's reply besides tickets.
struct Reply {
    session_key: CryptoKey,
    /// The connection secret; only the reply of a handshake contains it.
    sealed_secret: Bytes,
}

impl AuthClient {
    /// Creates a client without tickets.
    pub fn new(config: ClientConfig) -> Arc<Self> {
        let method = config.methods.first().copied().unwrap_or(AuthMethod::NONE);
        let held =
            Held { method, global_id: GlobalId(0), handshakes: 0, server_challenge: 0, tickets: Vec::new() };
        let services = AtomicU32::new(config.services.iter().fold(0, |set, s| set | s.0));
        Arc::new(Self { config, held: ArcSwap::from_pointee(held), services })
    }

    /// Requests tickets for this service too, with the next handshake with a monitor or the next
    /// [`renewal`](Self::renewal). Returns whether the service is new.
    pub fn want_tickets_for(&self, service: EntityType) -> bool {
        // Relaxed: it publishes no other data.
        self.services.fetch_or(service.0, Ordering::Relaxed) & service.0 != service.0
    }

    fn services(&self) -> u32 {
        self.services.load(Ordering::Relaxed)
    }

    /// Creates the authentication for one connection to a monitor. When it is done, the tickets are
    /// available.
    pub fn mon_auth(self: &Arc<Self>) -> Box<dyn ClientAuth> {
        Box::new(mon::MonAuth::new(Arc::clone(self)))
    }

    /// Creates the authentication for one connection to a service, such as [`EntityType::OSD`], with the
    /// ticket available at that time. It fails if the client's global id is no longer `global_id` then.
    pub fn service_auth(self: &Arc<Self>, service: EntityType, global_id: GlobalId) -> Box<dyn ClientAuth> {
        Box::new(service::TicketAuth::new(Arc::clone(self), service, global_id))
    }

    /// The client's name.
    pub fn name(&self) -> &EntityName {
        &self.config.name
    }

    /// The global id assigned by the monitors; 0 before the first connection.
    pub fn global_id(&self) -> GlobalId {
        self.held.load().global_id
    }

    /// Whether a connection to `service` could authenticate now.
    pub fn can_reach(&self, service: EntityType) -> bool {
        let held = self.held.load();
        match held.method {
            AuthMethod::CEPHX => held.ticket(service).is_some_and(|t| !t.is_expired((self.config.clock)())),
            _ => held.global_id != GlobalId(0),
        }
    }

    /// The time at which the next ticket should be renewed; `None` if no ticket expires.
    pub fn renew_after(&self) -> Option<UTime> {
        self.held.load().tickets.iter().filter_map(|t| t.expires.map(|e| e.renew_after)).min()
    }

    /// Returns the payload of an MAuth that requests the tickets due now from the connected monitor;
    /// `None` if none is due.
    pub fn renewal(&self) -> Option<Bytes> {
        let held = self.held.load();
        if held.method != AuthMethod::CEPHX {
            return None;
        }
        let due = held.due(self.services(), (self.config.clock)());
        let auth = held.ticket(EntityType::AUTH)?;
        if due == 0 {
            return None;
        }
        if due & EntityType::AUTH.0 != 0 {
            return self.authenticate(held.server_challenge, &auth.blob, due).ok();
        }
        let mut w = Writer::with_capacity(256);
        w.u16(GET_PRINCIPAL_SESSION_KEY);
        write_authorizer(&held.authorizer_head(auth), &auth.session_key, random::u64(), None, &mut w);
        w.u8(1);
        w.u32(due);
        Some(w.into_bytes())
    }

    /// Processes the monitor's answer to a [`AuthClient::renewal`]: the MAuthReply's `result` and
    /// payload.
    pub fn renewed(&self, result: i32, payload: &[u8]) -> Result<(), AuthError> {
        if result < 0 {
            return Err(AuthError::Refused { errno: Errno(result.saturating_neg()), methods: Vec::new() });
        }
        self.take_reply(payload, |_| Ok(())).map(drop)
    }

    fn key(&self) -> Result<&CryptoKey, AuthError> {
        let missing = || AuthError::NoCredentials(format!("no key for {}", self.config.name));
        self.config.key.as_ref().ok_or_else(missing)
    }

    /// Builds the request that proves the client's identity and asks for tickets for `services`.
    fn authenticate(
        &self,
        server_challenge: u64,
        old_ticket: &TicketBlob,
        services: u32,
    ) -> Result<Bytes, AuthError> {
        let client_challenge = random::u64();
        let request = Authenticate {
            client_challenge,
            proof: wire::challenge_proof(self.key()?, server_challenge, client_challenge),
            old_ticket: old_ticket.clone(),
            // Monitors add the connection secret only if the client requests tickets; this one is always
            // requested.
            other_keys: services | EntityType::AUTH.0,
        };
        let mut w = Writer::with_capacity(256);
        w.u16(GET_AUTH_SESSION_KEY);
        w.put(&request);
        Ok(w.into_bytes())
    }

    /// Decodes a reply with tickets, and publishes them. `update` sets the other results of the
    /// exchange, or returns an error to publish nothing.
    fn take_reply(
        &self,
        payload: &[u8],
        update: impl Fn(&mut Held) -> Result<(), AuthError>,
    ) -> Result<Reply, AuthError> {
        self.settle(|held| {
            update(held)?;
            self.read_reply(payload, held)
        })
    }

    /// Publishes a change of the granted state. The change is computed again if another thread has
    /// published one in the meantime.
    fn settle<T>(&self, change: impl Fn(&mut Held) -> Result<T, AuthError>) -> Result<T, AuthError> {
        loop {
            let before = self.held.load();
            let mut held = Held::clone(&before);
            let settled = change(&mut held)?;
            let found = self.held.compare_and_swap(&*before, Arc::new(held));
            if Arc::ptr_eq(&found, &before) {
                return Ok(settled);
            }
        }
    }

    fn read_reply(&self, payload: &[u8], held: &mut Held) -> Result<Reply, AuthError> {
        let mut r = Reader::new(payload);
        let request = r.u16()?;
        let status = r.i32()?;
        if status < 0 {
            return Err(AuthError::Refused { errno: Errno(status.saturating_neg()), methods: Vec::new() });
        }
        let mut sealed_secret = Bytes::new();
        match request {
            GET_AUTH_SESSION_KEY => {
                self.take_tickets(held, &mut r, self.key()?)?;
                if !r.is_empty() {
                    sealed_secret = r.get()?;
                    let mut extra = r.sized()?;
                    if !extra.is_empty() {
                        let session_key = held.auth_session_key()?.clone();
                        self.take_tickets(held, &mut extra, &session_key)?;
                    }
                }
            }
            GET_PRINCIPAL_SESSION_KEY => {
                let session_key = held.auth_session_key()?.clone();
                self.take_tickets(held, &mut r, &session_key)?;
            }
            other => return Err(AuthError::invalid("cephx response type", u64::from(other))),
        }
        let session_key = held.auth_session_key()?.clone();
        Ok(Reply { session_key, sealed_secret })
    }

    fn take_tickets(&self, held: &mut Held, r: &mut Reader<'_>, secret: &CryptoKey) -> Result<(), AuthError> {
        let old_key = |service| held.ticket(service).map(|t| t.session_key.clone());
        let granted = wire::decode_tickets(r, secret, old_key).map_err(|e| match e {
            TicketsError::Decode(e) => AuthError::Decode(e),
            TicketsError::Decrypt => AuthError::PeerUnproven("the monitor does not know our key"),
        })?;
        let now = (self.config.clock)();
        for ticket in granted {
            held.put(Ticket::from_granted(ticket, now));
        }
        Ok(())
    }
}

impl Held {
    /// Records a successful handshake; `begun` is the value of `handshakes` when it began.
    fn end_handshake(&mut self, begun: u64) -> Result<(), AuthError> {
        if self.handshakes != begun {
            return Err(AuthError::Superseded);
        }
        self.handshakes += 1;
        Ok(())
    }

    fn ticket(&self, service: EntityType) -> Option<&Ticket> {
        self.tickets.iter().find(|t| t.service == service)
    }

    fn put(&mut self, ticket: Ticket) {
        match self.tickets.iter_mut().find(|t| t.service == ticket.service) {
            Some(old) => *old = ticket,
            None => self.tickets.push(ticket),
        }
    }

    fn auth_session_key(&self) -> Result<&CryptoKey, AuthError> {
        let missing = || AuthError::NoCredentials("no ticket of the monitors".to_owned());
        self.ticket(EntityType::AUTH).map(|t| &t.session_key).ok_or_else(missing)
    }

    /// The set of entity types, among `services` and the monitors' own ticket, whose tickets are missing
    /// or due for renewal.
    fn due(&self, services: u32, now: UTime) -> u32 {
        let is_fresh = |ticket: &&Ticket| !ticket.is_due(now);
        let fresh = self.tickets.iter().filter(is_fresh).fold(0, |set, ticket| set | ticket.service.0);
        (services | EntityType::AUTH.0) & !fresh
    }

    fn authorizer_head(&self, ticket: &Ticket) -> AuthorizerHead {
        AuthorizerHead { global_id: self.global_id, service: ticket.service, ticket: ticket.blob.clone() }
    }
}

impl Ticket {
    /// Like Ceph's clients, renews a ticket when a quarter of its validity is left.
    fn from_granted(granted: GrantedTicket, now: UTime) -> Self {
        let GrantedTicket { service, session_key, validity, blob } = granted;
        let expires = (!validity.is_zero()).then(|| {
            let whole = validity.since_epoch();
            Expiry { renew_after: now + whole * 3 / 4, expires: now + whole }
        });
        Self { service, session_key, blob, expires }
    }

    fn is_due(&self, now: UTime) -> bool {
        self.expires.is_some_and(|e| now >= e.renew_after)
    }

    fn is_expired(&self, now: UTime) -> bool {
        self.expires.is_some_and(|e| now >= e.expires)
    }
}

/// Writes an authorizer: the ticket, and the proof that the client has its session key.
fn write_authorizer(
    head: &AuthorizerHead,
    session_key: &CryptoKey,
    nonce: u64,
    answer: Option<u64>,
    w: &mut Writer,
) {
    w.put(head);
    w.blob(&session_key.seal(Usage::Authorize, |w| w.put(&Authorize { nonce, answer })));
}

/// The modes to offer. Without a shared key a connection cannot be encrypted.
fn offered_modes(method: AuthMethod, configured: &[ConMode]) -> Vec<ConMode> {
    configured.iter().copied().filter(|m| method == AuthMethod::CEPHX || *m == ConMode::Crc).collect()
}
