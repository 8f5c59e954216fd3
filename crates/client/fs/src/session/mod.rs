//! A session with one metadata server, and the requests in it.

mod flight;
mod life;

pub(crate) use self::flight::{Caller, Done, Event, Extra, Flight, Listing, Request};
pub(crate) use self::life::{Ended, Phase, Session, State};
