//! Short reads from the cache, which end without waiting for anybody.
//!
//! All threads that read a file share its word: with each reference that one of them takes or puts, the
//! word's cache line moves between their processors, and two threads read hardly faster than one. So once
//! threads have met at the word, short reads are counted beside it, each thread in one of a few counters of
//! their own cache lines.
//!
//! A reader counts itself, then looks at the word. A revoke changes the word, then looks at the counters.
//! Between the two steps both have a SeqCst fence: of the two, one sees the other. So the reader finds the
//! capability revoked and reads nothing, or the revoke finds the capability in use. At its end a reader takes
//! itself out of the count and looks at the word once more. If it finds a revoke there, the revoke may have
//! found the reader, and the reader's caller looks whether the revoke can go on. Several readers may find one
//! revoke.
//!
//! Other orders: the count goes down with Release and is read with Acquire, so that a revoke comes after
//! what its readers have read. `tests/loom.rs` checks every interleaving of two readers and a revoke.

use super::sync::{Acquire, AtomicU32, Relaxed, Release, SeqCst, fence};

/// A power of two; threads beyond it share counters.
const COUNTERS: usize = 16;

/// The readers of one word that are not counted in it. Two cache lines each, which processors fetch together.
#[derive(Debug, Default)]
pub(super) struct Readers([Counter; COUNTERS]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Counter(AtomicU32);

/// A reader that is counted, until it is dropped.
pub(super) struct Counted<'a>(&'a AtomicU32);

impl Readers {
    /// Counts a reader of a thread, given by its number. The caller looks at the word afterwards.
    pub(super) fn count(&self, thread: usize) -> Counted<'_> {
        let Counter(count) = &self.0[thread % COUNTERS];
        count.fetch_add(1, Relaxed);
        fence(SeqCst);
        Counted(count)
    }

    /// Returns whether there are readers. The caller has a fence before this, and has changed the word before
    /// the fence.
    pub(super) fn are_there(&self) -> bool {
        self.0.iter().any(|Counter(count)| count.load(Acquire) > 0)
    }
}

impl Drop for Counted<'_> {
    /// The caller looks at the word afterwards.
    fn drop(&mut self) {
        self.0.fetch_sub(1, Release);
        fence(SeqCst);
    }
}
