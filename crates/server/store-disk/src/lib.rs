//! The store on disk: what was acknowledged survives a loss of power.
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
//! - A transaction is checked and given places (`opened`), written down as a *record* (`record`), and done in
//!   memory (`collection`); a restart does the same with the records it finds (`store`).
//! - The *committer* (`commit`) takes all records there are and makes them safe with one write to the
//!   *journal* (`journal`). Writes of 64 KiB and more have gone to their final place before, and only their
//!   places are in the record; so have smaller ones if many come at once, which it writes to their places
//!   together.
//! - The *checkpointer* (`checkpoint`, `flush`) brings the *map* (an ordered key-value map; `keys`, `rows`)
//!   up to date now and then, in one commit.
//! - The journal is made ready ahead of the committer (`ahead`).
//! - Blocks are never overwritten: what is written gets new ones (`space`), so that a view stays what it was,
//!   and a crash finds either the old or the new. Each block has a checksum (`block`). A clone refers to its
//!   source's (`shares`).
//! - The *reader* (`reader`) gives many reads to the kernel at once; where the kernel has no `io_uring` a
//!   pool of threads (`pool`) reads, which also does what may take long.
//! - Blocks that were written or read of late are kept in memory (`data_cache`).
//! - What all parts share (`core`) are the files and what reads them (`io`), the records that wait (`queue`),
//!   the positions in the journal (`marks`), and what the threads tell each other (`signals`).
//!
//! A write or sync that fails stops the store for good: nothing is acknowledged any more.
//!
//! What this crate refuses to do: it knows no meaning of an object, as `loligo-store`, whose traits it
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
