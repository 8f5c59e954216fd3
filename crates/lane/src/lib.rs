//! A lane: a queue with one bit, "somebody runs it".
//!
//! Whoever has something for a connection, a placement group, a sequencer or a device pushes it and leaves; exactly
//! one worker at a time runs what is there, in order. [`Lane::push`] says what the producer must do:
//! [`Action::Submit`]: run the lane, or have it run by a worker of its choice; [`Action::Nothing`]: somebody will. No
//! push is lost: a run ends in the same step in which the lane is seen to be empty.
//!
//! ```
//! use loligo_lane::{Action, Lane, RunEnd};
//! use loligo_lockstat::Class;
//!
//! static SLOT: Class = Class::new("doc.slot");
//! let lane = Lane::new(&SLOT, 128);
//! assert_eq!(lane.push("a"), Ok(Action::Submit)); // so it is on us to run it
//! assert_eq!(lane.push("b"), Ok(Action::Nothing)); // whoever runs it takes this along
//! let mut done = Vec::new();
//! assert_eq!(lane.run(16, |item| done.push(item)), RunEnd::Idle);
//! assert_eq!(done, ["a", "b"]);
//! ```
//!
//! # Phases
//! | phase | means | leaves it |
//! |---|---|---|
//! | idle | the lane is empty, or was left behind (see below); nobody is concerned | `push`, `kick`, `requeue`: to *due*, and the caller is told Submit |
//! | due | somebody has been told to run it, and has not begun | `begin`, `run`, `run_batch`: to *running* |
//! | running | one worker runs it | that worker: seeing it empty, to *idle*; budget spent or told to stop, to *due* ([`RunEnd::Again`]) |
//!
//! All transitions happen under the lane's lock, together with the look at the queue that justifies them.
//!
//! - [`Lane::run`] and [`Lane::run_batch`] are for a run that does not wait. A run that waits (an asynchronous
//!   writer) holds a [`Run`] meanwhile, from [`Lane::begin`].
//! - [`RunEnd::Again`] hands the duty to run the lane to the caller, who submits it to a worker: pushes go on saying
//!   Nothing.
//! - A lane that is not due cannot be begun, so a superfluous run does nothing, and two runs never overlap.
//! - A [`Run`] that is dropped half-way (a panic, a cancelled future) leaves the lane idle with what is queued; the
//!   next push says Submit.
//!
//! # Bounds
//! A lane holds a bounded number of items and, if it was made [with a weight](Lane::weighed), of bytes. At the bound
//! a push is refused and the item given back. What a run has taken out no longer counts.
//!
//! # Why a lock and not a lock-free list
//! A push is a lock, a move into a ring buffer and an unlock by plain store. `cargo run --release -p loligo-lane
//! --example producers` compares it with a mutex and with a lock-free list (one allocation for each item) at 1 to
//! 1,000 producers. The lock also makes revocation, putting back in front and exact bounds simple. Memory for the
//! queue is allocated and freed, and items are dropped, outside the lock.
//!
//! What this crate refuses to do: it has no threads, does not know who runs a lane, and never waits for room.

mod error;
mod lane;
mod run;
mod sync;

pub use error::PushError;
pub use lane::{Action, Bound, Lane};
pub use run::{Run, RunEnd};
