//! New rings on their way to the log thread: a stack that is taken as a whole.
//!
//! It takes no lock, so a thread's first entry may be logged while any lock is held. Items are never
//! taken singly, so there is no ABA problem.

use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use crate::sync::AtomicPtr;

/// A stack to which many threads add, and from which one takes all.
pub struct Arrivals<T> {
    newest: AtomicPtr<Node<T>>,
}

struct Node<T> {
    item: T,
    older: *mut Node<T>,
}

impl<T: Send> Arrivals<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    #[cfg(loom)]
    #[allow(clippy::new_without_default, missing_docs)]
    pub fn new() -> Self {
        Self { newest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds an item.
    pub fn add(&self, item: T) {
        let node = Box::into_raw(Box::new(Node { item, older: ptr::null_mut() }));
        let mut newest = self.newest.load(Relaxed);
        loop {
            // SAFETY: no other thread knows the node before the exchange succeeds.
            unsafe { (*node).older = newest };
            // Release: the thread that takes the node sees its contents. Acquire is not needed: older
            // nodes are not accessed.
            match self.newest.compare_exchange_weak(newest, node, AcqRel, Relaxed) {
                Ok(_) => return,
                Err(other) => newest = other,
            }
        }
    }

    /// Takes all items, oldest first.
    pub fn take(&self) -> Vec<T> {
        let mut taken = Vec::new();
        // Most calls find nothing; a load does not need exclusive ownership of the cache line.
        if self.newest.load(Relaxed).is_null() {
            return taken;
        }
        // Acquire: pairs with `add`; the nodes below were released by earlier exchanges of the same
        // word.
        let mut next = self.newest.swap(ptr::null_mut(), Acquire);
        while !next.is_null() {
            // SAFETY: made by `Box::into_raw`, and owned by this thread since the swap.
            let node = unsafe { Box::from_raw(next) };
            next = node.older;
            taken.push(node.item);
        }
        taken.reverse();
        taken
    }
}

impl<T> Drop for Arrivals<T> {
    fn drop(&mut self) {
        let mut next = self.newest.swap(ptr::null_mut(), Acquire);
        while !next.is_null() {
            // SAFETY: as in `take`.
            next = unsafe { Box::from_raw(next) }.older;
        }
    }
}
