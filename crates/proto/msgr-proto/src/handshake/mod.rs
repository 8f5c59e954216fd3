//! From the first byte to an open session.

mod client;
mod server;
mod wire;

use std::fmt;

use bytes::{Bytes, BytesMut};
use loligo_cephx::handshake::{ClientAuth, ConMode, Identity, ServerAuth};
use loligo_wire::{EntityAddr, EntityType, GlobalId};

use self::client::Client;
use self::server::Server;
use self::wire::Wire;
use crate::{ClientIdent, Compression, Established, Limits, Misuse, ProtoError, Reconnect, ServerIdent, Tag};

/// What a side says of itself before anything else.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// What kind of program we are.
    pub kind: EntityType,
    /// The peer's address as we see it: on a client the one it connects to, on a server the socket's other
    /// end with nonce
    /// 0. A client learns its own address from it.
    pub peer_addr: EntityAddr,
    /// Bounds for messages, once the session is open.
    pub limits: Limits,
}

/// The setting up of one connection, on the client's or the server's side. Owns no socket and no clock.
///
/// # Call order
/// 1. Make one with [`Handshake::client`] or [`Handshake::server`].
/// 2. Write all that [`poll_transmit`](Self::poll_transmit) gives.
/// 3. Take all that [`poll_event`](Self::poll_event) gives, and answer those events that want a command
///    (below). [`Event::Established`] is the last: call [`into_established`](Self::into_established).
/// 4. If 3 gave a command, go back to 2. Else read the socket into [`spare`](Self::spare), tell
///    [`receive`](Self::receive), go back to 2. On an error of `receive` or a command, still write what
///    `poll_transmit` gives, then close.
///
/// The caller bounds the time that all of it may take.
///
/// | event | side | command, one of |
/// |---|---|---|
/// | [`Authenticated`](Event::Authenticated) | client | [`identify`](Self::identify), [`reconnect`](Self::reconnect) |
/// | [`Retry`](Event::Retry), [`RetryGlobal`](Event::RetryGlobal) | client | [`reconnect`](Self::reconnect) with higher numbers |
/// | [`Reset`](Event::Reset) | client | [`identify`](Self::identify) |
/// | [`ClientIdent`](Event::ClientIdent) | server | [`accept`](Self::accept), [`wait`](Self::wait), [`missing_features`](Self::missing_features) |
/// | [`Reconnect`](Event::Reconnect) | server | [`reconnect_ok`](Self::reconnect_ok), [`retry`](Self::retry), [`retry_global`](Self::retry_global), [`reset`](Self::reset), [`wait`](Self::wait) |
///
/// A command at the wrong time is [`Misuse::State`], and changes nothing. Until the command is given, nothing
/// more is read from the buffer: a peer cannot pile up requests.
pub struct Handshake {
    wire: Wire,
    role: Role,
    limits: Limits,
}

enum Role {
    Client(Client),
    Server(Server),
}

/// What happened in a handshake.
#[derive(Clone, Debug)]
pub enum Event {
    /// The peer said hello. No command is wanted.
    Hello {
        /// What kind of program it is.
        kind: EntityType,
        /// Our address as it sees it. On a client: the address to identify with (with its own nonce, and port
        /// 0 unless it listens).
        our_addr: EntityAddr,
    },
    /// Both sides are authenticated and have each other's signature of all that was said. The client must
    /// identify itself now; on a server no command is wanted.
    Authenticated {
        /// On a server: who the client is. `None` on a client.
        identity: Option<Identity>,
        /// The client's global id.
        global_id: GlobalId,
        /// How frames are protected from now on.
        mode: ConMode,
    },
    /// Client: the server knows a newer connection of this session. Reconnect with a `connect_seq` above this
    /// one.
    Retry {
        /// The server's.
        connect_seq: u64,
    },
    /// Client: the server knows a newer connection of this client. Reconnect with a `global_seq` above this
    /// one.
    RetryGlobal {
        /// The server's.
        global_seq: u64,
    },
    /// Client: the server does not know the session. Open a new one.
    Reset {
        /// Whether all state of the session is lost: drop what is queued, tell the user. Else (the server
        /// never saw the end of the session's opening) keep the queue, and only forget the server's cookie
        /// and both counts.
        full: bool,
    },
    /// Client: the server is connecting to us, and that connection wins. Close this one and wait for the
    /// other. The handshake is over.
    Wait,
    /// Client: the server refuses us because we lack features. The handshake is over.
    MissingFeatures {
        /// Their bits.
        features: u64,
    },
    /// Server: the client wants to open a session.
    ClientIdent(ClientIdent),
    /// Server: the client wants to resume a session.
    Reconnect(Reconnect),
    /// The session is open. The last event.
    Established,
}

impl Handshake {
    /// The side that connected. `auth` serves this handshake only.
    pub fn client(local: Local, auth: Box<dyn ClientAuth>) -> Self {
        Self::new(local, Role::Client(Client::new(auth)))
    }

    /// The side that accepted. `auth` serves this handshake only.
    pub fn server(local: Local, auth: Box<dyn ServerAuth>) -> Self {
        Self::new(local, Role::Server(Server::new(auth)))
    }

    /// Compresses frames if the peer wants that too. Says so in the banner: a peer that knows of it then
    /// takes one more exchange to open a session, wanted or not. To be called before anything else.
    pub fn compressing(mut self, compression: Compression) -> Self {
        self.wire.offer(compression);
        self
    }

    fn new(local: Local, role: Role) -> Self {
        Self { wire: Wire::new(&local), role, limits: local.limits }
    }

    /// The buffer to append received bytes to, with room for a read.
    pub fn spare(&mut self) -> &mut BytesMut {
        self.wire.opener.spare()
    }

    /// Works on what was received, as far as it goes without a command.
    ///
    /// # Errors
    /// All sorts; the handshake is over then.
    pub fn receive(&mut self) -> Result<(), ProtoError> {
        match &mut self.role {
            Role::Client(client) => client.run(&mut self.wire),
            Role::Server(server) => server.run(&mut self.wire),
        }
    }

    /// The next bytes to write.
    pub fn poll_transmit(&mut self) -> Option<Bytes> {
        (!self.wire.out.is_empty()).then(|| self.wire.out.take())
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.wire.events.pop_front()
    }

    /// The end: after [`Event::Established`]. `Err` gives the handshake back if it is not there yet.
    #[expect(clippy::result_large_err, reason = "the error is the caller's own value")]
    pub fn into_established(mut self) -> Result<Established, Self> {
        let Some((peer, session)) = self.wire.established.take() else {
            return Err(self);
        };
        let Wire { sealer, mut opener, out, .. } = self.wire;
        opener.establish(self.limits);
        Ok(Established { sealer, opener, out, peer, session })
    }

    /// Client: opens a new session.
    ///
    /// # Errors
    /// [`Misuse::State`], and those of [`receive`](Self::receive). So it is with all commands.
    pub fn identify(&mut self, ident: ClientIdent) -> Result<(), ProtoError> {
        self.client_command("identify", |client, wire| client.identify(ident, wire))
    }

    /// Client: resumes a session.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn reconnect(&mut self, request: Reconnect) -> Result<(), ProtoError> {
        self.client_command("reconnect", |client, wire| client.reconnect(request, wire))
    }

    /// Server: opens the session that the client asked for.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn accept(&mut self, ident: ServerIdent) -> Result<(), ProtoError> {
        self.server_command("accept", |server, wire| server.accept(ident, wire))
    }

    /// Server: refuses the session, because the client lacks `features`. It may identify itself once more.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn missing_features(&mut self, features: u64) -> Result<(), ProtoError> {
        self.server_command("missing_features", |server, wire| {
            server.refuse_ident(Tag::IdentMissingFeatures, &features.to_le_bytes(), wire)
        })
    }

    /// Server: resumes the session. `in_seq` is the newest message received in it.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn reconnect_ok(&mut self, in_seq: u64) -> Result<(), ProtoError> {
        self.server_command("reconnect_ok", |server, wire| server.reconnect_ok(in_seq, wire))
    }

    /// Server: we know of a newer connection of that session, the `connect_seq`-th.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn retry(&mut self, connect_seq: u64) -> Result<(), ProtoError> {
        self.server_command("retry", |server, wire| {
            server.refuse_reconnect(Tag::SessionRetry, &connect_seq.to_le_bytes(), wire)
        })
    }

    /// Server: we know of a newer connection of that client, its `global_seq`-th.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn retry_global(&mut self, global_seq: u64) -> Result<(), ProtoError> {
        self.server_command("retry_global", |server, wire| {
            server.refuse_reconnect(Tag::SessionRetryGlobal, &global_seq.to_le_bytes(), wire)
        })
    }

    /// Server: we do not know that session. For `full` see [`Event::Reset`].
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn reset(&mut self, full: bool) -> Result<(), ProtoError> {
        self.server_command("reset", |server, wire| {
            server.refuse_reconnect(Tag::SessionReset, &[full.into()], wire)
        })
    }

    /// Server: we are connecting to that client ourselves, and our connection wins. It will close this one.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn wait(&mut self) -> Result<(), ProtoError> {
        self.server_command("wait", Server::wait)
    }

    fn client_command(
        &mut self,
        name: &'static str,
        command: impl FnOnce(&mut Client, &mut Wire) -> Result<bool, ProtoError>,
    ) -> Result<(), ProtoError> {
        let possible = match &mut self.role {
            Role::Client(client) => command(client, &mut self.wire)?,
            Role::Server(_) => false,
        };
        if !possible {
            return Err(Misuse::State(name).into());
        }
        self.receive()
    }

    fn server_command(
        &mut self,
        name: &'static str,
        command: impl FnOnce(&mut Server, &mut Wire) -> Result<bool, ProtoError>,
    ) -> Result<(), ProtoError> {
        let possible = match &mut self.role {
            Role::Server(server) => command(server, &mut self.wire)?,
            Role::Client(_) => false,
        };
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
        write!(f, "Handshake({role}, {state})")
    }
}
