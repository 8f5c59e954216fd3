//! Compression methods.

/// A compression method (`Compressor::CompressionAlgorithm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Snappy: fast, compresses little.
    Snappy,
    /// DEFLATE: slow.
    Zlib,
    /// Zstandard: of medium speed, compresses most.
    Zstd,
    /// LZ4: fast.
    Lz4,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 4] = [Self::Snappy, Self::Zlib, Self::Zstd, Self::Lz4];

    /// Ceph's name, as in `ms_osd_compression_algorithm`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Snappy => "snappy",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
        }
    }

    /// Returns the method with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Ceph's number of the method.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Snappy => 1,
            Self::Zlib => 2,
            Self::Zstd => 3,
            Self::Lz4 => 4,
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.code() == code)
    }
}
