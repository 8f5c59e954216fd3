//! msgr2 sessions and frames, without I/O.
//!
//! A connection has two lives, and so two types:
//!
//! ```text
//!  bytes in ──► Handshake ──► bytes out          Established ─┬─► Opener:  bytes in ──► frames
//!  commands ──►           ──► events       ═══►               └─► Sealer:  frames ──► OutBuf ──► one vectored write
//! ```
//!
//! A [`Handshake`] (client or server) exchanges banners, authenticates through the traits of
//! [`loligo_cephx::handshake`], and opens or resumes a session; its type's documentation says what is called
//! in which order. It ends in an [`Established`]: the two halves of the connection, which share nothing, so
//! that the task that writes and the task that reads need no lock between them.
//!
//! What this crate refuses to do: it owns no socket, no clock and no queue; it does not number, acknowledge,
//! keep or repeat messages (the messenger does, because that outlives a connection); it speaks neither the
//! old messenger's protocol nor msgr2.0. Frames are [compressed](Compression) if both sides were told to.
//!
//! A peer's bytes never panic and never allocate what they merely claim: see [`Limits`] and
//! [`Opener::spare`].
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
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
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod inflate;
mod limits;
mod method;
mod out;
mod session;
mod tag;

pub use compression::Compression;
pub use error::{CryptoError, Misbehaviour, Misuse, ProtoError, Unsupported};
pub use frame::{Frame, Opener, Sealer};
pub use handshake::{Event, Handshake, Local};
pub use limits::Limits;
pub use method::Method;
pub use out::OutBuf;
pub use session::{ClientIdent, Established, FLAG_LOSSY, PeerInfo, Reconnect, ServerIdent, Session};
pub use tag::Tag;
