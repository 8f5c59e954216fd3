//! Errors of sends and connections.

use std::fmt;
use std::io;
use std::time::Duration;

use loligo_cephx::handshake::AuthError;
use loligo_msgr_proto::ProtoError;
use loligo_wire::message::Msg;
use loligo_wire::{DecodeError, EntityName};

use crate::Level;

/// Messages were dropped: the connection is closed or its queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection is closed or its queue is full")
    }
}

impl std::error::Error for Dropped {}

/// Why a connection was lost, refused or closed.
#[derive(Debug)]
pub enum Error {
    /// The socket failed, or the peer closed it ([`io::ErrorKind::UnexpectedEof`]).
    Io(io::Error),
    /// Authentication failed, on either side.
    Auth(AuthError),
    /// The peer does not speak the protocol, or violates it.
    Proto(ProtoError),
    /// A message whose body cannot be read ([`Connection::refuse`](crate::Connection::refuse)).
    Malformed {
        /// The type that the message's header names.
        kind: u16,
        /// The decoding error.
        source: DecodeError,
    },
    /// The peer lacks features that the local policy requires, or this side lacks features that the peer
    /// requires.
    MissingFeatures {
        /// The missing bits.
        bits: u64,
    },
    /// Another process listens at the peer's address.
    WrongPeer {
        /// The expected nonce.
        expected_nonce: u32,
        /// The nonce that the process at the address has.
        nonce: u32,
    },
    /// The handshake was ended in favour of newer ones: too many are in progress.
    Crowded,
    /// The limit of sessions is reached, for this user or in total.
    TooManySessions {
        /// The user; `None` without authentication.
        user: Option<EntityName>,
        /// The number of the user's sessions.
        own: usize,
        /// The number of all sessions.
        all: usize,
    },
    /// The peer stopped sending in the middle of a message while other connections waited for its
    /// memory.
    Unfinished,
    /// The peer does not read, and its out-queue has reached the bound.
    Unread,
    /// The handshake took too long.
    HandshakeTimeout(Duration),
    /// The peer left keepalives unanswered.
    KeepaliveTimeout(Duration),
    /// The peer is connecting to this side at the same time, and its connection wins.
    Wait,
    /// A newer session of the same peer has replaced the connection.
    Replaced,
    /// The messenger was shut down, or the connection was marked down.
    Closed,
}

impl Error {
    /// The log level: misbehaviour of a peer is always worth a line, a lost socket is not.
    pub(crate) fn level(&self) -> Level {
        match self {
            Self::Auth(_) | Self::Proto(_) | Self::Malformed { .. } | Self::TooManySessions { .. } => {
                Level::Error
            }
            _ => Level::Info,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(e) => write!(f, "{e}"),
            Self::Auth(e) => write!(f, "{e}"),
            Self::Proto(e) => write!(f, "{e}"),
            Self::Malformed { kind, source } => {
                write!(f, "misbehaving peer: a message of kind {kind}: {source}")
            }
            Self::MissingFeatures { bits } => {
                write!(f, "required features are missing: {}", loligo_wire::features::names(*bits))
            }
            Self::WrongPeer { expected_nonce, nonce } => {
                write!(f, "another process answers: nonce {nonce}, expected {expected_nonce}")
            }
            Self::Crowded => f.write_str("the handshake ended for newer ones: too many are under way"),
            Self::TooManySessions { user, own, all } => {
                let user =
                    user.as_ref().map_or_else(|| "a user without a name".to_owned(), ToString::to_string);
                write!(
                    f,
                    "too many sessions: {user} has {own}, all users have {all}; close some, or raise the limit of open files"
                )
            }
            Self::Unfinished => f.write_str("a message did not go on while others waited for its memory"),
            Self::Unread => f.write_str("the peer does not read its answers, and as many wait as may"),
            Self::HandshakeTimeout(after) => write!(f, "no handshake within {} ms", after.as_millis()),
            Self::KeepaliveTimeout(after) => write!(f, "no sign of life for {} ms", after.as_millis()),
            Self::Wait => f.write_str("the peer is connecting to us itself"),
            Self::Replaced => f.write_str("replaced by a newer session"),
            Self::Closed => f.write_str("closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            Self::Auth(e) => Some(e),
            Self::Proto(e) => Some(e),
            Self::Malformed { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<ProtoError> for Error {
    fn from(e: ProtoError) -> Self {
        match e {
            ProtoError::Auth(e) => Self::Auth(e),
            e => Self::Proto(e),
        }
    }
}

/// Why a message was not accepted for sending.
#[derive(Debug)]
pub enum SendError {
    /// The connection is closed; the message was dropped.
    Closed,
    /// The out-queue is full. Contains the message; [`Connection::ready`](crate::Connection::ready)
    /// waits until there is room.
    Full(Box<Msg>),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection is closed"),
            Self::Full(_) => f.write_str("the connection's out-queue is full"),
        }
    }
}

impl std::error::Error for SendError {}
