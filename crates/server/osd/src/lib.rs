//! Execution of object operations: what an OSD does with a client's request.
//!
//! ```text
//! Osd::dispatch ── decode ── checks (map, placement, capability) ── Slot (a lane for each placement group)
//!                                                                     └─ Execution: operations in order ── store
//! ```
//!
//! - [`Osd`] takes all messages of one socket read and runs each request where it arrived: if the placement
//!   group's slot is idle, in the very thread that read it; else whoever runs the slot takes it along. Nobody
//!   waits for anybody.
//! - A slot executes one request at a time, so the operations of a request happen together or not at all, and
//!   each sees all requests before it.
//! - What a request may do, make and leave unread is bounded and counted before it is done: bytes of work
//!   (`exec/limits.rs`), bytes made of few (`made`), messages to watchers (`watch/load.rs`), answers that its
//!   client has not read (`asker/unread.rs`). One that turns out to be much work is executed by threads that
//!   serve no sockets (`hands`).
//! - A write that comes again (a client that lost its connection sends it with the same number) gets the
//!   recorded result.
//!
//! - Snapshots are clones in the same placement group; watches are kept with their objects and served in the
//!   slot; methods of object classes run as operations of their request.
//!
//! - A map may show several OSDs: each has a [`Door`] to the same slots, and takes the requests that the map
//!   directs to it. Data are kept once, also in erasure-coded pools, whose rules for clients are enforced
//!   (`exec/rules.rs`).
//!
//! - Scrubs read all objects now and then, so that damage is found before a client reads it (`scrub`).
//!
//! What this crate refuses to do: no replication, no coding, no recovery, no cache tiers. It knows
//! sockets only as [`Connection`](loligo_msgr::Connection)s.
// Numbers from peers: none is cut off or changes its sign unseen. What must be is written as such (crate
// `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]
#![forbid(unsafe_code)]

mod asker;
mod bench;
mod classes;
mod clock;
mod dups;
mod errno;
mod exec;
mod fetches;
mod filing;
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
pub use errno::Errno;
pub use exec::Limits;
pub use history::{BLOCKED_S, KEPT_MAX, KEPT_S, SLOW_MAX, SLOW_S, TrackedOp};
pub use osd::{Door, Osd, OsdConfig};
pub use scrub::ScrubPolicy;
pub use scrubs::{Damage, Fault, PgScrub, ScrubJob, ScrubKind, ScrubReport, Scrubbed};
pub use stats::{PgStats, PoolStats};
pub use watch::WatchFacts;
