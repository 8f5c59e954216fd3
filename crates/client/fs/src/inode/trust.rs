//! Until when a session's capabilities may be relied on.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use loligo_fs_core::Moment;
use loligo_fs_core::caps::Validity;

/// Until when, and in which generation, a session's capabilities may be relied on.
///
/// The data path looks at it without a lock. Generations of all sessions of a process are different, so that
/// a capability of one session never counts in its successor.
#[derive(Debug)]
pub(crate) struct Trust {
    generation: AtomicU32,
    /// Milliseconds of the client's clock.
    until: AtomicU64,
}

fn next_generation() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

impl Default for Trust {
    fn default() -> Self {
        Self { generation: AtomicU32::new(next_generation()), until: AtomicU64::new(0) }
    }
}

impl Trust {
    /// Returns `true` if what the session granted in its current generation may be relied on at a time.
    pub(crate) fn holds_now(&self, now_ms: u64) -> bool {
        now_ms < self.until()
    }

    /// Returns the generation of capabilities that are granted now.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns until when capabilities may be relied on, by the client's clock.
    pub(crate) fn until(&self) -> u64 {
        self.until.load(Ordering::Acquire)
    }

    /// Returns what the rules of capabilities must know.
    pub(crate) fn validity(&self) -> Validity {
        // The generation ends after the time: a reader that sees the new generation also sees that nothing
        // may be relied on.
        let generation = self.generation();
        let until = Moment(Duration::from_millis(self.until()));
        Validity { generation, until }
    }

    /// Extends the time, after a renewal.
    pub(crate) fn extend(&self, until_ms: u64) {
        self.until.fetch_max(until_ms, Ordering::AcqRel);
    }

    /// Nothing may be relied on until the time is extended, or another session has taken over.
    pub(crate) fn suspend(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// Ends the generation: nothing that was granted so far may be relied on.
    pub(crate) fn end_generation(&self) {
        self.suspend();
        self.generation.store(next_generation(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_sessions_share_a_generation() {
        let (one, other) = (Trust::default(), Trust::default());
        assert_ne!(one.generation(), other.generation());
        let before = one.generation();
        one.extend(10);
        assert!(one.holds_now(9) && !one.holds_now(10));
        one.suspend();
        assert!(!one.holds_now(9) && one.generation() == before);
        one.end_generation();
        assert!(![before, other.generation()].contains(&one.generation()));
    }
}
