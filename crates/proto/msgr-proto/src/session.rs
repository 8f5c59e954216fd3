//! The payloads that open or resume a session, and the result of the handshake.

use loligo_cephx::handshake::{ConMode, Identity};
use loligo_wire::{
    Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, EntityType, GlobalId, Reader, Writer,
};

use crate::{Opener, OutBuf, Sealer, v1};

/// Flag in an ident: the side gives the session up together with its connection
/// (`CEPH_MSG_CONNECT_LOSSY`).
pub const FLAG_LOSSY: u64 = 1;

/// Opens a session; sent by the client (CLIENT_IDENT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdent {
    /// The client's addresses. Must not be empty: stock servers refuse that.
    pub addrs: EntityAddrVec,
    /// The address that the client assumes to be the server's. A stock server closes the connection if
    /// it is not one of its own, nonce included.
    pub target_addr: EntityAddr,
    /// The number in the client's name: a client's global id, an OSD's number; −1 if there is none yet.
    pub gid: i64,
    /// Counts the client's connections; the highest wins.
    pub global_seq: u64,
    /// Features that the client supports (`CEPH_FEATURE_*`).
    pub supported_features: u64,
    /// Features that the client requires of the server.
    pub required_features: u64,
    /// [`FLAG_LOSSY`].
    pub flags: u64,
    /// The client's random number for a lossless session; 0 for a lossy one.
    pub cookie: u64,
}

impl Encode for ClientIdent {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.addrs);
        w.put(&self.target_addr);
        w.i64(self.gid);
        w.u64(self.global_seq);
        w.u64(self.supported_features);
        w.u64(self.required_features);
        w.u64(self.flags);
        w.u64(self.cookie);
    }
}

impl Decode for ClientIdent {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            addrs: r.get()?,
            target_addr: r.get()?,
            gid: r.i64()?,
            global_seq: r.u64()?,
            supported_features: r.u64()?,
            required_features: r.u64()?,
            flags: r.u64()?,
            cookie: r.u64()?,
        })
    }
}

/// Accepts a session; sent by the server (SERVER_IDENT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdent {
    /// The server's addresses. A stock client closes the connection if the address it connected to is
    /// not among them.
    pub addrs: EntityAddrVec,
    /// The number in the server's name: an OSD's number, a monitor's rank.
    pub gid: i64,
    /// The server's own count of connections.
    pub global_seq: u64,
    /// Features that the server supports.
    pub supported_features: u64,
    /// Features that the server requires of the client.
    pub required_features: u64,
    /// [`FLAG_LOSSY`]: decides for both sides.
    pub flags: u64,
    /// The server's random number for a lossless session; 0 for a lossy one.
    pub cookie: u64,
}

impl Encode for ServerIdent {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.addrs);
        w.i64(self.gid);
        w.u64(self.global_seq);
        w.u64(self.supported_features);
        w.u64(self.required_features);
        w.u64(self.flags);
        w.u64(self.cookie);
    }
}

impl Decode for ServerIdent {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            addrs: r.get()?,
            gid: r.i64()?,
            global_seq: r.u64()?,
            supported_features: r.u64()?,
            required_features: r.u64()?,
            flags: r.u64()?,
            cookie: r.u64()?,
        })
    }
}

/// Resumes a lossless session; sent by the client (SESSION_RECONNECT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconnect {
    /// The client's addresses; together with the cookies they identify the session.
    pub addrs: EntityAddrVec,
    /// The client's cookie of that session.
    pub client_cookie: u64,
    /// The server's cookie of that session.
    pub server_cookie: u64,
    /// Counts the client's connections; a server that knows a higher count answers
    /// [`Event::RetryGlobal`].
    ///
    /// [`Event::RetryGlobal`]: crate::Event::RetryGlobal
    pub global_seq: u64,
    /// Counts the session's connections; a server that knows a higher count answers [`Event::Retry`].
    ///
    /// [`Event::Retry`]: crate::Event::Retry
    pub connect_seq: u64,
    /// The newest message that the client has received in the session.
    pub msg_seq: u64,
}

impl Encode for Reconnect {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.addrs);
        w.u64(self.client_cookie);
        w.u64(self.server_cookie);
        w.u64(self.global_seq);
        w.u64(self.connect_seq);
        w.u64(self.msg_seq);
    }
}

impl Decode for Reconnect {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            addrs: r.get()?,
            client_cookie: r.u64()?,
            server_cookie: r.u64()?,
            global_seq: r.u64()?,
            connect_seq: r.u64()?,
            msg_seq: r.u64()?,
        })
    }
}

/// How the session was established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// A new session.
    Opened {
        /// The client's ident.
        client: ClientIdent,
        /// The server's ident.
        server: ServerIdent,
    },
    /// A resumed session.
    Resumed {
        /// The client's request; on the server's side `msg_seq` is the newest message that the peer has
        /// received.
        request: Reconnect,
        /// The newest message that the server has received.
        server_in_seq: u64,
    },
    /// A session of the messenger of version 1.
    V1(v1::Opened),
}

/// Facts about the peer that are known at the end of the handshake, in addition to the idents.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// The peer's entity type.
    pub kind: EntityType,
    /// On a server: the client's identity and capabilities. `None` on a client.
    pub identity: Option<Identity>,
    /// The client's global id, assigned by the authentication (on both sides). 0 on a client of version 1,
    /// unless the peer is a monitor: other servers do not mention it.
    pub global_id: GlobalId,
    /// This side's address as the peer sees it.
    pub our_addr: EntityAddr,
    /// The protection of frames. Version 1 has no encryption.
    pub mode: ConMode,
}

/// The result of a handshake: two halves without shared state, one for the writing task and one for the
/// reading task.
#[derive(Debug)]
pub struct Established {
    /// Makes outgoing frames.
    pub sealer: Sealer,
    /// Opens incoming frames. It may already hold complete frames: call [`Opener::next`] before reading
    /// the socket.
    pub opener: Opener,
    /// The end of the handshake that [`Handshake::poll_transmit`] has not returned. It must be sent
    /// before any frame of the sealer, so seal frames into it.
    ///
    /// [`Handshake::poll_transmit`]: crate::Handshake::poll_transmit
    pub out: OutBuf,
    /// The peer.
    pub peer: PeerInfo,
    /// How the session was established.
    pub session: Session,
    /// Messages of the session that the handshake has sent and received: those by which a client of version
    /// 1 authenticates to a monitor. Later messages are numbered from here.
    pub sent: u64,
    /// See `sent`.
    pub received: u64,
}
