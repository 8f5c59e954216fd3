//! The components shared by all placement groups of an OSD.

use std::sync::Arc;

use crate::asker::Unread;
use crate::clock::Clock;
use crate::hands::Hands;
use crate::history::History;
use crate::made::Made;
use crate::replies::Finisher;
use crate::watch::Load;

/// The components shared by all placement groups of an OSD.
#[derive(Clone)]
pub(crate) struct Helpers {
    pub(crate) finisher: Arc<Finisher>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) load: Arc<Load>,
    pub(crate) history: Arc<History>,
    pub(crate) hands: Arc<Hands>,
    pub(crate) unread: Arc<Unread>,
    pub(crate) made: Arc<Made>,
}

impl Default for Helpers {
    fn default() -> Self {
        let (clock, load, history): (_, _, Arc<History>) = Default::default();
        let hands: Arc<Hands> = Arc::default();
        let (unread, made) = (Unread::new(Arc::clone(&hands)), Made::new(Arc::clone(&hands)));
        Self { finisher: Arc::default(), clock, load, history, hands, unread, made }
    }
}
