//! Ceph's CRC-32C: the Castagnoli polynomial with a caller-chosen seed and no final inversion
//! (`src/include/crc32c.h`).

/// Continues the checksum `crc` over `data`. Start with `0` or `u32::MAX`, as the format at hand says.
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    !crc32c::crc32c_append(!crc, data)
}

/// A checksum (seeded with `u32::MAX`) of the concatenation of `parts`.
pub fn crc32c_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    parts.into_iter().fold(u32::MAX, crc32c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Ceph's `src/test/common/test_crc32c.cc`.
    #[test]
    fn known_values() {
        assert_eq!(crc32c(0, b"foo bar baz"), 4_119_623_852);
        assert_eq!(crc32c(1234, b"foo bar baz"), 881_700_046);
        assert_eq!(crc32c(0, b"whiz bang boom"), 2_360_230_088);
    }
}
