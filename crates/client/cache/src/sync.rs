//! The synchronization types of `evict` and `account`. `tests/loom.rs` replaces this module by one with
//! loom's types.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(crate) use loligo_lockstat::{Class, Mutex};
