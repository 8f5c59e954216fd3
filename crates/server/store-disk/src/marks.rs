//! Positions in the journal, and the next sequence and object numbers.

use std::sync::atomic::AtomicU64;

/// Positions in the journal's ring, and the next numbers.
pub(super) struct Marks {
    /// The length of the ring, in bytes.
    pub(super) journal_len: u64,
    /// The end of the newest safe group of the journal. Written by the committer.
    pub(super) head: AtomicU64,
    /// The position that no group may exceed yet: see [`ahead`](super::ahead).
    pub(super) limit: AtomicU64,
    /// The end of the group that waits for the limit to rise.
    pub(super) wanted: AtomicU64,
    /// The position where a restart begins. Written by the checkpointer.
    pub(super) tail: AtomicU64,
    /// The sequence number of the next record.
    pub(super) next_seq: AtomicU64,
    /// The number of the next object.
    pub(super) next_object: AtomicU64,
}

impl Marks {
    /// Creates the marks of a journal of `journal_len` bytes that is at, and prepared up to, position `at`.
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
