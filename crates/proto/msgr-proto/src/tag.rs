//! What a frame is.

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tag {
    /// Kind and addresses, both ways.
    Hello = 1,
    /// Client: opens the authentication.
    AuthRequest,
    /// Server: another method or mode, please.
    AuthBadMethod,
    /// Server: go on.
    AuthReplyMore,
    /// Client: goes on.
    AuthRequestMore,
    /// Server: authenticated.
    AuthDone,
    /// Both: the signature of the handshake so far.
    AuthSignature,
    /// Client: opens a session.
    ClientIdent,
    /// Server: accepts it.
    ServerIdent,
    /// Server: refuses it, features are missing.
    IdentMissingFeatures,
    /// Client: resumes a session.
    SessionReconnect,
    /// Server: that session is gone.
    SessionReset,
    /// Server: stale connection count.
    SessionRetry,
    /// Server: stale global count.
    SessionRetryGlobal,
    /// Server: resumed.
    SessionReconnectOk,
    /// Server: wait for my own connection to you.
    Wait,
    /// A message.
    Message,
    /// Are you there?
    Keepalive2,
    /// I am.
    Keepalive2Ack,
    /// Messages received.
    Ack,
    /// Client: which ways to compress it would take.
    CompressionRequest,
    /// Server: the one to take, or none.
    CompressionDone,
}

impl Tag {
    pub(crate) const ALL: [Self; 22] = [
        Self::Hello,
        Self::AuthRequest,
        Self::AuthBadMethod,
        Self::AuthReplyMore,
        Self::AuthRequestMore,
        Self::AuthDone,
        Self::AuthSignature,
        Self::ClientIdent,
        Self::ServerIdent,
        Self::IdentMissingFeatures,
        Self::SessionReconnect,
        Self::SessionReset,
        Self::SessionRetry,
        Self::SessionRetryGlobal,
        Self::SessionReconnectOk,
        Self::Wait,
        Self::Message,
        Self::Keepalive2,
        Self::Keepalive2Ack,
        Self::Ack,
        Self::CompressionRequest,
        Self::CompressionDone,
    ];

    /// The tag of this number, if there is one.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        let index = usize::from(code).wrapping_sub(1);
        Self::ALL.get(index).copied()
    }
}
