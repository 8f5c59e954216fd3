//! Leases on names.

use std::sync::Arc;

use super::trust::Trust;

/// A server's promise about a name.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    /// Until when it holds, by the client's clock.
    pub(crate) until_ms: u64,
    /// The server's number of it.
    pub(crate) seq: u32,
    /// The generation of the session that it was given in.
    pub(crate) generation: u32,
    pub(crate) trust: Arc<Trust>,
}

impl Lease {
    pub(super) fn holds(&self, now_ms: u64) -> bool {
        now_ms < self.until_ms && self.generation == self.trust.generation()
    }
}
