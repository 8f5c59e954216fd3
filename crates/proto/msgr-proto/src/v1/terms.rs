//! What both sides of a connection tell each other before a session is open.

use loligo_wire::EntityAddr;

/// What a server announces before it knows the client.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    /// The server's own address.
    pub addr: EntityAddr,
    /// This side's features (`CEPH_FEATURE_*`).
    pub features: u64,
    /// This side's number among those of its kind.
    pub num: i64,
    /// The server's own count of connections.
    pub global_seq: u64,
}

/// A client's request to open a session, or to resume it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// The client's address.
    pub addr: EntityAddr,
    /// The client's number among those of its kind; −1 if there is none yet.
    pub num: i64,
    /// Features that the client supports.
    pub features: u64,
    /// Features that the client requires of the server.
    pub required_features: u64,
    /// Counts the client's connections; the highest wins.
    pub global_seq: u64,
    /// Counts the connections of the session; 0: a new session.
    pub connect_seq: u64,
    /// Whether the client wants the session to end with its connection; the server decides.
    pub lossy: bool,
    /// The newest message received in the session.
    pub in_seq: u64,
}

/// A client's request, as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The address that the client says it has.
    pub addr: EntityAddr,
    /// The client's features.
    pub features: u64,
    /// See [`Connect::global_seq`].
    pub global_seq: u64,
    /// See [`Connect::connect_seq`].
    pub connect_seq: u64,
    /// See [`Connect::lossy`].
    pub lossy: bool,
}

/// A server's answer that opens or resumes a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accept {
    /// Whether the session ends with its connection.
    pub lossy: bool,
    /// The newest message received in the session.
    pub in_seq: u64,
    /// The peer has begun anew: the two sides do not tell each other what they have received.
    pub fresh: bool,
}

/// An open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The peer's features.
    pub features: u64,
    /// Whether the session ends with its connection.
    pub lossy: bool,
    /// The peer's count of connections.
    pub global_seq: u64,
    /// The number of this connection in the session, from 1.
    pub connect_seq: u64,
    /// The newest message that the peer has received; `None` if the peer has begun anew.
    pub peer_in_seq: Option<u64>,
}
