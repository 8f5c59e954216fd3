//! The store on disk: acknowledged transactions survive a loss of power.
//!
//! ```text
//!            submit                          commit                         checkpoint
//! transaction ──► record ──► objects in memory    ┌─ large writes: to their places, sync
//!                       └──► lane ──► committer ──┤
//!                                                 └─ a group of records into the journal, sync ──► listener
//!                 objects in memory ──► checkpointer: small writes to places, sync, map, journal free again
//! view ──► in memory or in the data cache: answered at once; else ──► reader: blocks, checksums
//! ```
//!
//! - A transaction is checked and its blocks are allocated (`opened`). It is then encoded as a *record*
//!   (`record`) and applied in memory (`collection`). A restart applies the records that it finds
//!   (`store`).
//! - The *committer* (`commit`) collects all waiting records and makes them safe with one write to the
//!   *journal* (`journal`). Writes of 64 KiB and more are written to their final place before that, and
//!   their record contains only the places. Smaller writes go the same way if many come at once: the
//!   committer writes them to their places together.
//! - The *checkpointer* (`checkpoint`, `flush`) updates the *map* (an ordered key-value map; `keys`,
//!   `rows`) from time to time, in one commit.
//! - The journal is prepared ahead of the committer (`ahead`).
//! - Blocks are never overwritten: new data gets new blocks (`space`). A view therefore stays unchanged,
//!   and after a crash either the old or the new data is found. Each block has a checksum (`block`). A
//!   clone refers to the blocks of its source (`shares`).
//! - The *reader* (`reader`) submits many reads to the kernel at once. If the kernel has no `io_uring`, a
//!   pool of threads (`pool`) reads. The pool also runs jobs that may take long.
//! - Recently written or read blocks are kept in memory (`data_cache`).
//! - All parts share (`core`) the files and their readers (`io`), the waiting records (`queue`), the
//!   positions in the journal (`marks`), and the signals between threads (`signals`).
//!
//! A failed write or sync stops the store for good: it acknowledges nothing any more.
//!
//! The crate knows nothing about the meaning of an object, like `loligo-store`, whose traits it
//! implements.
#![deny(unsafe_code)]

mod ahead;
mod backend;
mod block;
mod cache;
mod checkpoint;
mod collection;
mod commit;
mod config;
mod core;
mod cut;
mod data_cache;
mod filter;
mod flush;
mod fsck;
#[cfg(feature = "fuzzing")]
pub mod fuzz;
mod guard;
mod io;
mod journal;
mod keys;
mod layout;
mod list;
mod make;
mod marks;
mod notes;
mod omap;
mod onode;
mod opened;
mod pair;
mod placing;
mod pool;
mod queue;
mod reader;
mod record;
mod rows;
mod shares;
mod signals;
mod space;
mod store;
#[cfg(test)]
mod tests;
mod usage;
mod view;

pub use config::{DiskConfig, OpenError, SmallWrites};
pub use fsck::{Checked, Finding, Listener as RepairListener, Repaired, check, repair};
pub use store::DiskStore;
pub use usage::{Usage, fsid, usage};
