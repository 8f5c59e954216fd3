//! Sessions and frames of Ceph's messengers, without I/O: msgr2, and in [`v1`] the one before it.
//!
//! A connection has two phases, each with its own type:
//!
//! ```text
//!  bytes in ──► Handshake ──► bytes out          Established ─┬─► Opener:  bytes in ──► frames
//!  commands ──►           ──► events       ═══►               └─► Sealer:  frames ──► OutBuf ──► one
//!  vectored write
//! ```
//!
//! A [`Handshake`] (client or server) exchanges banners, authenticates through the traits of
//! [`loligo_cephx::handshake`], and opens or resumes a session; its documentation states the order of
//! calls. It ends in an [`Established`]: the two halves of the connection. They share nothing, so the
//! writing task and the reading task need no lock between them.
//!
//! The crate owns no socket, no clock and no queue. It does not number, acknowledge, store or repeat
//! messages: the messenger does, because that outlives a connection. It does not support msgr2.0. A
//! [`v1::Handshake`] has the same events and ends in the same [`Established`]. Frames are
//! [compressed](Compression) if both sides are configured to do so.
//!
//! Input from a peer never causes a panic, and a length that is only claimed never causes an allocation:
//! see [`Limits`] and [`Opener::spare`].
// Integers that come from peers are never truncated, wrapped or reinterpreted implicitly: conversions
// that may lose bits are explicit (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod compression;
mod control;
mod crypto;
mod error;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod halves;
mod handshake;
mod inflate;
mod limits;
mod method;
mod out;
mod read_len;
mod session;
mod tag;
pub mod v1;

pub use compression::Compression;
pub use error::{CryptoError, Misbehaviour, Misuse, ProtoError, Unsupported};
pub use frame::Frame;
pub use halves::{Opener, Sealer};
pub use handshake::{Event, Handshake, Local};
pub use limits::Limits;
pub use method::Method;
pub use out::OutBuf;
pub use session::{ClientIdent, Established, FLAG_LOSSY, PeerInfo, Reconnect, ServerIdent, Session};
pub use tag::Tag;
