//! One session of a client with a metadata server.
//!
//! A session is a lease: the client renews it, and after [`Session::validity`]'s end no capability counts
//! until the next acknowledgement. The end is counted from the moment at which the renewal was *sent*, so
//! that the client's clock never grants more than the server's.

mod life;
mod reconnect;
#[cfg(test)]
mod tests;

pub use life::{Effect, Outgoing, Phase, Session, SessionEvent};
pub use reconnect::{Part, split_claims};
