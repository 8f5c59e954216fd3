//! The protocol's errors.

use loligo_types::Errno;

/// Why a command failed, with the protocol's error numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Fault {
    /// The export is read-only.
    #[error("operation not permitted")]
    Perm = 1,
    /// The back end failed.
    #[error("input/output error")]
    Io = 5,
    /// The request is not valid.
    #[error("invalid argument")]
    Invalid = 22,
    /// No space is left, or a write reaches beyond the end.
    #[error("no space left on device")]
    NoSpace = 28,
    /// The answer would be too large.
    #[error("value too large")]
    Overflow = 75,
    /// The operation would not be fast.
    #[error("operation not supported")]
    NotSupported = 95,
    /// The device is being removed.
    #[error("the device is being removed")]
    Shutdown = 108,
}

impl Fault {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The fault that an errno is reported as.
    pub fn of_errno(errno: Errno) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES | Errno::EROFS => Self::Perm,
            Errno::EINVAL => Self::Invalid,
            Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => Self::NoSpace,
            Errno::EOPNOTSUPP => Self::NotSupported,
            _ => Self::Io,
        }
    }
}

/// Why a connection is ended: its client has violated the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The client set unknown flags.
    #[error("the client's flags are {0:#x}")]
    Flags(u32),
    /// An option begins with a wrong magic.
    #[error("an option begins with {0:#x}")]
    OptionMagic(u64),
    /// An option's data exceed the limit.
    #[error("an option has {0} bytes")]
    OptionLength(u32),
    /// The client sent too many options.
    #[error("more than {0} options")]
    Options(u32),
    /// The export of EXPORT_NAME is not available; the option has no error reply.
    #[error("EXPORT_NAME of what cannot be had")]
    NoExport,
    /// Bytes followed STARTTLS before TLS had begun.
    #[error("{0} bytes in plain text behind STARTTLS")]
    PlainText(usize),
    /// A request begins with a wrong magic.
    #[error("a request begins with {0:#x}")]
    RequestMagic(u32),
    /// A request has more data than the announced maximum.
    #[error("a request has {0} bytes of data")]
    Payload(u64),
}
