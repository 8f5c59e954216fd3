//! The owners of locks that were taken through an open file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loligo_lockstat::{Class, Mutex};
use tokio::runtime::Handle;

use super::held::Rule;

/// Held to note an owner of a lock.
static OWNERS: Class = Class::new("fs.file.locks");

/// The owners of locks that were taken through one open file.
pub(crate) struct Owners {
    /// Whether anybody ever had one: reads and writes look at it without a lock.
    pub(super) has_any: AtomicBool,
    /// Whether the file's locks were lost, as the inode's [`Held`](super::Held) says.
    are_lost: Arc<AtomicBool>,
    owners: Mutex<BTreeSet<(Rule, u64)>>,
    /// Where locks are given back when the file is dropped.
    pub(super) runtime: Option<Handle>,
}

impl Owners {
    pub(crate) fn new(are_lost: Arc<AtomicBool>) -> Self {
        Self {
            has_any: AtomicBool::new(false),
            are_lost,
            owners: Mutex::new(&OWNERS, BTreeSet::new()),
            runtime: Handle::try_current().ok(),
        }
    }

    pub(super) fn add(&self, rule: Rule, owner: u64) {
        self.owners.lock().insert((rule, owner));
        self.has_any.store(true, Ordering::Release);
    }

    /// Returns `true` if somebody had a lock through this file, and the file's locks were lost.
    pub(super) fn have_lost(&self) -> bool {
        self.has_any.load(Ordering::Acquire) && self.are_lost.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> BTreeSet<(Rule, u64)> {
        std::mem::take(&mut self.owners.lock())
    }
}
