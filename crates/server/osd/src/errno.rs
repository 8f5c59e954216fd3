//! Errno values in replies.

use loligo_logring::{log, text};
use loligo_store::StoreError;
use loligo_wire::DecodeError;

/// A positive errno with Linux's number. A stock OSD puts the negated value into its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted, for example by the capabilities.
    pub const EPERM: Self = Self(1);
    /// No such object.
    pub const ENOENT: Self = Self(2);
    /// Data could not be read.
    pub const EIO: Self = Self(5);
    /// Not an object of the expected kind.
    pub const ENXIO: Self = Self(6);
    /// The request must be sent again.
    pub const EAGAIN: Self = Self(11);
    /// The object lacks a required feature.
    pub const ENOEXEC: Self = Self(8);
    /// The identity is in use.
    pub const EBADF: Self = Self(9);
    /// In use, for example held by another client.
    pub const EBUSY: Self = Self(16);
    /// The object exists.
    pub const EEXIST: Self = Self(17);
    /// The object lies in another namespace.
    pub const EXDEV: Self = Self(18);
    /// Invalid arguments.
    pub const EINVAL: Self = Self(22);
    /// The bound on all clients' watches is reached.
    pub const ENFILE: Self = Self(23);
    /// The bound on a client's watches is reached.
    pub const EMFILE: Self = Self(24);
    /// Larger than the maximum object size.
    pub const EFBIG: Self = Self(27);
    /// No space left.
    pub const ENOSPC: Self = Self(28);
    /// The number is too small.
    pub const ERANGE: Self = Self(34);
    /// The name is too long.
    pub const ENAMETOOLONG: Self = Self(36);
    /// Not supported by this server.
    pub const ENOSYS: Self = Self(38);
    /// No such attribute.
    pub const ENODATA: Self = Self(61);
    /// The number is too large.
    pub const EOVERFLOW: Self = Self(75);
    /// The request is too large.
    pub const EMSGSIZE: Self = Self(90);
    /// The snapshot context is older than the object's (`EOLDSNAPC`).
    pub const EOLDSNAPC: Self = Self(85);
    /// Not an operation of this server.
    pub const EOPNOTSUPP: Self = Self(95);
    /// The bound on pending notifications is reached.
    pub const ENOBUFS: Self = Self(105);
    /// No such watch.
    pub const ENOTCONN: Self = Self(107);
    /// The client is on the blocklist.
    pub const ESHUTDOWN: Self = Self(108);
    /// The watch has lost its connection.
    pub const ETIMEDOUT: Self = Self(110);
    /// Older than requested.
    pub const ESTALE: Self = Self(116);
    /// The pool's quota is used up.
    pub const EDQUOT: Self = Self(122);
    /// A comparison failed.
    pub const ECANCELED: Self = Self(125);

    /// The negated value, as a result field carries it.
    pub fn code(self) -> i32 {
        -self.0
    }
}

/// A request whose arguments cannot be decoded is invalid.
impl From<DecodeError> for Errno {
    fn from(_: DecodeError) -> Self {
        Self::EINVAL
    }
}

impl From<StoreError> for Errno {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full { .. } => Self::ENOSPC,
            StoreError::TooLarge { .. } => Self::EFBIG,
            StoreError::Name(_) => Self::ENAMETOOLONG,
            StoreError::NoCollection(_) => Self::ENOENT,
            StoreError::Stopped => Self::EIO,
            StoreError::BadData { .. } => {
                // Clients get only the error number; the log tells an administrator where the damage is.
                log!(OSD, 0, "{}", text(&error));
                Self::EIO
            }
        }
    }
}
