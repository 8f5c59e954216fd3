//! The NBD protocol without I/O: bytes in, bytes and questions out. No sockets, no clock, no threads.
//!
//! A connection begins with a [`Handshake`]. It is fed the client's bytes and asks its caller about
//! exports ([`Asked`]); it ends with the [`Style`] in which requests and replies are written. Then a
//! [`Decoder`] reads [`Request`]s, [`Request::check`] translates each into an [`Io`] on the export, and
//! an [`Encoder`] writes the replies. [`Joining`] is the client's side of the handshake, for the
//! kernel's client.
//!
//! ```
//! use bytes::BytesMut;
//! use loligo_nbd_proto::{Asked, Handshake};
//!
//! let (mut from_client, mut to_client) = (BytesMut::new(), BytesMut::new());
//! let mut handshake = Handshake::new(false);
//! handshake.greet(&mut to_client);
//! assert!(to_client.starts_with(b"NBDMAGICIHAVEOPT"));
//! // The client's flags, and the option NBD_OPT_ABORT without data.
//! from_client.extend_from_slice(&3_u32.to_be_bytes());
//! from_client.extend_from_slice(b"IHAVEOPT\0\0\0\x02\0\0\0\0");
//! assert!(matches!(handshake.next(&mut from_client, &mut to_client), Ok(Some(Asked::End))));
//! ```
//!
//! Each message of a client is either answered, with an error if it is not valid, or ends the connection
//! ([`Broken`]). Memory is allocated for bytes that have arrived, never for announced lengths.
// Numbers from peers must not be truncated or change sign silently. Intended conversions are written
// explicitly (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod handshake;
mod joining;
mod reply;
mod request;
mod words;

pub use error::{Broken, Fault};
pub use handshake::{Asked, Chosen, Handshake, OPTION_BYTES_MAX, Refused};
pub use joining::{Joining, Offer, Unwilling};
pub use reply::{Encoder, Piece, Sink, To};
pub use request::{Decoder, Io, Order, Request};

/// Maximum bytes of data of one request or reply, as announced to clients. The specification requires
/// every server to accept this much.
pub const PAYLOAD_MAX: u32 = 32 << 20;

/// Maximum length of a name in bytes.
pub const NAME_MAX: usize = 4096;

/// Maximum number of extents in one answer to BLOCK_STATUS. The specification advises 2^20; clients ask
/// again from the end of an answer.
pub const EXTENTS_MAX: usize = 1 << 14;

/// The format of requests and replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Simple replies.
    #[default]
    Simple,
    /// Structured replies.
    Structured,
    /// Extended headers: lengths of 64 bits in requests and replies.
    Extended,
}

/// The description of an export that a client receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// A description for people; may be empty.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// Its abilities.
    pub can: Can,
}

/// The abilities of an export beside reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Can {
    /// It can be written to.
    pub write: bool,
    /// It supports TRIM.
    pub trim: bool,
    /// It can tell at once whether WRITE_ZEROES is fast.
    pub fast_zero: bool,
    /// Data written over one connection are visible and flushed over all.
    pub multi_conn: bool,
}

impl Can {
    /// The transmission flags.
    pub fn flags(self, style: Style) -> u16 {
        use words::transmission as t;
        let when = |is: bool, flag: u16| if is { flag } else { 0 };
        t::HAS_FLAGS
            | t::SEND_CACHE
            | t::SEND_FLUSH
            | t::SEND_FUA
            | when(!self.write, t::READ_ONLY)
            | when(self.write, t::SEND_WRITE_ZEROES)
            | when(self.write && self.trim, t::SEND_TRIM)
            | when(self.write && self.fast_zero, t::SEND_FAST_ZERO)
            | when(style != Style::Simple, t::SEND_DF)
            | when(self.multi_conn, t::CAN_MULTI_CONN)
    }
}

/// The allocation of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes; not 0.
    pub len: u64,
    /// It occupies no space, and reads as zeros.
    pub hole: bool,
}

#[cfg(test)]
mod tests;
