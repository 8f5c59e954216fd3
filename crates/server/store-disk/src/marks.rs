//! How far a store is: in its journal, and in what it has numbered.

use std::sync::atomic::AtomicU64;

/// Positions in the journal's ring, and the next numbers.
pub(super) struct Marks {
    /// Bytes of the ring.
    pub(super) journal_len: u64,
    /// Behind the newest group of the journal that is safe. Written by the committer.
    pub(super) head: AtomicU64,
    /// No group may end behind it yet: see [`ahead`](super::ahead).
    pub(super) limit: AtomicU64,
    /// Where a group would end that waits for the limit.
    pub(super) wanted: AtomicU64,
    /// Where a restart would begin. Written by the checkpointer.
    pub(super) tail: AtomicU64,
    /// Of the next record.
    pub(super) next_seq: AtomicU64,
    /// Of the next object.
    pub(super) next_object: AtomicU64,
}

impl Marks {
    /// Of a journal of so many bytes, from a position on up to which it is ready.
    pub(super) fn new(journal_len: u64, at: u64, next_seq: u64, next_object: u64) -> Self {
        Self {
            journal_len,
            head: AtomicU64::new(at),
            limit: AtomicU64::new(at),
            wanted: AtomicU64::new(0),
            tail: AtomicU64::new(at),
            next_seq: AtomicU64::new(next_seq),
            next_object: AtomicU64::new(next_object),
        }
    }
}
