//! State shared by all handles of one client.

use std::sync::Arc;

use loligo_cluster::Cluster;
use tokio::task::AbortHandle;

use crate::objecter::Objecter;

/// The parts of a client.
pub(crate) struct Core {
    pub(crate) cluster: Cluster,
    pub(crate) objecter: Arc<Objecter>,
}

/// State that ends with the last handle: the steward, the sessions and the operations in flight.
pub(crate) struct Lifeline {
    pub(crate) core: Core,
    pub(crate) steward: AbortHandle,
}

impl Lifeline {
    /// Ends the OSD sessions and the operations in flight immediately.
    pub(crate) fn close(&self) {
        self.steward.abort();
        self.core.objecter.close();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.close();
    }
}
