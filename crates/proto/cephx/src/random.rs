//! Random numbers from the operating system.

/// `N` random bytes.
pub(crate) fn array<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}

/// A random number.
pub(crate) fn u64() -> u64 {
    u64::from_le_bytes(array())
}

/// Fills `out` with random bytes.
///
/// # Panics
/// If the kernel provides no random numbers: keys must not be generated then, and the process cannot
/// recover.
pub(crate) fn fill(out: &mut [u8]) {
    getrandom::fill(out).expect("the kernel's random source works on every supported system");
}
