//! Ceph's CRC-32C: the Castagnoli polynomial with a caller-chosen seed and no final inversion
//! (`src/include/crc32c.h`).

use az::SaturatingAs as _;
use crc_fast::{CrcAlgorithm, Digest, crc32_iscsi};

/// Continues the checksum `crc` over `data`. The initial value is `0` or `u32::MAX`, depending on the
/// format.
pub fn crc32c(crc: u32, data: &[u8]) -> u32 {
    // The usual seed takes a faster path, which copies no tables.
    if crc == u32::MAX {
        return !crc32_iscsi(data);
    }
    // A digest's state is the checksum before the final inversion, which standard CRC-32C applies and
    // Ceph does not.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, crc.into());
    digest.update(data);
    digest.get_state().saturating_as::<u32>()
}

/// Computes the checksum, seeded with `u32::MAX`, of the concatenation of `parts`.
pub fn crc32c_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    parts.into_iter().fold(u32::MAX, crc32c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values from Ceph's `src/test/common/test_crc32c.cc`.
    #[test]
    fn known_values() {
        assert_eq!(crc32c(0, b"foo bar baz"), 4_119_623_852);
        assert_eq!(crc32c(1234, b"foo bar baz"), 881_700_046);
        assert_eq!(crc32c(0, b"whiz bang boom"), 2_360_230_088);
    }

    /// Goal: the hardware implementation agrees with the definition. Method: lengths and alignments that
    /// reach each of the hardware's code paths.
    #[test]
    fn hardware_and_definition_agree() {
        let data: Vec<u8> = (0..5000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        for (at, len) in (0..600).map(|i| (i % 17, i)).chain([(1, 1024), (3, 4096), (5, 4099), (0, 5000)]) {
            let data = &data[at.min(5000 - len)..][..len];
            for seed in [0, 1, u32::MAX] {
                assert_eq!(crc32c(seed, data), bit_by_bit(seed, data), "{len} bytes");
            }
            let (a, b) = data.split_at(len / 3);
            assert_eq!(crc32c(crc32c(7, a), b), crc32c(7, data));
        }
    }

    fn bit_by_bit(crc: u32, data: &[u8]) -> u32 {
        data.iter().fold(crc, |crc, byte| {
            (0..8)
                .fold(crc ^ u32::from(*byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
        })
    }
}
