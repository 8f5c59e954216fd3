//! A log whose callers never wait.
//!
//! [`log!`] writes a header and its raw arguments into a ring that belongs to the calling thread, and
//! returns. One log thread puts the entries of all rings in order, formats them and writes the lines.
//! Levels are set per subsystem at run time, with Ceph's option names and Ceph's two numbers:
//!
//! ```
//! use loligo_logring::{Config, Sink, log};
//!
//! let file = std::env::temp_dir().join(format!("logring-doc.{}", std::process::id()));
//! let logger = loligo_logring::start(Config::new(Sink::File(file.clone())))?;
//! loligo_logring::set_option("debug_msgr", "1/10")?; // lines up to level 1, and up to 10 in memory
//! log!(MSGR, 1, "sent {} frames to {}", 3, "osd.0");
//! log!(MSGR, 10, "kept for a crash: {:#x}", 255);
//! log!(MSGR, 20, "one load and a branch");
//! logger.stop();
//! assert!(std::fs::read_to_string(&file)?.ends_with("  1 msgr: sent 3 frames to osd.0\n"));
//! # std::fs::remove_file(&file)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The path of an entry
//! | thread | action | files |
//! |---|---|---|
//! | caller | level off: one relaxed load and a branch | `subsys.rs` |
//! | caller | reads the clock, writes words ([`Raw`]) to its ring | `thread.rs`, `raw.rs`, `entry.rs` |
//! | log thread | merges the rings by time | `merge.rs` |
//! | log thread | keeps the newest entries unformatted | `recent.rs` |
//! | log thread | formats the entries to be logged, writes many lines at once | `line.rs`, `sink.rs` |
//!
//! # Bounds
//! A ring has [`RING_BYTES`]. All rings together have at most [`RINGS_BYTES_MAX`]: beyond half of it a
//! new thread gets a small ring, beyond all of it none. An entry without room is dropped and counted:
//! the caller never waits, and the log says `N entries dropped by thread T`. A text argument is cut at
//! [`TEXT_BYTES_MAX`]. [`Config::recent_max`] entries are kept for a crash.
//!
//! # Order
//! Lines are ordered by time over all threads. If one entry was complete before another was begun (the
//! threads synchronised with each other), their order is exact. Concurrent entries can be out of order:
//! if a thread is suspended between its clock reading and the end of its entry, for longer than the log
//! thread waits (some milliseconds), the entry comes too late, with its true time.
//!
//! # Clock
//! If Linux itself takes the time from an invariant TSC, an entry's time is `rdtsc` behind a fence, and
//! the log thread measures its rate against the system's clocks. Otherwise it is
//! `clock_gettime(CLOCK_MONOTONIC)`, which takes some tens of nanoseconds.
//!
//! # Crash
//! On a panic and on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT ([`Config::dump_on_crash`]) the newest
//! entries are written, including those above the log's level (Ceph's "gather" level). `crash.rs`
//! describes which parts of this are async-signal-safe.
//!
//! # Out of scope
//! No fork: a child of `fork` logs nothing. No logging in a signal handler. No value of a type without
//! [`Raw`]: keys do not implement it, so they cannot be logged by accident:
//!
//! ```compile_fail
//! struct Key([u8; 16]);
//! let key = Key([0; 16]);
//! loligo_logring::log!(AUTH, 1, "the key is {}", key);
//! ```

#[cfg(not(loom))]
mod asks;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod crash;
#[cfg(not(loom))]
mod entry;
#[cfg(all(not(loom), feature = "tracing"))]
mod layer;
#[cfg(not(loom))]
mod line;
#[cfg(not(loom))]
mod logger;
#[cfg(not(loom))]
mod macros;
#[cfg(not(loom))]
mod merge;
#[cfg(not(loom))]
mod raw;
#[cfg(not(loom))]
mod recent;
#[cfg(not(loom))]
mod sink;
#[cfg(not(loom))]
mod subsys;
#[cfg(not(loom))]
mod thread;

// Public only for the models.
#[cfg_attr(not(loom), allow(unreachable_pub))]
mod arrivals;
mod futex;
#[cfg_attr(not(loom), allow(unreachable_pub))]
mod handshake;
mod sync;

#[cfg(not(loom))]
pub use self::{
    asks::{dump, flush, reopen},
    logger::{Config, Logger, StartError, redirect, start},
    raw::{Of, Raw, TEXT_BYTES_MAX, Taken, Text, Wire, text},
    sink::Sink,
    subsys::{Levels, OptionError, Subsys, levels, set_levels, set_option},
    thread::{RING_BYTES, RINGS_BYTES_MAX, line},
};

#[cfg(all(not(loom), feature = "tracing"))]
pub use layer::RingLayer;

/// The items to which [`log!`] expands.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod expansion {
    pub use crate::entry::{Place, Site};
    pub use crate::thread::record;
}

/// The items that the models in `tests/loom.rs` use.
#[cfg(loom)]
#[doc(hidden)]
pub mod model {
    pub use crate::arrivals::Arrivals;
    pub use crate::handshake::{Bell, Ticket};
}
