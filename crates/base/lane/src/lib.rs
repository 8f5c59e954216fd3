//! A lane: a queue with one bit that tells whether a worker is responsible for running it.
//!
//! A producer pushes an item for a connection, a placement group, a sequencer or a device, and goes on.
//! Exactly one worker at a time runs the queued items, in order. [`Lane::push`] tells the producer what
//! to do: [`Action::Submit`]: run the lane, or submit it to a worker; [`Action::Nothing`]: a worker is
//! already responsible for the lane. No push is lost: a run ends in the same atomic step that finds the
//! lane empty.
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
//! | phase | meaning | transitions |
//! |---|---|---|
//! | idle | empty (or a run was dropped); no worker | `push`, `kick`, `requeue`: to *due* (Submit) |
//! | due | a run was requested and has not begun | `begin`, `run`, `run_batch`: to *running* |
//! | running | one worker runs it | empty: to *idle*; budget spent or stopped: to *due* ([`RunEnd::Again`]) |
//!
//! Idle is one value of the word that heads the inbox (`inbox.rs` has the table of its bits). A push
//! therefore learns, in the step that adds the item, whether a worker is responsible for the lane, and a
//! run ends with the compare-and-swap that finds the word still empty.
//!
//! - [`Lane::run`] and [`Lane::run_batch`] are for a run that does not wait. A run that waits (an
//!   asynchronous writer) holds a [`Run`], from [`Lane::begin`], while it waits.
//! - [`RunEnd::Again`] makes the caller responsible for the lane: it must submit the lane to a worker.
//!   Pushes keep returning Nothing.
//! - Only a due lane can begin a run, so a superfluous run does nothing, and two runs never overlap.
//! - A [`Run`] that is dropped before its end (a panic, a cancelled future) leaves the lane idle with
//!   its items queued; the next push returns Submit.
//!
//! # Bounds
//! A lane holds a bounded number of items and, if it was made [with a weight](Lane::weighed), of bytes.
//! At the bound a push is refused and returns the item. Items that a run has taken out do not count.
//!
//! # Why pushes take no lock
//! Even the shortest critical section is too long if a thread can be preempted in it: with a thousand
//! threads on two processors, every thread that arrives meanwhile goes to sleep, and they wake one after
//! another. Measured (`cargo run --release -p loligo-lane --example producers`): with a mutex that
//! guards nothing but the queue, the sum of all waits is almost as long as with one mutex for the queue
//! and its run. A push is an allocation, a counter update and a compare-and-swap instead. Runs, removals
//! and requeues share a lock of the class that the lane is given; producers never wait for it. Items are
//! dropped, and memory is allocated and freed, outside this lock.
//!
//! An operation that must change more than a queue in one step needs a lock. [`Combiner`] is such a
//! lock, for which contenders need not wait. It uses the same inbox as the lane.
//!
//! Out of scope: this crate has no threads, does not know which worker runs a lane, and never waits for
//! room.

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
