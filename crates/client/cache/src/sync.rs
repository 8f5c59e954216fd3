//! What `evict` and `account` need from outside: `tests/loom.rs` has a namesake made of loom's.

pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(crate) use loligo_lockstat::{Class, Mutex};
