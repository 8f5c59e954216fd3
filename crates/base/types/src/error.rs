//! Errors of decoding.

use std::fmt;

/// The reason why bytes could not be decoded. The type is small and `Copy`: rejecting untrusted bytes
/// must not allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The value needs more bytes than the buffer or the enclosing struct has left.
    Truncated {
        /// The number of bytes that the value needs.
        needed: u64,
        /// The number of bytes left.
        left: usize,
    },
    /// The struct requires readers of at least version `compat`; this decoder supports at most
    /// `supported`.
    TooNew {
        /// The Ceph name of the type.
        what: &'static str,
        /// The oldest version whose readers can read this struct, according to the writer.
        compat: u8,
        /// The newest version that this decoder reads.
        supported: u8,
    },
    /// The struct is older than any release that this project supports (16.2.0 is the oldest).
    TooOld {
        /// The Ceph name of the type.
        what: &'static str,
        /// The version found.
        version: u8,
        /// The oldest version that this decoder reads.
        oldest: u8,
    },
    /// A field holds a value that the format does not allow.
    Invalid {
        /// The Ceph name of the type or field.
        what: &'static str,
        /// The value found, or its low 64 bits.
        value: u64,
    },
    /// A checksum stored in the bytes does not match them.
    Crc {
        /// The Ceph name of the type.
        what: &'static str,
        /// The stored checksum.
        expected: u32,
        /// The computed checksum.
        actual: u32,
    },
    /// Bytes follow the end of the format.
    Trailing {
        /// The Ceph name of the type.
        what: &'static str,
        /// The number of extra bytes.
        left: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { needed, left } => write!(f, "truncated: {needed} bytes needed, {left} left"),
            Self::TooNew { what, compat, supported } => {
                write!(f, "{what} is too new: readers must know version {compat}, this one knows {supported}")
            }
            Self::TooOld { what, version, oldest } => {
                write!(f, "{what} is too old: version {version}, the oldest read is {oldest}")
            }
            Self::Invalid { what, value } => write!(f, "{what} has the impossible value {value:#x}"),
            Self::Crc { what, expected, actual } => {
                write!(f, "{what} is damaged: checksum {actual:#010x}, expected {expected:#010x}")
            }
            Self::Trailing { what, left } => write!(f, "{what} has {left} bytes too many"),
        }
    }
}

impl std::error::Error for DecodeError {}
