//! What a placement group is to those who only tell it something.

use std::sync::Arc;

/// A placement group that is told of what has happened.
pub(crate) trait Group: Send + Sync {
    /// The moment that it asked for has come.
    fn tick(self: Arc<Self>);

    /// A connection is gone which has watches here.
    fn lost(self: Arc<Self>, conn: u64);

    /// Connections may have room for answers again.
    fn eased(self: Arc<Self>);
}

/// Something that begins behind all requests that a placement group has already.
pub(crate) trait Walk: Send + Sync {
    fn begin(&self);
}
