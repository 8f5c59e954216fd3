//! Errors of decoding.

use std::fmt;

/// Why bytes could not be decoded. Small and `Copy`: decoding untrusted bytes must not allocate to say no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The value needs more bytes than are left in the buffer or in the enclosing struct.
    Truncated {
        /// Bytes the value claims to need.
        needed: u64,
        /// Bytes that are left.
        left: usize,
    },
    /// The struct says that readers must know at least `compat`, and we know only up to `supported`.
    TooNew {
        /// The Ceph name of the type.
        what: &'static str,
        /// The oldest version whose readers may read this struct, as the writer says.
        compat: u8,
        /// The newest version we read.
        supported: u8,
    },
    /// The struct is older than any release this project speaks to (16.2.0 is the oldest).
    TooOld {
        /// The Ceph name of the type.
        what: &'static str,
        /// The version found.
        version: u8,
        /// The oldest version we read.
        oldest: u8,
    },
    /// A field holds a value that the format does not allow.
    Invalid {
        /// The Ceph name of the type or field.
        what: &'static str,
        /// The value found, or its low 64 bits.
        value: u64,
    },
    /// A checksum inside the bytes does not match them.
    Crc {
        /// The Ceph name of the type.
        what: &'static str,
        /// The checksum the bytes claim.
        expected: u32,
        /// The checksum they have.
        actual: u32,
    },
    /// Bytes are left where the format says that there is nothing more.
    Trailing {
        /// The Ceph name of the type.
        what: &'static str,
        /// How many bytes.
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
