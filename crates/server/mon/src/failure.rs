//! Errors of requests to the monitor.

use std::fmt;

pub use loligo_wire::Errno;

/// The reply to a command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error number, for programs.
    pub errno: Errno,
    /// The error text, for people.
    pub status: String,
}

impl Failure {
    /// Creates a failure from an error number and a text.
    pub fn new(errno: Errno, status: impl Into<String>) -> Self {
        Self { errno, status: status.into() }
    }

    /// Creates a failure with EINVAL.
    pub fn invalid(status: impl Into<String>) -> Self {
        Self::new(Errno::EINVAL, status)
    }

    /// Creates a failure with ENOENT.
    pub fn missing(status: impl Into<String>) -> Self {
        Self::new(Errno::ENOENT, status)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.errno.0, self.status)
    }
}

impl std::error::Error for Failure {}
