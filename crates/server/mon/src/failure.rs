//! How what was asked of the monitor fails.

use std::fmt;

/// The number of an error, as Linux numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Self = Self(1);
    /// No such thing.
    pub const ENOENT: Self = Self(2);
    /// It cannot be loaded or read.
    pub const EIO: Self = Self(5);
    /// Try again.
    pub const EAGAIN: Self = Self(11);
    /// Permission denied.
    pub const EACCES: Self = Self(13);
    /// It is in use.
    pub const EBUSY: Self = Self(16);
    /// It exists already.
    pub const EEXIST: Self = Self(17);
    /// Not a directory.
    pub const ENOTDIR: Self = Self(20);
    /// Invalid argument.
    pub const EINVAL: Self = Self(22);
    /// Too large.
    pub const EFBIG: Self = Self(27);
    /// No room is left.
    pub const ENOSPC: Self = Self(28);
    /// Out of range.
    pub const ERANGE: Self = Self(34);
    /// There is something in it.
    pub const ENOTEMPTY: Self = Self(39);
    /// It would lie within itself.
    pub const ELOOP: Self = Self(40);
    /// Not supported.
    pub const EOPNOTSUPP: Self = Self(95);
}

/// The answer of a command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why, for programs.
    pub errno: Errno,
    /// Why, for people.
    pub status: String,
}

impl Failure {
    /// A failure.
    pub fn new(errno: Errno, status: impl Into<String>) -> Self {
        Self { errno, status: status.into() }
    }

    /// EINVAL.
    pub fn invalid(status: impl Into<String>) -> Self {
        Self::new(Errno::EINVAL, status)
    }

    /// ENOENT.
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
