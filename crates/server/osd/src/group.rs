//! A placement group as seen by components that only notify it.

use std::sync::Arc;

/// A placement group that receives notifications.
pub(crate) trait Group: Send + Sync {
    /// The requested wake-up time has come.
    fn tick(self: Arc<Self>);

    /// A connection that has watches here is lost.
    fn lost(self: Arc<Self>, conn: u64);

    /// Connections may have room for replies again.
    fn eased(self: Arc<Self>);
}

/// An action that begins behind all requests already queued in a placement group.
pub(crate) trait Walk: Send + Sync {
    fn begin(&self);
}
