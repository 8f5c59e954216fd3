//! Execution of object operations: what an OSD does with a client's request.
//!
//! ```text
//! Osd::dispatch ── decode ── checks (map, placement, capability) ── Slot (a lane for each placement group)
//!                                                                     └─ Execution: operations in order ── store
//! ```
//!
//! - [`Osd`] receives all messages of one socket read and runs each request where it arrived. If the
//!   placement group's slot is idle, the thread that read the socket executes the request; otherwise the
//!   thread that runs the slot executes it later. No thread waits for another.
//! - A slot executes one request at a time. The operations of a request therefore happen together or not
//!   at all, and each request sees the effects of all requests before it.
//! - Each resource a request uses is bounded and counted before it is used: bytes of work
//!   (`exec/limits.rs`), bytes the server creates (`made`), messages to watchers (`watch/load.rs`), and
//!   replies the client has not read (`asker/unread.rs`). A request that turns out to be heavy is
//!   executed by threads that serve no sockets (`hands`).
//! - A resent write (a client that lost its connection sends it again with the same number) gets the
//!   recorded result.
//!
//! - Snapshots are clones in the same placement group. Watches are stored with their objects and served
//!   in the slot. Methods of object classes ([`loligo_classes`]) run as operations of their request.
//!
//! - A map may list several OSDs. Each has a [`Door`] to the same slots and accepts the requests that
//!   the map directs to it. Data are stored once, also in erasure-coded pools; the rules such pools
//!   impose on clients are enforced (`exec/rules.rs`).
//!
//! - Scrubs read all objects periodically, so that damage is found before a client reads it (`scrub`).
//!
//! This crate has no replication, no coding, no recovery and no cache tiers. It accesses sockets only as
//! [`Connection`](loligo_msgr::Connection)s.
// Casts of numbers from peers must not truncate or change the sign silently. An intended lossy cast is
// written with crate `az`.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod asker;
mod bench;
mod clock;
mod dups;
mod errno;
mod exec;
mod fetches;
mod filing;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod group;
mod hands;
mod helpers;
mod history;
mod made;
mod osd;
mod place;
mod replies;
mod scrub;
mod scrubs;
mod session;
mod slot;
mod slots;
mod stats;
mod trim;
mod watch;

pub use bench::Bench;
pub use exec::Limits;
pub use history::{BLOCKED_S, KEPT_MAX, KEPT_S, SLOW_MAX, SLOW_S, TrackedOp};
pub use loligo_wire::Errno;
pub use osd::{Door, Osd, OsdConfig, Replaced};
pub use scrub::ScrubPolicy;
pub use scrubs::{Damage, Fault, PgScrub, ScrubJob, ScrubKind, ScrubReport, Scrubbed};
pub use stats::{PgStats, PoolStats};
pub use watch::{WatchFacts, is_watch};
