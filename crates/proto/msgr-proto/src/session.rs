//! What the peers tell each other to open or resume a session, and what the handshake ends in.

use loligo_cephx::handshake::{ConMode, Identity};
use loligo_wire::{
    Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, EntityType, GlobalId, Reader, Writer,
};

use crate::{Opener, OutBuf, Sealer};

/// Set in an ident's flags by the side that gives up a session together with its connection
/// (`CEPH_MSG_CONNECT_LOSSY`).
pub const FLAG_LOSSY: u64 = 1;

/// A client opens a session (CLIENT_IDENT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientIdent {
    /// The client's addresses. Must not be empty: stock servers refuse that.
    pub addrs: EntityAddrVec,
    /// The address that the client thinks it talks to. A stock server closes the connection if it is not one
    /// of its own, nonce included.
    pub target_addr: EntityAddr,
    /// The number in the client's name: a client's global id, an OSD's number; −1 is "none yet".
    pub gid: i64,
    /// Counts the client's connections; the highest wins.
    pub global_seq: u64,
    /// Features that the client has (`CEPH_FEATURE_*`).
    pub supported_features: u64,
    /// Features that it requires of the server.
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

/// A server accepts a session (SERVER_IDENT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerIdent {
    /// The server's addresses. A stock client closes the connection if the one it connected to is not among
    /// them.
    pub addrs: EntityAddrVec,
    /// The number in the server's name: an OSD's number, a monitor's rank.
    pub gid: i64,
    /// The server's own count of connections.
    pub global_seq: u64,
    /// Features that the server has.
    pub supported_features: u64,
    /// Features that it requires of the client.
    pub required_features: u64,
    /// [`FLAG_LOSSY`]: what both sides do from now on.
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

/// A client resumes a lossless session (SESSION_RECONNECT).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconnect {
    /// The client's addresses: with the cookies they say which session.
    pub addrs: EntityAddrVec,
    /// The client's cookie of that session.
    pub client_cookie: u64,
    /// The server's cookie of that session.
    pub server_cookie: u64,
    /// Counts the client's connections; a server that knows a higher one answers [`Event::RetryGlobal`].
    ///
    /// [`Event::RetryGlobal`]: crate::Event::RetryGlobal
    pub global_seq: u64,
    /// Counts the session's connections; a server that knows a higher one answers [`Event::Retry`].
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

/// How the session came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// A new one.
    Opened {
        /// What the client said.
        client: ClientIdent,
        /// What the server answered.
        server: ServerIdent,
    },
    /// One that goes on.
    Resumed {
        /// What the client asked for; on the server's side `msg_seq` is what the peer has received.
        request: Reconnect,
        /// The newest message that the server has received.
        server_in_seq: u64,
    },
}

/// What is known of the peer at the end of the handshake, besides what it said in the session's idents.
#[derive(Clone, Debug)]
pub struct PeerInfo {
    /// What kind of program it is.
    pub kind: EntityType,
    /// On a server: who the client is, and what it may do. `None` on a client.
    pub identity: Option<Identity>,
    /// The client's global id, as the authentication gave it (on both sides).
    pub global_id: GlobalId,
    /// Our address as the peer sees it.
    pub our_addr: EntityAddr,
    /// How frames are protected.
    pub mode: ConMode,
}

/// A finished handshake: two halves without shared state, one for the task that writes and one for the task
/// that reads.
#[derive(Debug)]
pub struct Established {
    /// Makes the frames that we send.
    pub sealer: Sealer,
    /// Reads the frames that we receive. It may hold whole frames already: call [`Opener::next`] before
    /// reading the socket.
    pub opener: Opener,
    /// The end of the handshake that [`Handshake::poll_transmit`] has not given out. Goes before anything
    /// that the sealer makes, so seal into it.
    ///
    /// [`Handshake::poll_transmit`]: crate::Handshake::poll_transmit
    pub out: OutBuf,
    /// Who the peer is.
    pub peer: PeerInfo,
    /// How the session came about.
    pub session: Session,
}
