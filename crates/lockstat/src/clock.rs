//! The two facts that are asked of the machine: what time it is and which processor this is.

use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Monotonic nanoseconds since the first call.
pub(crate) fn now_ns() -> u64 {
    START.elapsed().as_nanos() as u64
}

/// The processor this thread runs on, or 0 where that cannot be known.
pub(crate) fn cpu() -> u32 {
    // Miri has one processor, and no such call.
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: takes no argument and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}
