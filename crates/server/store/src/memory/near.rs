//! Bytes that are about to be read, brought near.

/// Bytes of a piece that are brought: what the processor does not guess itself.
const BROUGHT_MAX: usize = 4096;
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Has the processor bring the first bytes of a piece into its cache, and does not wait for them.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the instruction has no safe form")]
pub(super) fn fetch(piece: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    for line in piece[..piece.len().min(BROUGHT_MAX)].chunks(LINE) {
        // SAFETY: a prefetch of any address changes nothing and faults never; this one is within a slice.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
}

/// Other processors find out themselves.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fetch(_: &[u8]) {}
