//! Frame tags.

/// The type of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tag {
    /// Entity type and address, in both directions.
    Hello = 1,
    /// Client: begins the authentication.
    AuthRequest,
    /// Server: asks for another method or mode.
    AuthBadMethod,
    /// Server: continues the authentication.
    AuthReplyMore,
    /// Client: continues the authentication.
    AuthRequestMore,
    /// Server: authenticated.
    AuthDone,
    /// Both: the signature of the handshake up to this point.
    AuthSignature,
    /// Client: opens a session.
    ClientIdent,
    /// Server: accepts the session.
    ServerIdent,
    /// Server: refuses the session because features are missing.
    IdentMissingFeatures,
    /// Client: resumes a session.
    SessionReconnect,
    /// Server: the session is unknown.
    SessionReset,
    /// Server: the session's connection count is out of date.
    SessionRetry,
    /// Server: the client's global connection count is out of date.
    SessionRetryGlobal,
    /// Server: the session is resumed.
    SessionReconnectOk,
    /// Server: wait for the connection that the server is opening.
    Wait,
    /// A message.
    Message,
    /// Asks whether the peer is alive.
    Keepalive2,
    /// Answers `Keepalive2`.
    Keepalive2Ack,
    /// Acknowledges received messages.
    Ack,
    /// Client: names the compression methods that it accepts.
    CompressionRequest,
    /// Server: chooses one of them, or none.
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

    /// Returns the tag with this number, if there is one.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        let index = usize::from(code).wrapping_sub(1);
        Self::ALL.get(index).copied()
    }
}
