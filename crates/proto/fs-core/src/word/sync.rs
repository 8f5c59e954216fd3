//! The atomic. Under loom it is loom's.

#[cfg(loom)]
pub(super) use loom::sync::atomic::AtomicU64;
#[cfg(not(loom))]
pub(super) use std::sync::atomic::AtomicU64;

pub(super) use std::sync::atomic::Ordering::{self, AcqRel, Acquire};
