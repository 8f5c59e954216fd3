//! Locks that measure themselves.
//!
//! What is here: [`Mutex`], [`RwLock`], [`SpinLock`], [`HeavyMutex`] and [`AdaptiveMutex`]. Each belongs to a
//! named [`Class`]; per class, place and thread it is counted how often a thread had to wait and how long,
//! who held the lock, and, when asked, how long. [`report()`] shows it in the columns of Linux's
//! `/proc/lock_stat`, as JSON and for Prometheus; [`Report::since`] shows what has come since an earlier one.
//! [`observe()`] tells each wait when it is over.
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
//! | lock | while it waits | for |
//! |---|---|---|
//! | [`Mutex`] | spins about two microseconds, then sleeps | the ordinary case |
//! | [`RwLock`] | the same; waiting writers go before new readers | tables that are read-mostly |
//! | [`SpinLock`] | as a `Mutex` | sections of some tens of instructions that take no lock which may sleep; test builds check it |
//! | [`HeavyMutex`] | sleeps at once | anything that may be held for long |
//! | [`AdaptiveMutex`] | spins as long as the lock's own holds have been shorter than a sleep and a wake-up | holds of which nobody knows how long they are, or that change |
//!
//! # What it costs
//! In the modes [`Mode::Off`] and [`Mode::Contended`] an uncontended acquire is one compare-and-swap, one
//! load of the mode (a line that is never written) and one store of the caller's place to the line that the
//! lock itself lies in; no clock is read. What there is to count is counted after the lock has been released.
//! [`Mode::Full`] counts each acquisition and times one in eight, [`Mode::Exact`] each: that takes two
//! readings of the processor's time-stamp counter. `cargo bench -p loligo-lockstat --bench floors`
//! measures it.
//!
//! A `try_lock` never waits, and one that fails is no wait: no report counts it.
//! [`SpinLock::try_lock_or_call`](Lock::try_lock_or_call) is for those who leave what they wanted done to
//! whoever has the lock; what they do instead of waiting is to be measured where it is done.
//!
//! # What test builds check
//! With `debug_assertions`, and only then:
//! - [`blocking_point`] panics if the thread holds any lock of this crate;
//! - the order of classes: whoever closes a cycle of "was acquired while holding" panics, naming both chains,
//!   also when the deadlock itself did not happen; two locks of one class may be held together only if the
//!   class was declared with [`Class::nested_by_address`];
//! - a lock that may sleep is not acquired within a [`SpinLock`]'s section.
//!
//! What this crate refuses to do: no poisoning (a panic releases the lock), no recursion, no condition
//! variables, no time-outs, and no guard that moves to another thread. It runs on Linux.
//!
//! So a future that holds a guard across an `.await` cannot be spawned on a runtime with several threads:
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
//! Released before the `.await`, it can:
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
//! On one thread, where a future need not be `Send`, the workspace's `clippy.toml` refuses it
//! (`await_holding_invalid_type`).
//!
//! The way through: [`Mutex`] and its sisters (`locks.rs`) are `lock_api` types over `Tracked`
//! (`tracked.rs`), which wraps one of the bare locks of `raw/`, asks `check.rs` in test builds, and leaves
//! its notes in `counters.rs`, from whose sums (`totals.rs`) `report/` draws.

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
