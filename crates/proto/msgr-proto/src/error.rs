//! Errors of a session.

use loligo_cephx::handshake::AuthError;
use loligo_wire::DecodeError;
use thiserror::Error;

use crate::{Method, Tag};

/// Why a connection cannot go on. After one, close the socket: neither half is good for anything any more.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtoError {
    /// The peer speaks something that we do not, or asks for it.
    #[error("unsupported peer: {0}")]
    Unsupported(#[from] Unsupported),
    /// The peer breaks the protocol, or the bytes were damaged on their way.
    #[error("misbehaving peer: {0}")]
    Misbehaving(#[from] Misbehaviour),
    /// The caller broke the call order or a bound that this crate documents.
    #[error("misused: {0}")]
    Misuse(#[from] Misuse),
    /// Secure mode failed.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
    /// Authentication failed.
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// What a well-behaved peer wants and this crate has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unsupported {
    /// The first bytes are not msgr2's banner: the old messenger (whose banner starts with `ceph v027`) or no
    /// Ceph at all.
    #[error("it does not speak msgr2, its first bytes are {0:02x?}")]
    Banner([u8; 8]),
    /// It does not know msgr2.1, which every release from 15.2.2 on does. Holds what it supports.
    #[error("it does not speak msgr2.1 (its msgr2 features are {supported:#x})")]
    Revision {
        /// The peer's msgr2 feature bits.
        supported: u64,
    },
    /// It requires msgr2 features that we do not have.
    #[error("it requires the msgr2 features {missing:#x}")]
    Required {
        /// The bits.
        missing: u64,
    },
    /// The server, as it identified itself, lacks features that the client requires.
    #[error("it lacks the features {missing:#x}")]
    Features {
        /// The bits.
        missing: u64,
    },
    /// It chose a way to compress that we do not know or did not offer.
    #[error("it chose the compression method {0}")]
    Method(u32),
    /// It chose a connection mode that we do not know or did not offer.
    #[error("it chose the connection mode {0}")]
    Mode(u32),
}

/// What no well-behaved peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misbehaviour {
    /// The payload of a frame cannot be decoded.
    #[error("{tag:?} frame: {source}")]
    Payload {
        /// The frame.
        tag: Tag,
        /// What is wrong.
        source: DecodeError,
    },
    /// The banner's payload is shorter or much longer than it can be.
    #[error("a banner with a payload of {0} bytes")]
    BannerLen(u16),
    /// A checksum does not match.
    #[error("the checksum of {what} is {actual:#010x}, expected {expected:#010x}")]
    Crc {
        /// Which part of the frame.
        what: &'static str,
        /// What the frame says.
        expected: u32,
        /// What its bytes give.
        actual: u32,
    },
    /// A frame with a tag that does not exist.
    #[error("unknown frame tag {0}")]
    UnknownTag(u8),
    /// A frame that does not belong into this state of the connection.
    #[error("unexpected {0:?} frame")]
    Unexpected(Tag),
    /// A number of segments that is not 1 to 4, or more than the frame may have.
    #[error("a {tag:?} frame of {segments} segments")]
    Segments {
        /// The frame.
        tag: Tag,
        /// How many it claims.
        segments: u8,
    },
    /// The last of several segments is empty: senders leave out empty segments at the end.
    #[error("a {0:?} frame whose last segment is empty")]
    LastSegmentEmpty(Tag),
    /// A segment's alignment is not a power of two.
    #[error("a segment aligned to {0}")]
    Alignment(u16),
    /// A segment longer than we accept from this peer at this point.
    #[error("segment {index} of a {tag:?} frame has {len} bytes, at most {max} are accepted")]
    TooLong {
        /// The frame.
        tag: Tag,
        /// Which segment, from 0.
        index: u8,
        /// Its length.
        len: u32,
        /// The bound.
        max: u32,
    },
    /// A compressed segment that cannot be decompressed to at most `max` bytes.
    #[error("a segment of {len} bytes is no {method:?} of at most {max}")]
    Compressed {
        /// How it should be compressed.
        method: Method,
        /// Its length.
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
    /// A message frame whose first segment is not a message header.
    #[error("a message header of {0} bytes")]
    HeaderLen(u32),
    /// It opens or resumes a session without saying an address of its own.
    #[error("a {0:?} frame without an address")]
    NoAddress(Tag),
    /// Its signature does not match what was sent and received: someone sits in between, or it has another
    /// key.
    #[error("its signature of the handshake is wrong")]
    Signature,
    /// It keeps the authentication going without end.
    #[error("the authentication takes more than {max} bytes")]
    HandshakeTooLong {
        /// The bound.
        max: usize,
    },
}

/// What the caller did wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Misuse {
    /// A command that does not fit the handshake's state, such as accepting when no client has identified
    /// itself.
    #[error("{0} is not possible in this state")]
    State(&'static str),
    /// A segment that is too long for its frame.
    #[error("a segment of {len} bytes, at most {max} can be sent")]
    TooLong {
        /// Its length in bytes.
        len: u64,
        /// The bound.
        max: u64,
    },
}

/// Why secure mode failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CryptoError {
    /// The bytes are not what the peer encrypted, or it has another key.
    #[error("a secure frame failed its authentication")]
    Tag,
    /// The connection secret is too short to make keys of.
    #[error("the connection secret has {0} bytes, secure mode needs 40")]
    ShortSecret(usize),
    /// All 2⁶⁴ nonces are used up; a new connection must be made.
    #[error("the connection has used up its nonces")]
    NoncesExhausted,
}

/// The frame `tag` has a payload that cannot be decoded.
pub(crate) fn bad_payload(tag: Tag) -> impl Fn(DecodeError) -> ProtoError {
    move |source| Misbehaviour::Payload { tag, source }.into()
}
