//! Errors of a measurement.

use std::io;

/// Why a case could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused a resource, such as a port or a thread.
    #[error("{what}: {error}")]
    Io {
        /// The resource or operation.
        what: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// An exchange between the two ends of a case's own connection failed, or a thread panicked.
    #[error("{what}: {why}")]
    Talk {
        /// The failed operation.
        what: &'static str,
        /// The reason, for people.
        why: String,
    },
    /// No case has this name.
    #[error("there is no case '{0}'")]
    NoSuchCase(String),
    /// A run was too short to measure anything.
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
