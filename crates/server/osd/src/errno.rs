//! Errno values in replies.

use loligo_logring::{log, text};
use loligo_store::StoreError;
use loligo_wire::DecodeError;

/// A positive errno, as Linux numbers it: what a stock OSD answers, negated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted.
    pub const EPERM: Self = Self(1);
    /// No such object.
    pub const ENOENT: Self = Self(2);
    /// Bytes could not be read.
    pub const EIO: Self = Self(5);
    /// Not a thing of this kind.
    pub const ENXIO: Self = Self(6);
    /// To be asked again.
    pub const EAGAIN: Self = Self(11);
    /// A feature that the object lacks.
    pub const ENOEXEC: Self = Self(8);
    /// An identity that is in use.
    pub const EBADF: Self = Self(9);
    /// Somebody else has it.
    pub const EBUSY: Self = Self(16);
    /// The object exists.
    pub const EEXIST: Self = Self(17);
    /// It lies in another namespace.
    pub const EXDEV: Self = Self(18);
    /// Arguments that make no sense.
    pub const EINVAL: Self = Self(22);
    /// As many watches as all clients may have.
    pub const ENFILE: Self = Self(23);
    /// As many watches as a client may have.
    pub const EMFILE: Self = Self(24);
    /// Larger than an object may be.
    pub const EFBIG: Self = Self(27);
    /// No room.
    pub const ENOSPC: Self = Self(28);
    /// Too small a number.
    pub const ERANGE: Self = Self(34);
    /// A name that is too long.
    pub const ENAMETOOLONG: Self = Self(36);
    /// Not known here.
    pub const ENOSYS: Self = Self(38);
    /// No such attribute.
    pub const ENODATA: Self = Self(61);
    /// Too large a number.
    pub const EOVERFLOW: Self = Self(75);
    /// A request that is too long.
    pub const EMSGSIZE: Self = Self(90);
    /// Older than what is there (`EOLDSNAPC`).
    pub const EOLDSNAPC: Self = Self(85);
    /// Not an operation of this server.
    pub const EOPNOTSUPP: Self = Self(95);
    /// As many notifications wait as may.
    pub const ENOBUFS: Self = Self(105);
    /// No such watch.
    pub const ENOTCONN: Self = Self(107);
    /// The client is on the blocklist.
    pub const ESHUTDOWN: Self = Self(108);
    /// The watch has lost its connection.
    pub const ETIMEDOUT: Self = Self(110);
    /// Older than what was asked for.
    pub const ESTALE: Self = Self(116);
    /// The pool's quota is used up.
    pub const EDQUOT: Self = Self(122);
    /// A comparison that did not hold.
    pub const ECANCELED: Self = Self(125);

    /// As a result field carries it.
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
                // Clients hear only that it is one; who looks after the disk must know where.
                log!(OSD, 0, "{}", text(&error));
                Self::EIO
            }
        }
    }
}
