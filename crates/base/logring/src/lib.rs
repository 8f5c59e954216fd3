//! A log whose callers never wait.
//!
//! [`log!`] writes a header and its raw arguments into a ring that belongs to the calling thread and returns;
//! one thread puts the rings' entries in order, formats them and writes the lines. Levels are set per
//! subsystem while the program runs, in Ceph's words and with Ceph's two numbers:
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
//! # An entry's way
//! | where | what | file |
//! |---|---|---|
//! | caller | level off: one relaxed load and a branch | `subsys.rs` |
//! | caller | reads the clock, turns arguments into words ([`Raw`]), writes them into its ring | `thread.rs`, `raw.rs`, `entry.rs` |
//! | log thread | merges the rings by time | `merge.rs` |
//! | log thread | keeps the newest entries as they are | `recent.rs` |
//! | log thread | formats what is to be logged, writes many lines at once | `line.rs`, `sink.rs` |
//!
//! # What is bounded, and what happens at the bound
//! A ring has [`RING_BYTES`]; after [`RINGS_BYTES_MAX`] in all, threads get small ones, and in the end none.
//! An entry without room is dropped and counted: the caller never waits, and the log says `N entries dropped
//! by thread T`. A text argument is cut at [`TEXT_BYTES_MAX`]. [`Config::recent_max`] entries are kept for a
//! crash.
//!
//! # Order
//! Lines are ordered by time over all threads. Where one entry was logged before another was begun (the
//! threads talked to each other), this is exact. Of entries that were logged at the same time, one whose
//! thread was suspended between its look at the clock and its end for longer than the log thread waits (some
//! milliseconds) comes too late, with its true time.
//!
//! # Clock
//! Where Linux itself takes the time from an invariant TSC, an entry's time is `rdtsc` behind a fence, and
//! the log thread measures its rate against the system's clocks. Else it is `clock_gettime(CLOCK_MONOTONIC)`,
//! some tens of nanoseconds.
//!
//! # Crash
//! On a panic and on SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGABRT ([`Config::dump_on_crash`]) the newest
//! entries are written, also those below the log's level (Ceph's "gather" level). See `crash.rs` for what of
//! it is async-signal-safe.
//!
//! # What it refuses to do
//! No fork: a child of `fork` logs nothing. No log within a signal handler. No value of a type without
//! [`Raw`]: keys have none, so they cannot be logged by accident:
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

// Public to the models only.
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

/// What [`log!`] expands to.
#[cfg(not(loom))]
#[doc(hidden)]
pub mod expansion {
    pub use crate::entry::{Place, Site};
    pub use crate::thread::record;
}

/// What the models in `tests/loom.rs` look at.
#[cfg(loom)]
#[doc(hidden)]
pub mod model {
    pub use crate::arrivals::Arrivals;
    pub use crate::handshake::{Bell, Ticket};
}
