//! The requests of a client to its metadata servers, from submission until the effect is durable.
//!
//! A change is answered twice: *unsafe* when it is in the server's memory, *safe* when it is durable. After
//! the first reply the caller goes on, and the request stays here, because a server that restarts has it
//! replayed. [`Requests`] knows the order, the place and the state of each request; the owner keeps its
//! content by tid.

mod choose;
mod table;
#[cfg(test)]
mod tests;

pub use choose::{RankState, Route, choose};
pub use table::{Effect, Failure, Kind, Requests, Send};
