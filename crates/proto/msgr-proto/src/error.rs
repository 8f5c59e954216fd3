//! Errors of a session.

use loligo_cephx::handshake::AuthError;
use loligo_wire::DecodeError;
use thiserror::Error;

use crate::{Method, Tag};

/// Why a connection failed. The socket must be closed: neither half is usable any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtoError {
    /// The peer uses or requires something that is not supported here.
    #[error("unsupported peer: {0}")]
    Unsupported(#[from] Unsupported),
    /// The peer violates the protocol, or the bytes were damaged in transit.
    #[error("misbehaving peer: {0}")]
    Misbehaving(#[from] Misbehaviour),
    /// The caller violated the call order or a documented bound.
    #[error("misused: {0}")]
    Misuse(#[from] Misuse),
    /// Secure mode failed.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// Authentication failed.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// A valid demand of the peer that this crate does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// The first bytes are not msgr2's banner: the peer is the old messenger (whose banner starts with
    /// `ceph v027`) or not Ceph at all.
    #[error("it does not speak msgr2, {}", other_banner(.0))]
    Banner([u8; 8]),
    /// The first bytes are not the banner of version 1: the peer is msgr2 or not Ceph at all.
    #[error("it does not speak the messenger of version 1, {}", other_banner(.0))]
    OldBanner([u8; 8]),
    /// The server speaks another version of the protocol between clients and daemons of its kind.
    #[error("it wants version {theirs} of its protocol, not {ours}")]
    Protocol {
        /// The server's version.
        theirs: u32,
        /// The version for the kind of daemon that the server should be.
        ours: u32,
    },
    /// The session key is of an unknown type, and the peer wants messages signed with it.
    #[error("it wants messages signed with a key of an unknown type; use msgr2 (v2:) addresses")]
    SigningKey,
    /// The peer does not support msgr2.1, as every release from 15.2.2 on does.
    #[error("it does not speak msgr2.1 (its msgr2 features are {supported:#x})")]
    Revision {
        /// The peer's msgr2 feature bits.
        supported: u64,
    },
    /// The peer requires msgr2 features that are not supported here.
    #[error("it requires the msgr2 features {missing:#x}")]
    Required {
        /// The missing bits.
        missing: u64,
    },
    /// The server's ident lacks features that the client requires.
    #[error("it lacks the features {missing:#x}")]
    Features {
        /// The missing bits.
        missing: u64,
    },
    /// The peer chose a compression method that is unknown or was not offered.
    #[error("it chose the compression method {0}")]
    Method(u32),
    /// The peer chose a connection mode that is unknown or was not offered.
    #[error("it chose the connection mode {0}")]
    Mode(u32),
}

/// Describes the first bytes of a peer that speaks another protocol.
fn other_banner(first: &[u8; 8]) -> String {
    match first {
        b"ceph v02" => "but the one before it (v1): give its address as v1:HOST:PORT".to_owned(),
        b"ceph v2\n" => "but msgr2 (v2): give its address as v2:HOST:PORT".to_owned(),
        other => format!("its first bytes are {other:02x?}"),
    }
}

/// A violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misbehaviour {
    /// The payload of a frame cannot be decoded.
    #[error("{tag:?} frame: {source}")]
    Payload {
        /// The frame's tag.
        tag: Tag,
        /// The decoding error.
        source: DecodeError,
    },
    /// The length of the banner's payload is out of bounds.
    #[error("a banner with a payload of {0} bytes")]
    BannerLen(u16),
    /// A checksum does not match.
    #[error("the checksum of {what} is {actual:#010x}, expected {expected:#010x}")]
    Crc {
        /// The part of the frame.
        what: &'static str,
        /// The checksum in the frame.
        expected: u32,
        /// The checksum of the received bytes.
        actual: u32,
    },
    /// The frame's tag is unknown.
    #[error("unknown frame tag {0}")]
    UnknownTag(u8),
    /// The frame is not allowed in this state of the connection.
    #[error("unexpected {0:?} frame")]
    Unexpected(Tag),
    /// The number of segments is not 1 to 4, or exceeds what the frame may have.
    #[error("a {tag:?} frame of {segments} segments")]
    Segments {
        /// The frame's tag.
        tag: Tag,
        /// The number of segments in the preamble.
        segments: u8,
    },
    /// The last of several segments is empty: senders leave out empty segments at the end.
    #[error("a {0:?} frame whose last segment is empty")]
    LastSegmentEmpty(Tag),
    /// A segment's alignment is not a power of two.
    #[error("a segment aligned to {0}")]
    Alignment(u16),
    /// The segment is longer than this peer may send in this state.
    #[error("segment {index} of a {tag:?} frame has {len} bytes, at most {max} are accepted")]
    TooLong {
        /// The frame's tag.
        tag: Tag,
        /// The segment's index, from 0.
        index: u8,
        /// The segment's length.
        len: u32,
        /// The bound.
        max: u32,
    },
    /// The compressed segment cannot be decompressed to at most `max` bytes.
    #[error("a segment of {len} bytes is no {method:?} of at most {max}")]
    Compressed {
        /// The compression method.
        method: Method,
        /// The segment's compressed length.
        len: usize,
        /// The bound.
        max: usize,
    },
    /// Flags that were not negotiated (such as compression).
    #[error("frame flags {0:#04x}")]
    Flags(u8),
    /// The late status says neither "complete" nor "aborted".
    #[error("late status {0:#04x}")]
    LateStatus(u8),
    /// The first segment of a message frame does not have the length of a message header.
    #[error("a message header of {0} bytes")]
    HeaderLen(u32),
    /// The peer opens or resumes a session without an address of its own.
    #[error("a {0:?} frame without an address")]
    NoAddress(Tag),
    /// The peer's signature does not match the bytes sent and received: an attacker sits in between, or
    /// the peer has another key.
    #[error("its signature of the handshake is wrong")]
    Signature,
    /// A part of a version 1 handshake or message cannot be decoded.
    #[error("{what}: {source}")]
    Part {
        /// The part.
        what: &'static str,
        /// The decoding error.
        source: DecodeError,
    },
    /// A part of a version 1 handshake or message is longer than accepted.
    #[error("{what} of {len} bytes, at most {max} are accepted")]
    PartTooLong {
        /// The part.
        what: &'static str,
        /// The length that the peer claims.
        len: u32,
        /// The bound.
        max: u32,
    },
    /// The byte in front of a version 1 message or answer is unknown, or not allowed at this place.
    #[error("tag {0} of version 1 at a wrong place")]
    OldTag(u8),
    /// The sender of a version 1 message did not complete it.
    #[error("message {seq} ends with the flags {flags:#04x}: its sender has not completed it")]
    NotComplete {
        /// The message's sequence number.
        seq: u64,
        /// The footer's flags.
        flags: u8,
    },
    /// The signature of a version 1 message is wrong.
    #[error("the signature of message {seq} is wrong")]
    MessageSignature {
        /// The message's sequence number.
        seq: u64,
    },
    /// The peer prolongs the authentication beyond the bound.
    #[error("the authentication takes more than {max} bytes")]
    HandshakeTooLong {
        /// The bound.
        max: usize,
    },
}

/// A misuse by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misuse {
    /// The command does not fit the handshake's state, for example `accept` before a client has
    /// identified itself.
    #[error("{0} is not possible in this state")]
    State(&'static str),
    /// The segment is too long for its frame.
    #[error("a segment of {len} bytes, at most {max} can be sent")]
    TooLong {
        /// The segment's length in bytes.
        len: u64,
        /// The bound.
        max: u64,
    },
}

/// Why secure mode failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CryptoError {
    /// The bytes differ from what the peer encrypted, or the peer has another key.
    #[error("a secure frame failed its authentication")]
    Tag,
    /// The connection secret is too short to derive keys from.
    #[error("the connection secret has {0} bytes, secure mode needs 40")]
    ShortSecret(usize),
    /// All 2⁶⁴ nonces are used up; a new connection is needed.
    #[error("the connection has used up its nonces")]
    NoncesExhausted,
}

/// Returns the error for a frame with tag `tag` whose payload cannot be decoded.
pub(crate) fn bad_payload(tag: Tag) -> impl Fn(DecodeError) -> ProtoError {
    move |source| Misbehaviour::Payload { tag, source }.into()
}
