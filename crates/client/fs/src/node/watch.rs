//! Telling a cache above this client what it must not believe any more.

use std::sync::Arc;

use crate::core::Core;
use crate::mount::FileSystem;
use crate::sink::{Invalidation, Sink};

impl FileSystem {
    /// Tells `sink` from now on what a cache above must forget. One sink can watch; `false` if another one
    /// does.
    pub fn watch_invalidations(&self, sink: impl Sink) -> bool {
        self.core.sink.set(Arc::new(sink)).is_ok()
    }
}

impl Core {
    /// Tells the cache above to forget something. No lock may be held.
    pub(crate) fn invalidate(&self, what: Invalidation) {
        if let Some(sink) = self.sink.get() {
            sink.invalidate(what);
        }
    }

    /// Returns `true` if there is a cache above: otherwise there is no need to say what changed.
    pub(crate) fn is_watched(&self) -> bool {
        self.sink.get().is_some()
    }
}
