//! The atomics that `word.rs` is built from; `tests/loom.rs` has loom's under the same names.

pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
