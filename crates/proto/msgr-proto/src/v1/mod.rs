//! The messenger of version 1, which every release speaks (`src/msg/async/ProtocolV1.cc`), without I/O.
//!
//! ```text
//! client                                            server
//!   banner ──────────────────────────────────────▶
//!          ◀────────────────────────────────────── banner, its address, the client's address as it sees it
//!   its address, connect + authorizer ───────────▶
//!          ◀────────────────────────────────────── CHALLENGE + challenge                  cephx, not to monitors
//!   connect + authorizer with the answer ────────▶
//!          ◀────────────────────────────────────── RETRY_SESSION, RETRY_GLOBAL, RESET_SESSION, WAIT, …
//!          ◀────────────────────────────────────── SEQ + proof + newest message received
//!   newest message received ─────────────────────▶                                        then messages
//! ```
//!
//! To a monitor a client connects without an authorizer and authenticates with messages (MAuth). These are
//! part of the [`Handshake`] here: nothing else is accepted before, and the layer above sees only peers that
//! are authenticated.
//!
//! Messages have checksums, and with cephx signatures; there is no encryption.

mod auth;
mod client;
mod open;
mod seal;
mod server;
mod terms;
mod wire;

use std::collections::VecDeque;
use std::fmt;

use bytes::{Bytes, BytesMut};
use loligo_cephx::handshake::{AuthKeys, ClientAuth, ServerAuth};
use loligo_cephx::signature::MessageSigner;
use loligo_wire::{Decode as _, EntityAddr, EntityType, features};

use self::client::Client;
pub(crate) use self::open::Opener;
pub(crate) use self::seal::Sealer;
use self::server::Server;
pub use self::terms::{Accept, Connect, Offer, Opened, Request};
use crate::limits::TRANSCRIPT_MAX;
use crate::{
    Established, Event, Limits, Local, Misbehaviour, Misuse, OutBuf, PeerInfo, ProtoError, Session,
    Unsupported,
};

/// The establishment of one connection of version 1; like [`crate::Handshake`], with the same
/// [call order](crate::Handshake#call-order) and these commands:
///
/// - [`Introduced`](Event::Introduced), [`Retry`](Event::Retry), [`RetryGlobal`](Event::RetryGlobal) and
///   [`Reset`](Event::Reset) on the client: [`connect`](Self::connect)
/// - [`Connect`](Event::Connect) on the server: [`accept`](Self::accept), [`wait`](Self::wait),
///   [`retry`](Self::retry), [`retry_global`](Self::retry_global), [`reset`](Self::reset) or
///   [`missing_features`](Self::missing_features). On a monitor, whose clients are accepted before they
///   authenticate, only `accept`.
pub struct Handshake {
    wire: Wire,
    role: Role,
    limits: Limits,
}

enum Role {
    Client(Client),
    Server(Server),
}

/// The state common to both roles.
#[derive(Debug)]
struct Wire {
    opener: Opener,
    out: OutBuf,
    events: VecDeque<Event>,
    /// Set together with [`Event::Established`].
    established: Option<(Sealer, PeerInfo, Opened)>,
    /// Bytes of the peer's handshake so far.
    said: usize,
    /// Messages of the handshake that were sent and received.
    sent: u64,
    received: u64,
}

/// The features and keys of a connection.
#[derive(Clone, Default)]
struct Agreed {
    features: u64,
    keys: AuthKeys,
}

impl Agreed {
    /// Whether footers have a place for a signature.
    fn has_signatures(&self) -> bool {
        features::has(self.features, features::MSG_AUTH)
    }

    /// `None` if messages are not signed.
    fn signer(&self) -> Option<MessageSigner> {
        if !self.has_signatures() {
            return None;
        }
        MessageSigner::new(&self.keys.session_key, self.features)
    }

    /// Whether there is a key with which messages cannot be signed.
    fn cannot_sign(&self) -> bool {
        !self.keys.session_key.is_empty() && MessageSigner::new(&self.keys.session_key, 0).is_none()
    }
}

impl fmt::Debug for Agreed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agreed").field("features", &self.features).finish_non_exhaustive()
    }
}

impl Wire {
    fn new() -> Self {
        Self {
            opener: Opener::new(),
            out: OutBuf::new(),
            events: VecDeque::new(),
            established: None,
            said: 0,
            sent: 0,
            received: 0,
        }
    }

    /// Returns the next `len` bytes, if they have been received.
    fn take(&mut self, len: usize) -> Result<Option<Bytes>, Misbehaviour> {
        let taken = self.opener.take(len);
        self.count(taken.as_ref().map_or(0, Bytes::len))?;
        Ok(taken)
    }

    /// Counts bytes of the peer's handshake, which must end some time.
    fn count(&mut self, bytes: usize) -> Result<(), Misbehaviour> {
        self.said += bytes;
        let max = TRANSCRIPT_MAX;
        if self.said > max { Err(Misbehaviour::HandshakeTooLong { max }) } else { Ok(()) }
    }

    /// Records the successful end of the handshake.
    fn establish(&mut self, sealer: Sealer, peer: PeerInfo, opened: Opened) {
        self.established = Some((sealer, peer, opened));
        self.events.push_back(Event::Established);
    }
}

impl Handshake {
    /// Creates the connecting side; `server` is the kind of the daemon that should listen there. `auth`
    /// serves this handshake only.
    pub fn client(local: Local, server: EntityType, auth: Box<dyn ClientAuth>) -> Self {
        let mut wire = Wire::new();
        let client = Client::new(local, server, auth, &mut wire);
        Self { wire, role: Role::Client(client), limits: local.limits }
    }

    /// Creates the accepting side. `auth` serves this handshake only.
    pub fn server(local: Local, offer: Offer, auth: Box<dyn ServerAuth>) -> Self {
        let mut wire = Wire::new();
        let server = Server::new(local, offer, auth, &mut wire);
        Self { wire, role: Role::Server(server), limits: local.limits }
    }

    /// The buffer to append received bytes to, with room for a read.
    pub fn spare(&mut self) -> &mut BytesMut {
        self.wire.opener.spare()
    }

    /// Processes the received bytes as far as possible without a command.
    ///
    /// # Errors
    /// Any error; the handshake is over then.
    pub fn receive(&mut self) -> Result<(), ProtoError> {
        match &mut self.role {
            Role::Client(client) => client.run(&mut self.wire),
            Role::Server(server) => server.run(&mut self.wire),
        }
    }

    /// Returns the next bytes to write.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        (!self.wire.out.is_empty()).then(|| self.wire.out.take())
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.wire.events.pop_front()
    }

    /// Ends the handshake, after [`Event::Established`]. `Err` returns the handshake if it is not complete
    /// yet.
    #[expect(clippy::result_large_err, reason = "the error is the caller's own value")]
    pub fn into_established(mut self) -> Result<Established, Self> {
        let Some((sealer, peer, opened)) = self.wire.established.take() else {
            return Err(self);
        };
        let Wire { mut opener, out, sent, received, .. } = self.wire;
        opener.establish(self.limits);
        let (sealer, opener) = (sealer.into(), opener.into());
        Ok(Established { sealer, opener, out, peer, session: Session::V1(opened), sent, received })
    }

    /// Client: opens or resumes a session.
    ///
    /// # Errors
    /// [`Misuse::State`], and those of [`receive`](Self::receive). The same holds for all commands.
    pub fn connect(&mut self, connect: Connect) -> Result<(), ProtoError> {
        let possible = match &mut self.role {
            Role::Client(client) => client.connect(connect, &mut self.wire)?,
            Role::Server(_) => false,
        };
        self.proceed("connect", possible)
    }

    /// Server: opens or resumes the session that the client requested.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub fn accept(&mut self, accept: Accept) -> Result<(), ProtoError> {
        let possible = match &mut self.role {
            Role::Server(server) => server.accept(&accept, &mut self.wire)?,
            Role::Client(_) => false,
        };
        self.proceed("accept", possible)
    }

    /// Server: refuses because the client lacks `features`.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub fn missing_features(&mut self, features: u64) -> Result<(), ProtoError> {
        self.refuse("missing_features", server::Refusal::Features(features))
    }

    /// Server: refuses because a newer connection of the session is known, the `connect_seq`-th.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub fn retry(&mut self, connect_seq: u64) -> Result<(), ProtoError> {
        self.refuse("retry", server::Refusal::Retry(connect_seq))
    }

    /// Server: refuses because a newer connection of the client is known, its `global_seq`-th.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub fn retry_global(&mut self, global_seq: u64) -> Result<(), ProtoError> {
        self.refuse("retry_global", server::Refusal::RetryGlobal(global_seq))
    }

    /// Server: refuses to resume because the session is unknown.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub fn reset(&mut self) -> Result<(), ProtoError> {
        self.refuse("reset", server::Refusal::Reset)
    }

    /// Server: refuses because this side is connecting to the client and that connection wins.
    ///
    /// # Errors
    /// See [`connect`](Self::connect).
    pub fn wait(&mut self) -> Result<(), ProtoError> {
        self.refuse("wait", server::Refusal::Wait)
    }

    fn refuse(&mut self, name: &'static str, refusal: server::Refusal) -> Result<(), ProtoError> {
        let possible = match &mut self.role {
            Role::Server(server) => server.refuse(refusal, &mut self.wire),
            Role::Client(_) => false,
        };
        self.proceed(name, possible)
    }

    fn proceed(&mut self, name: &'static str, possible: bool) -> Result<(), ProtoError> {
        if !possible {
            return Err(Misuse::State(name).into());
        }
        self.receive()
    }
}

impl fmt::Debug for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (role, state) = match &self.role {
            Role::Client(client) => ("client", client.state_name()),
            Role::Server(server) => ("server", server.state_name()),
        };
        write!(f, "v1::Handshake({role}, {state})")
    }
}

/// A count that the protocol has in 32 bits.
fn count_u32(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Decodes an address in the form of version 1.
fn legacy_addr(bytes: &[u8]) -> Result<EntityAddr, ProtoError> {
    EntityAddr::from_bytes(bytes).map_err(wire::part("an address"))
}

/// Checks the banner as far as it has been received.
fn check_banner(start: &[u8]) -> Result<(), Unsupported> {
    let n = start.len().min(wire::BANNER.len());
    if start[..n] == wire::BANNER[..n] {
        return Ok(());
    }
    let mut seen = [0; 8];
    let n = n.min(seen.len());
    seen[..n].copy_from_slice(&start[..n]);
    Err(Unsupported::OldBanner(seen))
}
