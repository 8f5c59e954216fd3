//! Errors of a measurement.

use std::io;

/// Why a case could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something: a port, a thread, a clock.
    #[error("{what}: {error}")]
    Io {
        /// What was to be had.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// The two ends of a case's own connection did not understand each other.
    #[error("{what}: {why}")]
    Talk {
        /// What was being done.
        what: &'static str,
        /// Why it failed, for people.
        why: String,
    },
    /// There is no case of this name.
    #[error("there is no case '{0}'")]
    NoSuchCase(String),
    /// A run was too short for anything to happen in it.
    #[error("nothing happened within the time of a run; give it more seconds")]
    NothingMeasured,
}

impl Error {
    /// For `map_err`: the system refused `what`.
    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { what, error }
    }

    /// For `map_err`: an exchange between the ends of a connection failed.
    pub(crate) fn talk<E: ToString>(what: &'static str) -> impl Fn(E) -> Self {
        move |why| Self::Talk { what, why: why.to_string() }
    }
}
