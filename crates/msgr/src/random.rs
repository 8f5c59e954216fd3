//! Numbers that peers cannot guess and that no two processes share.

/// # Panics
/// If the system has no random numbers: nothing works without.
pub(crate) fn u64() -> u64 {
    getrandom::u64().expect("the system gives random numbers")
}

/// # Panics
/// As [`u64()`].
pub(crate) fn u32() -> u32 {
    u64() as u32
}
