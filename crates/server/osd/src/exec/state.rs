//! What a placement group's requests find of those before them.

use std::sync::Arc;

use loligo_wire::Eversion;

use crate::dups::Dups;
use crate::made::Made;
use crate::watch::{Load, Watches};

/// What changes of a placement group from request to request, beside its objects.
pub(crate) struct PgState {
    /// The newest change.
    pub(crate) version: Eversion,
    /// The newest version as users count.
    pub(crate) user_version: u64,
    /// The newest change that the store said was not safe yet; zero if it never did.
    pub(crate) submitted: Eversion,
    pub(crate) dups: Dups,
    pub(crate) watches: Watches,
    /// Where what requests make is counted.
    pub(crate) made: Arc<Made>,
}

impl PgState {
    /// As the last run left the placement group.
    pub(crate) fn new(version: Eversion, dups: Dups, load: Arc<Load>) -> Self {
        let (user_version, submitted) = (version.version, Eversion::default());
        let (watches, made) = (Watches::new(load), Made::new(Arc::default()));
        Self { version, user_version, submitted, dups, watches, made }
    }
}
