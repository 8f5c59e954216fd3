//! The slots of a pool. A slot is opened on first use: a pool may have many thousands of placement
//! groups, and each costs one pointer until then.

use std::iter;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};

use az::SaturatingAs as _;
use loligo_store::{ObjectStore, StoreError};
use loligo_wire::{Eversion, PgId, PoolId};

use crate::helpers::Helpers;
use crate::slot::Slot;
use crate::stats::{PgStats, PoolStats};

/// The slots of one pool: as many as the placement groups it was created with (see `filing.rs`).
pub(crate) struct Slots {
    pool: PoolId,
    /// Indexed by slot number; `None` inside the cell means that the store could not open the slot.
    cells: Box<[OnceLock<Option<Arc<Slot>>>]>,
    store: Arc<dyn ObjectStore>,
    helpers: Helpers,
    /// The pool is deleted.
    is_gone: AtomicBool,
}

impl Slots {
    /// Creates the slots of a new pool, or of one the store already has. `there` lists the placement
    /// groups the store has; all of this pool's are opened now, because opening may read from the store.
    pub(crate) fn new(
        pool: PoolId,
        number: u32,
        there: &[PgId],
        store: &Arc<dyn ObjectStore>,
        helpers: &Helpers,
    ) -> Result<Self, StoreError> {
        let slots = Self {
            pool,
            cells: iter::repeat_with(OnceLock::new).take(number as usize).collect(),
            store: Arc::clone(store),
            helpers: helpers.clone(),
            is_gone: AtomicBool::new(false),
        };
        for pg in there.iter().filter(|pg| pg.pool == pool) {
            if let Some(cell) = slots.cells.get(pg.seed as usize) {
                let slot = Slot::open(*pg, &**store, helpers)?;
                let _ = cell.set(Some(Arc::new(slot)));
            }
        }
        Ok(slots)
    }

    /// The number of slots, opened or not.
    pub(crate) fn len(&self) -> u32 {
        self.cells.len().saturating_as::<u32>()
    }

    /// Returns a slot and opens it if needed. `None` if the store has stopped.
    ///
    /// Must not be called with a lock held: the store may be accessed.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Slot>> {
        let cell = self.cells.get(number as usize)?;
        if let Some(slot) = cell.get() {
            return slot.as_ref();
        }
        let pg = PgId { pool: self.pool, seed: number };
        // Other threads that need the same slot wait here: the store accepts one listener for each
        // placement group.
        let slot = cell.get_or_init(|| Slot::open(pg, &*self.store, &self.helpers).map(Arc::new).ok());
        // Either this thread sees that the pool is deleted, or the thread that deletes it sees the slot.
        fence(Ordering::SeqCst);
        if self.is_gone.load(Ordering::Relaxed) {
            let _ = self.store.remove(pg);
        }
        slot.as_ref()
    }

    /// Returns a slot if it is opened. An unopened slot is empty.
    pub(crate) fn opened(&self, number: u32) -> Option<&Arc<Slot>> {
        self.cells.get(number as usize)?.get()?.as_ref()
    }

    /// All opened slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.cells.iter().filter_map(|cell| cell.get()?.as_ref())
    }

    /// The contents and request counters of each slot.
    pub(crate) fn stats(&self) -> Vec<PgStats> {
        let nothing = |seed| PgStats {
            pg: PgId { pool: self.pool, seed },
            stats: PoolStats::default(),
            version: Eversion::default(),
            remembered: 0,
        };
        let stats = |number| self.opened(number).map_or_else(|| nothing(number), |slot| slot.stats());
        (0..self.len()).map(stats).collect()
    }

    /// Removes the slots' contents after the pool was deleted. Requests checked before may still run, in
    /// collections no later request can reach.
    pub(crate) fn remove(&self) -> Result<(), StoreError> {
        self.is_gone.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let opened = (0..self.len()).filter(|number| self.opened(*number).is_some());
        opened.map(|seed| PgId { pool: self.pool, seed }).try_for_each(|pg| self.store.remove(pg))
    }
}

#[cfg(test)]
mod tests {
    use loligo_store::memory::MemoryStore;

    use super::*;

    const POOL: PoolId = PoolId(3);

    fn pgs(slots: &Slots) -> Vec<PgId> {
        let mut pgs = slots.store.collections();
        pgs.sort_unstable();
        pgs
    }

    fn pg(seed: u32) -> PgId {
        PgId { pool: POOL, seed }
    }

    #[test]
    fn a_placement_group_is_opened_when_it_is_needed_and_stays() {
        let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new(1 << 30));
        let helpers = Helpers::default();
        let slots = Slots::new(POOL, 65_536, &[], &store, &helpers).expect("works");
        assert!(slots.opened(7).is_none() && slots.iter().count() == 0);
        assert_eq!((slots.stats().len(), pgs(&slots)), (65_536, Vec::new()), "statistics open nothing");
        let slot = Arc::clone(slots.get(7).expect("it opens"));
        assert!(Arc::ptr_eq(&slot, slots.get(7).expect("it is there")));
        assert!(slots.get(65_536).is_none());
        assert_eq!((pgs(&slots), slots.iter().count()), (vec![pg(7)], 1));
        // Collections that the store already has are opened at once.
        let again = Slots::new(POOL, 65_536, &pgs(&slots), &store, &helpers).expect("works");
        assert!(again.opened(7).is_some() && again.opened(8).is_none());
    }

    #[test]
    fn what_is_opened_after_its_pool_is_gone_does_not_stay_in_the_store() {
        let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new(1 << 30));
        let slots = Slots::new(POOL, 16, &[], &store, &Helpers::default()).expect("works");
        slots.get(1).expect("it opens");
        slots.remove().expect("works");
        assert_eq!(pgs(&slots), []);
        slots.get(2).expect("it opens");
        assert_eq!(pgs(&slots), []);
    }
}
