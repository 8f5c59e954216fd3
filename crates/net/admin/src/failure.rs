//! Why a command has no answer.

use std::fmt;

use loligo_types::Errno;

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The errno, for programs.
    pub errno: Errno,
    /// For people.
    pub why: String,
}

impl Failure {
    /// What was asked makes no sense here (EINVAL).
    pub fn new(why: impl Into<String>) -> Self {
        Self { errno: Errno::EINVAL, why: why.into() }
    }

    /// There is no such thing (ENOENT).
    pub fn missing(why: impl Into<String>) -> Self {
        Self { errno: Errno::ENOENT, why: why.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no command of these words.
    Unknown(String),
    /// The arguments do not fit the command.
    Misfit(Failure),
    /// The command has failed.
    Failed(Failure),
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
