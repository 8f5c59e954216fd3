//! The state of one block of an object.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::evict::Slot;
use crate::memory::MemoryOf;
use crate::page::Page;
use crate::pieces::Pieces;
use crate::shelf::{Place, Shelf};
use crate::span::Span;

/// A block. It has bytes, or is being read, or both.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Where readers find the page: there is one exactly if the block has a page.
    place: Option<Place>,
    /// The parts that were changed and are not being written to the back end.
    pub(crate) dirty: Pieces,
    /// The parts that are being written to the back end.
    pub(crate) writing: Pieces,
    /// The number of the first write that made the block dirty; meaningless if the block is clean.
    pub(crate) dirty_since: u64,
    /// Reads of the back end in progress that will fill in the missing bytes.
    pub(crate) loads: u16,
    /// The first read of the page that comes reaches data that was read ahead.
    mark: bool,
    /// The block's slot in the eviction queue; only idle blocks have one.
    pub(crate) slot: Option<Slot>,
}

impl Block {
    /// Whether the block may be evicted or removed: it is neither being read nor busy.
    pub(crate) fn is_idle(&self) -> bool {
        self.loads == 0 && !self.is_busy()
    }

    /// Whether some of its bytes have not reached the back end.
    pub(crate) fn is_busy(&self) -> bool {
        !self.dirty.is_empty() || !self.writing.is_empty()
    }

    pub(crate) fn has_page(&self) -> bool {
        self.place.is_some()
    }

    /// The valid parts of the page; none without a page.
    fn valid(&self) -> Pieces {
        self.place.as_ref().map_or(Pieces::EMPTY, Place::valid)
    }

    /// Returns the page. Does not count a use.
    pub(crate) fn page(&self) -> Option<Arc<Page>> {
        self.place.as_ref().and_then(Place::page)
    }

    pub(crate) fn covers(&self, span: Span) -> bool {
        self.valid().contains(span)
    }

    pub(crate) fn set_mark(&mut self) {
        match &self.place {
            Some(place) => place.set_mark(),
            None => self.mark = true,
        }
    }

    /// Decrements the use count. Returns `false` if it was 0.
    pub(crate) fn forget_a_use(&self) -> bool {
        self.place.as_ref().is_some_and(Place::forget_a_use)
    }

    /// Returns the valid parts after `span` is written; `None` if other bytes must be read first, because
    /// there would be too many parts.
    pub(crate) fn valid_with(&self, span: Span) -> Option<Pieces> {
        self.valid().with(span)
    }

    /// Writes `span`, the valid part of `fresh`, which nobody else has. `valid` is [`Block::valid_with`] it.
    /// `place` is called if the block has no page. Returns the page that is no longer used, to be freed
    /// without the lock.
    pub(crate) fn write(
        &mut self,
        mut fresh: Arc<Page>,
        (span, valid): (Span, Pieces),
        seq: u64,
        place: impl FnOnce() -> Place,
    ) -> Option<Arc<Page>> {
        if self.dirty.is_empty() {
            self.dirty_since = seq;
        }
        self.dirty = self.dirty.with_known(span, &valid);
        let Some(known) = &self.place else {
            self.show(fresh, place());
            return None;
        };
        if let Some(older) = known.page() {
            Arc::make_mut(&mut fresh).lay_under(&older, valid);
        }
        known.put(fresh)
    }

    /// Sets the page, all of it valid, as read from the back end. The block must not have a page.
    pub(crate) fn show(&mut self, page: Arc<Page>, place: Place) {
        // Before the page: its first reader finds the mark.
        if std::mem::take(&mut self.mark) {
            place.set_mark();
        }
        let none = place.put(page);
        debug_assert!(none.is_none(), "a place is empty when it is taken");
        self.place = Some(place);
    }

    /// Fills the invalid parts with data from the back end, and with zeros after its end. Valid bytes
    /// stay. Returns a page that is no longer used, to be freed without the lock.
    pub(crate) fn fill(&mut self, loaded: &[u8]) -> Option<Arc<Page>> {
        let place = self.place.as_ref()?;
        let known = place.page().filter(|known| !known.is_whole())?;
        place.put(Arc::new(known.completed(loaded)))
    }

    /// Moves the page out of what was read with it: the block stays, and the rest need not. Returns a page
    /// that is no longer used.
    pub(crate) fn move_out(&self, held: &Arc<AtomicU64>) -> Option<Arc<Page>> {
        let place = self.place.as_ref()?;
        place.put(Arc::new(place.page()?.moved_out(held)?))
    }

    /// Marks the dirty parts as being written. Returns the page and the parts.
    pub(crate) fn send(&mut self) -> Option<(Arc<Page>, Pieces)> {
        if self.dirty.is_empty() || !self.writing.is_empty() {
            return None;
        }
        let page = self.page()?;
        self.writing = std::mem::take(&mut self.dirty);
        Some((page, self.writing))
    }

    /// Ends a write to the back end. If it failed, the parts are dirty again, as of write `since`.
    pub(crate) fn sent(&mut self, arrived: bool, since: u64) {
        let was = std::mem::take(&mut self.writing);
        if !arrived {
            self.dirty_since = if self.dirty.is_empty() { since } else { since.min(self.dirty_since) };
            self.dirty = self.dirty.with_all_known(&was, &self.valid());
        }
    }

    /// Drops the block's bytes. Returns the page, if there was one.
    pub(crate) fn forget<T: Clone>(
        &mut self,
        shelf: &Shelf,
        memory: &MemoryOf<T>,
        number: u32,
    ) -> Option<Arc<Page>> {
        self.dirty = Pieces::EMPTY;
        let place = self.place.take()?;
        shelf.clear(memory, number, place)
    }
}
