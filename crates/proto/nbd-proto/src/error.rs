//! What can go wrong, as the protocol says it.

/// Why a command was not carried out: the numbers that clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Fault {
    /// The export can only be read.
    #[error("operation not permitted")]
    Perm = 1,
    /// The back end failed.
    #[error("input/output error")]
    Io = 5,
    /// The request makes no sense.
    #[error("invalid argument")]
    Invalid = 22,
    /// There is no room, or the request reaches behind the end.
    #[error("no space left on device")]
    NoSpace = 28,
    /// More than can be answered at once.
    #[error("value too large")]
    Overflow = 75,
    /// It would not be fast.
    #[error("operation not supported")]
    NotSupported = 95,
    /// The device is being removed.
    #[error("the device is being removed")]
    Shutdown = 108,
}

impl Fault {
    /// As it is sent.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// The fault that an errno is told as; the numbers are Linux's.
    pub fn of_errno(errno: i32) -> Self {
        const EPERM: i32 = 1;
        const EACCES: i32 = 13;
        const EROFS: i32 = 30;
        match errno {
            EPERM | EACCES | EROFS => Self::Perm,
            22 => Self::Invalid,
            // ENOSPC, EDQUOT, EFBIG.
            28 | 122 | 27 => Self::NoSpace,
            95 => Self::NotSupported,
            _ => Self::Io,
        }
    }
}

/// Why a connection is ended: its client does not keep to the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The client set flags that it must not set.
    #[error("the client's flags are {0:#x}")]
    Flags(u32),
    /// Something else stands where an option begins.
    #[error("an option begins with {0:#x}")]
    OptionMagic(u64),
    /// An option has more data than anybody needs.
    #[error("an option has {0} bytes")]
    OptionLength(u32),
    /// Options without end.
    #[error("more than {0} options")]
    Options(u32),
    /// EXPORT_NAME names what cannot be had; there is no way to say so.
    #[error("EXPORT_NAME of what cannot be had")]
    NoExport,
    /// Something was sent behind STARTTLS before TLS was there.
    #[error("{0} bytes in plain text behind STARTTLS")]
    PlainText(usize),
    /// Something else stands where a request begins.
    #[error("a request begins with {0:#x}")]
    RequestMagic(u32),
    /// A request has more data than the server has said it takes.
    #[error("a request has {0} bytes of data")]
    Payload(u64),
}
