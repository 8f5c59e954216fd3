//! Prefetches bytes that are about to be read.

/// The maximum number of bytes prefetched of a piece; the processor's own prefetcher handles the rest.
const BROUGHT_MAX: usize = 4096;
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Tells the processor to load the first bytes of a piece into its cache, without waiting for them.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "the instruction has no safe form")]
pub(super) fn fetch(piece: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    for line in piece[..piece.len().min(BROUGHT_MAX)].chunks(LINE) {
        // SAFETY: a prefetch of any address changes no state and never faults; this address is within a
        // slice.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
}

/// Other architectures rely on the hardware prefetcher.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn fetch(_: &[u8]) {}
