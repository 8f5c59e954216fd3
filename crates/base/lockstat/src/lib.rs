//! Locks that measure their own contention.
//!
//! The crate has [`Mutex`], [`RwLock`], [`SpinLock`], [`HeavyMutex`] and [`AdaptiveMutex`]. Each lock
//! belongs to a named [`Class`]. Per class, call site and thread, the crate counts how often a thread
//! had to wait and how long, which call site held the lock, and, in some modes, for how long.
//! [`report()`] returns the figures in the columns of Linux's `/proc/lock_stat`, as JSON and for
//! Prometheus; [`Report::since`] returns the difference from an earlier report. [`observe()`] reports
//! each single wait when it is over.
//!
//! ```
//! use loligo_lockstat::{Class, Mutex};
//!
//! static OUT_QUEUE: Class = Class::new("msgr.out_queue");
//! let queue = Mutex::new(&OUT_QUEUE, Vec::new());
//! queue.lock().push(1);
//! assert_eq!(queue.into_inner(), [1]);
//! ```
//!
//! # Which lock
//! | lock | a waiter | use for |
//! |---|---|---|
//! | [`Mutex`] | spins about two microseconds, then sleeps | the ordinary case |
//! | [`RwLock`] | as above; waiting writers go before new readers | tables that are mostly read |
//! | [`SpinLock`] | like a `Mutex` | some tens of instructions that take no lock that may sleep |
//! | [`HeavyMutex`] | sleeps at once | long holds |
//! | [`AdaptiveMutex`] | spins if holds are shorter than a sleep and wake-up | holds of unknown length |
//!
//! # What it costs
//! In the modes [`Mode::Off`] and [`Mode::Contended`], an uncontended acquire is one compare-and-swap,
//! one load of the mode (from a cache line that is never written) and one store of the call site to the
//! cache line of the lock itself; no clock is read. Counting is deferred until the lock has been
//! released. [`Mode::Full`] counts each acquisition and times one in eight; [`Mode::Exact`] times each
//! one. Timing takes two reads of the processor's time-stamp counter.
//! `cargo run --release -p loligo-lockstat --example floors` measures these costs.
//!
//! A `try_lock` never waits, and a failed one is not a wait: no report counts it.
//! [`SpinLock::try_lock_or_call`](Lock::try_lock_or_call) is for callers that leave their work to the
//! lock's owner; their alternative to waiting must be measured where it is done.
//!
//! # What test builds check
//! With `debug_assertions`, and only then:
//! - [`blocking_point`] panics if the thread holds any lock of this crate;
//! - the order of classes: a thread that closes a cycle of "was acquired while holding" panics and names
//!   both chains, even if no deadlock happened; two locks of one class may be held together only if the
//!   class was declared with [`Class::nested_by_address`];
//! - a lock that may sleep is not acquired while a [`SpinLock`] is held.
//!
//! Out of scope: no poisoning (a panic releases the lock), no recursion, no condition variables, no
//! time-outs, and no guard that moves to another thread. The crate runs on Linux.
//!
//! Since guards do not move, a future that holds a guard across an `.await` cannot be spawned on a
//! multi-threaded runtime:
//! ```compile_fail,E0277
//! use loligo_lockstat::{AdaptiveMutex, Class};
//!
//! static TABLE: Class = Class::new("doc.table");
//! fn spawn(_: impl Future<Output = ()> + Send) {}
//! async fn work(table: &AdaptiveMutex<u32>) {
//!     let mut entries = table.lock();
//!     std::future::ready(()).await;
//!     *entries += 1;
//! }
//! # let table = AdaptiveMutex::new(&TABLE, 0);
//! spawn(work(&table));
//! ```
//! A future that releases the guard before the `.await` can:
//! ```
//! # use loligo_lockstat::{AdaptiveMutex, Class};
//! # static TABLE: Class = Class::new("doc.table");
//! # fn spawn(_: impl Future<Output = ()> + Send) {}
//! async fn work(table: &AdaptiveMutex<u32>) {
//!     *table.lock() += 1;
//!     std::future::ready(()).await;
//! }
//! # let table = AdaptiveMutex::new(&TABLE, 0);
//! spawn(work(&table));
//! ```
//! On a single-threaded runtime, where a future need not be `Send`, the workspace's `clippy.toml`
//! rejects such a guard (`await_holding_invalid_type`).
//!
//! Structure: [`Mutex`] and the other locks (`locks.rs`) are `lock_api` types over `Tracked`
//! (`tracked.rs`). `Tracked` wraps one of the bare locks of `raw/`, calls `check.rs` in test builds, and
//! records in `counters.rs`. `totals.rs` sums the counters, and `report/` renders the sums.

#[cfg_attr(not(debug_assertions), path = "check_off.rs")]
mod check;
mod class;
mod clock;
mod counters;
mod histogram;
mod kind;
mod locks;
mod mode;
mod observe;
mod place;
mod raw;
mod report;
mod totals;
mod tracked;

pub use check::blocking_point;
pub use class::Class;
pub use counters::reset;
pub use kind::Kind;
pub use locks::{
    AdaptiveMutex, AdaptiveMutexGuard, HeavyMutex, HeavyMutexGuard, Lock, Mutex, MutexGuard, RwLock,
    RwLockReadGuard, RwLockWriteGuard, SpinLock, SpinLockGuard,
};
pub use mode::{Mode, mode, set_mode};
pub use observe::{Observing, Wait, observe, waited_by_this_thread};
pub use report::{ClassReport, Report, Site, Times, report};
