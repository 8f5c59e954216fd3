//! A lane: a queue with one bit, "somebody runs it".
//!
//! Whoever has something for a connection, a placement group, a sequencer or a device pushes it and leaves;
//! exactly one worker at a time runs what is there, in order. [`Lane::push`] says what the producer must do:
//! [`Action::Submit`]: run the lane, or have it run by a worker of its choice; [`Action::Nothing`]: somebody
//! will. No push is lost: a run ends in the same step in which the lane is seen to be empty.
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
//! | idle | the lane is empty, or was left behind (see below) | `push`, `kick`, `requeue`: to *due*; the caller is told Submit |
//! | due | somebody has been told to run it, and has not begun | `begin`, `run`, `run_batch`: to *running* |
//! | running | one worker runs it | seeing it empty: to *idle*; budget spent or told to stop: to *due* ([`RunEnd::Again`]) |
//!
//! Idle is one value of the word in which producers leave their items (`inbox.rs` has the table of its bits),
//! so a push learns in the step that adds the item whether anybody is concerned with the lane, and a run ends
//! by the compare-and-swap that finds the word still empty.
//!
//! - [`Lane::run`] and [`Lane::run_batch`] are for a run that does not wait. A run that waits (an
//!   asynchronous writer) holds a [`Run`] meanwhile, from [`Lane::begin`].
//! - [`RunEnd::Again`] hands the duty to run the lane to the caller, who submits it to a worker: pushes go on
//!   saying Nothing.
//! - A lane that is not due cannot be begun, so a superfluous run does nothing, and two runs never overlap.
//! - A [`Run`] that is dropped half-way (a panic, a cancelled future) leaves the lane idle with what is
//!   queued; the next push says Submit.
//!
//! # Bounds
//! A lane holds a bounded number of items and, if it was made [with a weight](Lane::weighed), of bytes. At
//! the bound a push is refused and the item given back. What a run has taken out no longer counts.
//!
//! # Why pushes take no lock
//! The shortest section is too long when a thread can lose its processor in it: with a thousand threads on
//! two processors those who come meanwhile all go to sleep, and wake one after another. Measured (`cargo run
//! -p loligo-lane --bench producers`), a mutex that guards nothing but the queue made them wait
//! almost as long in sum as one mutex for queue and run together. A push is an allocation, a count and a
//! compare-and-swap instead. Runs, removals and what is put back share a lock, of the class that the lane is
//! given; nobody else ever waits for it. Items are dropped and memory is allocated and freed outside it.
//!
//! Where more than a queue must change in one step, and so a lock is needed, there is the [`Combiner`]: a
//! lock that those who find it taken do not wait for. It shares the inbox with the lane.
//!
//! What this crate refuses to do: it has no threads, does not know who runs a lane, and never waits for room.

mod chain;
mod combiner;
mod error;
mod inbox;
mod lane;
mod room;
mod run;
mod sync;

pub use combiner::{Combined, Combiner, Discarded};
pub use error::PushError;
pub use inbox::Action;
pub use lane::Lane;
pub use room::Bound;
pub use run::{Run, RunEnd};
