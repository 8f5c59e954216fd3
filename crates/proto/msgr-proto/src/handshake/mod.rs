//! The handshake: from the first byte to an open session.

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
use crate::{
    ClientIdent, Compression, Established, Limits, Misuse, ProtoError, Reconnect, ServerIdent, Tag, v1,
};

/// What a side announces first.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    /// This side's entity type.
    pub kind: EntityType,
    /// The peer's address as this side sees it: on a client the address it connects to, on a server the
    /// socket's remote address with nonce 0. A client learns its own address from it.
    pub peer_addr: EntityAddr,
    /// Bounds for messages, once the session is open.
    pub limits: Limits,
}

/// The establishment of one connection, on the client's or the server's side. Owns no socket and no
/// clock.
///
/// # Call order
/// 1. Create one with [`Handshake::client`] or [`Handshake::server`].
/// 2. Write everything that [`poll_transmit`](Self::poll_transmit) returns.
/// 3. Take all events from [`poll_event`](Self::poll_event), and answer those that require a command
///    (below). [`Event::Established`] is the last one: call
///    [`into_established`](Self::into_established).
/// 4. If a command was issued in step 3, go back to step 2. Else read the socket into
///    [`spare`](Self::spare), call [`receive`](Self::receive), and go back to step 2. On an error of
///    `receive` or a command, still write what `poll_transmit` returns, then close the socket.
///
/// The caller bounds the total time.
///
/// Some events require a command. For each such event, the caller issues one of these commands:
///
/// - [`Authenticated`](Event::Authenticated) on the client: [`identify`](Self::identify) or
///   [`reconnect`](Self::reconnect)
/// - [`Retry`](Event::Retry) and [`RetryGlobal`](Event::RetryGlobal) on the client:
///   [`reconnect`](Self::reconnect) with higher numbers
/// - [`Reset`](Event::Reset) on the client: [`identify`](Self::identify)
/// - [`ClientIdent`](Event::ClientIdent) on the server: [`accept`](Self::accept), [`wait`](Self::wait)
///   or [`missing_features`](Self::missing_features)
/// - [`Reconnect`](Event::Reconnect) on the server: [`reconnect_ok`](Self::reconnect_ok),
///   [`retry`](Self::retry), [`retry_global`](Self::retry_global), [`reset`](Self::reset) or
///   [`wait`](Self::wait)
///
/// A command at the wrong time returns [`Misuse::State`] and changes nothing. Until the command is
/// issued, nothing more is read from the buffer: a peer cannot pile up requests.
pub struct Handshake {
    wire: Wire,
    role: Role,
    limits: Limits,
}

enum Role {
    Client(Client),
    Server(Server),
}

/// An event of a handshake.
#[derive(Clone, Debug)]
pub enum Event {
    /// The peer has sent its HELLO. No command is required.
    Hello {
        /// The peer's entity type.
        kind: EntityType,
        /// This side's address as the peer sees it. On a client: the address to identify with (with its
        /// own nonce, and port 0 unless it listens).
        our_addr: EntityAddr,
    },
    /// Both sides are authenticated and have verified each other's signature of the handshake. The
    /// client must identify itself now; on a server no command is required.
    Authenticated {
        /// On a server: the client's identity. `None` on a client.
        identity: Option<Identity>,
        /// The client's global id.
        global_id: GlobalId,
        /// The protection of frames from now on.
        mode: ConMode,
    },
    /// Client: the server knows a newer connection of this session. Reconnect with a higher
    /// `connect_seq` than this one.
    Retry {
        /// The server's count.
        connect_seq: u64,
    },
    /// Client: the server knows a newer connection of this client. Reconnect with a higher `global_seq`
    /// than this one.
    RetryGlobal {
        /// The server's count.
        global_seq: u64,
    },
    /// Client: the server does not know the session. Open a new one.
    Reset {
        /// Whether all state of the session is lost: then drop the queue and report the loss. Else (the
        /// server never saw the end of the session's opening) keep the queue, and only forget the
        /// server's cookie and both counts.
        full: bool,
    },
    /// Client: the server is connecting to this side, and that connection wins. Close this one and wait
    /// for the other. The handshake is over.
    Wait,
    /// Client: the server refuses the session because this side lacks features. The handshake is over.
    MissingFeatures {
        /// The missing bits.
        features: u64,
    },
    /// Server: the client opens a session.
    ClientIdent(ClientIdent),
    /// Server: the client resumes a session.
    Reconnect(Reconnect),
    /// Client, version 1: banners and addresses are exchanged. `connect` is required.
    Introduced {
        /// The address that the server says it has.
        addr: EntityAddr,
    },
    /// Server, version 1: the client opens or resumes a session.
    Connect(v1::Request),
    /// The session is open. This is the last event.
    Established,
}

impl Handshake {
    /// Creates the connecting side. `auth` serves this handshake only.
    pub fn client(local: Local, auth: Box<dyn ClientAuth>) -> Self {
        Self::new(local, Role::Client(Client::new(auth)))
    }

    /// Creates the accepting side. `auth` serves this handshake only.
    pub fn server(local: Local, auth: Box<dyn ServerAuth>) -> Self {
        Self::new(local, Role::Server(Server::new(auth)))
    }

    /// Compresses frames if the peer wants that too. The banner announces it, so opening a session with
    /// a peer that supports compression takes one more exchange, whether or not compression is used.
    /// Must be called before any other method.
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

    /// Ends the handshake, after [`Event::Established`]. `Err` returns the handshake if it is not
    /// complete yet.
    #[expect(clippy::result_large_err, reason = "the error is the caller's own value")]
    pub fn into_established(mut self) -> Result<Established, Self> {
        let Some((peer, session)) = self.wire.established.take() else {
            return Err(self);
        };
        let Wire { sealer, mut opener, out, .. } = self.wire;
        opener.establish(self.limits);
        Ok(Established {
            sealer: sealer.into(),
            opener: opener.into(),
            out,
            peer,
            session,
            sent: 0,
            received: 0,
        })
    }

    /// Client: opens a new session.
    ///
    /// # Errors
    /// [`Misuse::State`], and those of [`receive`](Self::receive). The same holds for all commands.
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

    /// Server: opens the session that the client requested.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn accept(&mut self, ident: ServerIdent) -> Result<(), ProtoError> {
        self.server_command("accept", |server, wire| server.accept(ident, wire))
    }

    /// Server: refuses the session because the client lacks `features`. The client may identify itself
    /// again.
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

    /// Server: refuses to resume because a newer connection of the session is known, the
    /// `connect_seq`-th.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn retry(&mut self, connect_seq: u64) -> Result<(), ProtoError> {
        self.server_command("retry", |server, wire| {
            server.refuse_reconnect(Tag::SessionRetry, &connect_seq.to_le_bytes(), wire)
        })
    }

    /// Server: refuses to resume because a newer connection of the client is known, its `global_seq`-th.
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn retry_global(&mut self, global_seq: u64) -> Result<(), ProtoError> {
        self.server_command("retry_global", |server, wire| {
            server.refuse_reconnect(Tag::SessionRetryGlobal, &global_seq.to_le_bytes(), wire)
        })
    }

    /// Server: refuses to resume because the session is unknown. For `full` see [`Event::Reset`].
    ///
    /// # Errors
    /// See [`identify`](Self::identify).
    pub fn reset(&mut self, full: bool) -> Result<(), ProtoError> {
        self.server_command("reset", |server, wire| {
            server.refuse_reconnect(Tag::SessionReset, &[full.into()], wire)
        })
    }

    /// Server: refuses because this side is connecting to the client and that connection wins. The
    /// client will close this one.
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
