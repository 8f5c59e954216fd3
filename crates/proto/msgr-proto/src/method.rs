//! Compression methods.

/// A compression method (`Compressor::CompressionAlgorithm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Method {
    /// Snappy: fast, compresses little.
    Snappy = 1,
    /// DEFLATE: slow.
    Zlib = 2,
    /// Zstandard: of medium speed, compresses most.
    Zstd = 3,
    /// LZ4: fast.
    Lz4 = 4,
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

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|method| *method as u32 == code)
    }
}
