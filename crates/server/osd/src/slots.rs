//! The slots of a pool. One is opened when something needs it for the first time: a pool may have many
//! thousand placement groups, and costs a pointer for each until then.

use std::iter;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};

use az::SaturatingAs as _;
use loligo_store::{ObjectStore, StoreError};
use loligo_wire::{Eversion, PgId, PoolId};

use crate::helpers::Helpers;
use crate::slot::Slot;
use crate::stats::{PgStats, PoolStats};

/// As many as the pool was made with placement groups: see `filing.rs`.
pub(crate) struct Slots {
    pool: PoolId,
    /// By their numbers; of one that the store could not open, that it could not.
    cells: Box<[OnceLock<Option<Arc<Slot>>>]>,
    store: Arc<dyn ObjectStore>,
    helpers: Helpers,
    /// The pool is gone.
    is_gone: AtomicBool,
}

impl Slots {
    /// Of a new pool, or of one that the store has already: `there` are the placement groups that it has, of
    /// which all are opened, as it may have to read for that.
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

    /// How many there are, opened or not.
    pub(crate) fn len(&self) -> u32 {
        self.cells.len().saturating_as::<u32>()
    }

    /// One of them. None if the store has stopped.
    ///
    /// Not under a lock: the store is asked.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<Slot>> {
        let cell = self.cells.get(number as usize)?;
        if let Some(slot) = cell.get() {
            return slot.as_ref();
        }
        let pg = PgId { pool: self.pool, seed: number };
        // Others that need the same one meanwhile wait: the store has one that hears of a placement group.
        let slot = cell.get_or_init(|| Slot::open(pg, &*self.store, &self.helpers).map(Arc::new).ok());
        // Either this sees that the pool is gone, or whoever removes it sees the slot.
        fence(Ordering::SeqCst);
        if self.is_gone.load(Ordering::Relaxed) {
            let _ = self.store.remove(pg);
        }
        slot.as_ref()
    }

    /// The same, if it is opened; what is not has nothing in it.
    pub(crate) fn opened(&self, number: u32) -> Option<&Arc<Slot>> {
        self.cells.get(number as usize)?.get()?.as_ref()
    }

    /// All that are opened.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Slot>> {
        self.cells.iter().filter_map(|cell| cell.get()?.as_ref())
    }

    /// What each holds and was asked for.
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

    /// Removes what they hold, as the pool is gone. Requests that were checked before may still run: into
    /// collections that nobody finds any more.
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
        // What the store has is opened at once.
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
