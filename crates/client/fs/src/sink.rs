//! A cache above this client, and what it is told.

use std::fmt;
use std::ops::Range;

use crate::node_id::NodeId;

/// Runs something when it is dropped: when the cache above has forgotten what it was told to forget.
#[derive(Default)]
pub struct WhenDone(Option<Box<dyn FnOnce() + Send>>);

impl WhenDone {
    /// Runs `then` when the cache has forgotten the data.
    pub fn new(then: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }

    /// Nobody waits for it.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Joins two into one.
    pub fn and(mut self, mut other: Self) -> Self {
        match (self.0.take(), other.0.take()) {
            (Some(first), Some(second)) => Self::new(move || {
                first();
                second();
            }),
            (one, none) => Self(one.or(none)),
        }
    }
}

impl Drop for WhenDone {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

impl fmt::Debug for WhenDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "waited for" } else { "not waited for" })
    }
}

/// What a cache above this client must not believe any more.
#[derive(Debug)]
pub enum Invalidation {
    /// The attributes of a node.
    Attributes(NodeId),
    /// The data of a file in a range; the server's wish is answered when the last part is dropped.
    Data(NodeId, Range<u64>, WhenDone),
    /// One name of a directory.
    Name(NodeId, Vec<u8>),
    /// All names of a directory.
    Names(NodeId),
    /// Everything: a session was lost.
    Everything,
}

/// A cache above this client. It is told with no lock held, and must not wait: what takes time, as the
/// kernel's answer does, belongs to a thread of its own.
pub trait Sink: Send + Sync + 'static {
    /// Something must not be believed any more.
    fn invalidate(&self, what: Invalidation);

    /// A metadata server asks for memory back: the cache should let go of nodes that nobody uses.
    fn trim(&self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn joined_waits_end_together() {
        let count = Arc::new(AtomicU32::new(0));
        let one = || {
            let count = Arc::clone(&count);
            WhenDone::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            })
        };
        let both = one().and(WhenDone::nothing()).and(one());
        assert_eq!(count.load(Ordering::Relaxed), 0);
        drop(both);
        assert_eq!(count.load(Ordering::Relaxed), 2);
    }
}
