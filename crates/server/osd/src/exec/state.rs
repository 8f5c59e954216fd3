//! The state of a placement group that one request leaves to the next.

use std::sync::Arc;

use loligo_wire::Eversion;

use crate::dups::Dups;
use crate::made::Made;
use crate::watch::{Load, Watches};

/// The state of a placement group that changes from request to request, beside its objects.
pub(crate) struct PgState {
    /// The newest change.
    pub(crate) version: Eversion,
    /// The newest user version.
    pub(crate) user_version: u64,
    /// The newest change that the store left pending; zero if there was none.
    pub(crate) submitted: Eversion,
    pub(crate) dups: Dups,
    pub(crate) watches: Watches,
    /// Counts the bytes that requests make.
    pub(crate) made: Arc<Made>,
}

impl PgState {
    /// The state as the last run left it.
    pub(crate) fn new(version: Eversion, dups: Dups, load: Arc<Load>) -> Self {
        let (user_version, submitted) = (version.version, Eversion::default());
        let (watches, made) = (Watches::new(load), Made::new(Arc::default()));
        Self { version, user_version, submitted, dups, watches, made }
    }
}
