//! The order of random accesses in all measurements.

/// Scrambles a number (the finalizer of SplitMix64). It is deterministic: the same run reads the same
/// objects, or blocks of a file.
pub fn scramble(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}
