//! Why an operation on objects failed, and which errno it is.

use loligo_wire::DecodeError;

pub use loligo_cluster::{Errno, Error};

/// Why an operation on objects failed; small, because one lies in every operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpError {
    /// The cluster's answer, or what it would answer.
    Os(Errno),
    /// The answer cannot be read.
    Decode(DecodeError),
    /// An OSD requires features that this client does not have: the bits.
    MissingFeatures(u64),
    /// It was sent under a number that the client no longer has.
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
