//! Data passed between a collection and a checkpoint: what to write, and what was written.

use std::sync::Arc;

use loligo_store::{CollectionStats, ObjectName, OpRecord};

use super::block::Chunk;
use super::layout::Runs;
use super::onode::{Captured, Onode};
use super::rows::{CollectionRow, Stored};
use super::space::Need;

use super::keys;

/// The part of a collection that a checkpoint writes.
pub(super) struct Cut {
    pub(super) row: CollectionRow,
    pub(super) entries: Vec<CutEntry>,
    /// The newest operation records; `first_op` is the number of the first one.
    pub(super) ops: Vec<OpRecord>,
    pub(super) first_op: u64,
    pub(super) dropped: Runs,
    pub(super) promised: Need,
    pub(super) removed: bool,
}

pub(super) struct CutEntry {
    pub(super) name: Arc<ObjectName>,
    pub(super) live: Option<Captured>,
    pub(super) stored: Option<Arc<Stored>>,
}

/// The result of writing an entry: the state in the map, and its chunks.
pub(super) struct Flushed {
    pub(super) name: Arc<ObjectName>,
    pub(super) live: Option<Arc<Onode>>,
    pub(super) stored: Option<Arc<Stored>>,
    pub(super) clean: Vec<(u32, Arc<Chunk>)>,
}

/// The growth of the rows of a collection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grown {
    pub(super) omap_bytes: i64,
    pub(super) omap_keys: i64,
    pub(super) object_rows: i64,
}

impl Grown {
    /// The growth of the capacity that the omaps' rows take.
    pub(super) fn omap_map_bytes(&self) -> i64 {
        self.omap_bytes + self.omap_keys * keys::OMAP_PREFIX_LEN as i64
    }

    /// Adds the growth to the statistics.
    pub(super) fn add_to(self, stats: &mut CollectionStats, object_rows: &mut u64) {
        stats.omap_bytes = stats.omap_bytes.saturating_add_signed(self.omap_bytes);
        stats.omap_keys = stats.omap_keys.saturating_add_signed(self.omap_keys);
        *object_rows = object_rows.saturating_add_signed(self.object_rows);
    }
}
