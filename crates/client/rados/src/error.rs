//! Errors of operations on objects and their errno values.

use loligo_wire::DecodeError;

pub use loligo_cluster::{Errno, Error};

/// Why an operation on objects failed. It is small because every operation contains one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpError {
    /// The cluster's errno, or one the client determined itself.
    Os(Errno),
    /// The reply could not be decoded.
    Decode(DecodeError),
    /// An OSD requires features that this client does not have. Holds the missing feature bits.
    MissingFeatures(u64),
    /// The operation was sent under a global id that the client no longer has.
    NewIdentity,
    /// The client was shut down.
    Shutdown,
}

impl From<OpError> for Error {
    fn from(e: OpError) -> Self {
        match e {
            OpError::Os(errno) => Self::Os(errno),
            OpError::Decode(source) => Self::Decode { what: "osd_op_reply", source },
            OpError::MissingFeatures(bits) => Self::MissingFeatures(bits),
            OpError::NewIdentity => Self::NewIdentity,
            OpError::Shutdown => Self::Shutdown,
        }
    }
}
