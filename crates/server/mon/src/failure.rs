//! Errors of requests to the monitor.

use std::fmt;

/// An error number, as Linux defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Self = Self(1);
    /// No such entry.
    pub const ENOENT: Self = Self(2);
    /// Input/output error: something could not be loaded or read.
    pub const EIO: Self = Self(5);
    /// Try again.
    pub const EAGAIN: Self = Self(11);
    /// Permission denied.
    pub const EACCES: Self = Self(13);
    /// Resource busy.
    pub const EBUSY: Self = Self(16);
    /// Already exists.
    pub const EEXIST: Self = Self(17);
    /// Not a directory.
    pub const ENOTDIR: Self = Self(20);
    /// Invalid argument.
    pub const EINVAL: Self = Self(22);
    /// Too large.
    pub const EFBIG: Self = Self(27);
    /// No space left.
    pub const ENOSPC: Self = Self(28);
    /// Out of range.
    pub const ERANGE: Self = Self(34);
    /// Not empty.
    pub const ENOTEMPTY: Self = Self(39);
    /// An item would contain itself.
    pub const ELOOP: Self = Self(40);
    /// Not supported.
    pub const EOPNOTSUPP: Self = Self(95);
}

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
