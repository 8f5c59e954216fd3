//! The interface between the messenger and authentication while a connection is set up.
//!
//! The messenger carries opaque payloads; a [`ClientAuth`] or [`ServerAuth`] makes and checks them. Each
//! value serves one handshake. The messages are those of `doc/dev/msgr2.rst`, "Authentication".

use bytes::Bytes;
use loligo_wire::{DecodeError, EntityName, EntityType, Errno, GlobalId};
use zeroize::Zeroizing;

/// The protection of a connection's frames (`CEPH_CON_MODE_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConMode {
    /// Checksums only.
    Crc,
    /// AES-128-GCM.
    Secure,
}

impl ConMode {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        match self {
            Self::Crc => 1,
            Self::Secure => 2,
        }
    }

    /// The mode with this number; `None` if it is unknown.
    pub fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Crc),
            2 => Some(Self::Secure),
            _ => None,
        }
    }
}

/// An authentication method (`CEPH_AUTH_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AuthMethod(pub u32);

impl AuthMethod {
    /// No authentication.
    pub const NONE: Self = Self(1);
    /// cephx.
    pub const CEPHX: Self = Self(2);
}

/// The client's first request: method, accepted modes in order of preference, and the method's payload.
#[derive(Clone, Debug)]
pub struct AuthRequest {
    /// The method.
    pub method: AuthMethod,
    /// Accepted modes, the best first.
    pub modes: Vec<ConMode>,
    /// The method's payload.
    pub payload: Bytes,
}

/// The keys that both sides share after authentication.
#[derive(Clone, Default)]
pub struct AuthKeys {
    /// Signs the handshake's transcript (HMAC-SHA-256). Empty without cephx: the signature is then all
    /// zeros.
    pub session_key: Zeroizing<Vec<u8>>,
    /// The keys and nonces of secure mode: 64 bytes in mode [`ConMode::Secure`], else empty.
    pub connection_secret: Zeroizing<Vec<u8>>,
}

/// The authenticated peer.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The name.
    pub name: EntityName,
    /// The global id that the monitors assigned.
    pub global_id: GlobalId,
    /// The peer's capabilities for the contacted service, as text: `allow rw pool=x`.
    pub caps: String,
    /// The monitor's challenge in this connection's handshake, which also authenticates renewals
    /// (MAuth); 0 on other connections.
    pub challenge: u64,
}

/// Why authentication failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The peer's payload cannot be decoded.
    #[error("authentication: {0}")]
    Decode(#[from] DecodeError),
    /// The peer refused: the errno it sent, and the methods it accepts.
    #[error("authentication refused by the peer: {}", refusal(*errno, methods))]
    Refused {
        /// The peer's errno: `EPERM`, `EACCES`, `EOPNOTSUPP`, …
        errno: Errno,
        /// The methods that the peer accepts.
        methods: Vec<u32>,
    },
    /// There is no key or ticket to authenticate with.
    #[error("cannot authenticate: {0}")]
    NoCredentials(String),
    /// The peer failed to prove that it has the key.
    #[error("authentication: the peer is not who it should be: {0}")]
    PeerUnproven(&'static str),
    /// Another monitor has authenticated this client in the meantime. If several are asked at once, the
    /// tickets of the first one count, and connections that were opened under another global id are
    /// closed.
    #[error("another monitor has let us in meanwhile")]
    Superseded,
}

impl AuthError {
    /// A field with an impossible value.
    pub(crate) fn invalid(what: &'static str, value: u64) -> Self {
        Self::Decode(DecodeError::Invalid { what, value })
    }
}

/// The client's side of one authentication.
pub trait ClientAuth: Send {
    /// Returns the first request.
    fn request(&mut self) -> Result<AuthRequest, AuthError>;

    /// The server does not accept the method or mode: returns another request, or the error to give up
    /// with.
    fn bad_method(
        &mut self,
        method: AuthMethod,
        errno: Errno,
        methods: &[u32],
        modes: &[u32],
    ) -> Result<AuthRequest, AuthError>;

    /// The server requests another round: returns the answer to its payload.
    fn more(&mut self, payload: &[u8]) -> Result<Bytes, AuthError>;

    /// The server has accepted the client.
    fn done(&mut self, global_id: GlobalId, mode: ConMode, payload: &[u8]) -> Result<AuthKeys, AuthError>;
}

/// A server's answer to a client's authentication payload.
pub enum ServerStep {
    /// Continue: AUTH_REPLY_MORE.
    More(Bytes),
    /// Accepted: AUTH_DONE.
    Done {
        /// The client.
        identity: Identity,
        /// The mode chosen from the client's offer.
        mode: ConMode,
        /// The final payload.
        payload: Bytes,
        /// The keys that both sides share now.
        keys: AuthKeys,
    },
    /// Refused: AUTH_BAD_METHOD. The connection stays open for another attempt.
    Bad {
        /// Why.
        errno: Errno,
        /// Accepted methods.
        methods: Vec<u32>,
        /// Accepted modes.
        modes: Vec<u32>,
    },
}

/// The server's side of one authentication.
pub trait ServerAuth: Send {
    /// Answers the client's first request (AUTH_REQUEST).
    fn request(&mut self, peer: EntityType, method: AuthMethod, modes: &[u32], payload: &[u8]) -> ServerStep;

    /// Returns the global id that the client will have if it proves its identity, for messengers that tell it
    /// together with the challenge; 0 if it is not known.
    fn reserve_global_id(&mut self) -> GlobalId {
        GlobalId(0)
    }

    /// Answers the client's reply to [`ServerStep::More`].
    fn more(&mut self, payload: &[u8]) -> ServerStep;
}

/// Describes a peer's refusal, and its remedy.
fn refusal(errno: Errno, methods: &[u32]) -> String {
    let accepts: Vec<String> = methods
        .iter()
        .map(|method| match method {
            1 => "none".to_owned(),
            2 => "cephx".to_owned(),
            other => format!("method {other}"),
        })
        .collect();
    let accepts = if accepts.is_empty() { "nothing".to_owned() } else { accepts.join(" and ") };
    match (errno, methods) {
        (Errno::EOPNOTSUPP, [2]) => format!(
            "it accepts cephx alone, which this client did not offer; name a keyring with --keyring FILE or \
             'keyring' in ceph.conf, and let 'auth client required' hold cephx ({errno})"
        ),
        (Errno::EOPNOTSUPP, _) => {
            format!("it accepts {accepts}; set 'auth client required' to that ({errno})")
        }
        (Errno::EPERM | Errno::EACCES, _) => format!(
            "it does not know this name, or has another key for it; compare the keyring with what \
             'ceph auth get NAME' shows, or name another user with --id ({errno})"
        ),
        _ => errno.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::Errno;

    use super::AuthError;

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        for (errno, methods, words) in [
            (Errno::EOPNOTSUPP, vec![2], ["accepts cephx alone", "--keyring FILE"]),
            (Errno::EOPNOTSUPP, vec![1], ["accepts none", "auth client required"]),
            (Errno::EACCES, vec![2], ["another key for it", "--id"]),
            (Errno::EPERM, vec![], ["does not know this name", "ceph auth get"]),
            (Errno::EIO, vec![], ["Input/output error", "EIO"]),
        ] {
            let text = AuthError::Refused { errno, methods }.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}
