//! The synchronization types of `evict`, `account` and `version`. `tests/loom.rs` replaces this module by
//! one with loom's types.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(crate) use loligo_lockstat::{Class, Mutex};
