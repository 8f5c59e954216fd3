//! The NBD protocol without I/O: bytes in, bytes and questions out. No sockets, no clock, no threads.
//!
//! A connection begins with a [`Handshake`], which is fed what the client sends and asks for what it must
//! know about exports ([`Asked`]); it ends with the [`Style`] in which requests and replies are written. Then
//! a [`Decoder`] reads [`Request`]s, [`Request::check`] says what they want of the export as an [`Io`], and
//! replies are written by an [`Encoder`]. [`Joining`] is the handshake from the other side, for the kernel's
//! client.
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
//! Whatever a client sends is either answered, with an error if it makes no sense, or ends its connection
//! ([`Broken`]). Memory is taken for what has come, never for what is announced.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod error;
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

/// Bytes of data of one request or reply at most, as clients are told. What the specification wants every
/// server to take.
pub const PAYLOAD_MAX: u32 = 32 << 20;

/// Bytes that a name has at most.
pub const NAME_MAX: usize = 4096;

/// Extents of one answer about the status of blocks at most. The specification advises 2^20; clients ask
/// again where an answer ends.
pub const EXTENTS_MAX: usize = 1 << 14;

/// How requests and replies are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Simple replies.
    #[default]
    Simple,
    /// Structured replies.
    Structured,
    /// Lengths of 64 bits, in requests and replies.
    Extended,
}

/// What a client is told of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// For people; may be empty.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// What it can do.
    pub can: Can,
}

/// What an export can do beside being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Can {
    /// It can be written to.
    pub write: bool,
    /// It takes TRIM.
    pub trim: bool,
    /// It knows at once whether WRITE_ZEROES is fast.
    pub fast_zero: bool,
    /// What was written over one connection is seen and flushed over all.
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

/// What is known of a range's allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes; not 0.
    pub len: u64,
    /// It takes no room, and reads as zeros.
    pub hole: bool,
}

#[cfg(test)]
mod tests;
