//! The state of one block of an object.

use std::sync::Arc;

use crate::evict::Slot;
use crate::page::Page;
use crate::span::Span;

/// The largest use count. Each use lets the block survive one round of the queue.
const USES_MAX: u8 = 3;

/// A block. It has bytes, or is being read, or both.
#[derive(Debug, Default)]
pub(crate) struct Block {
    page: Option<Arc<Page>>,
    /// The valid part of the page; empty without a page.
    valid: Span,
    /// The part that was changed and is not being written to the back end.
    pub(crate) dirty: Span,
    /// The part that is being written to the back end.
    pub(crate) writing: Span,
    /// The number of the first write that made the block dirty; meaningless if the block is clean.
    pub(crate) dirty_since: u64,
    /// Reads of the back end in progress that will fill in the missing bytes.
    pub(crate) loads: u16,
    uses: u8,
    /// The first read of this block reaches data that was read ahead.
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
        self.page.is_some()
    }

    pub(crate) fn covers(&self, span: Span) -> bool {
        self.page.is_some() && self.valid.contains(span)
    }

    /// Returns the page if `span` is valid, and whether this hit is the first to reach data that was
    /// read ahead. Counts a use.
    pub(crate) fn hit(&mut self, span: Span) -> Option<(Arc<Page>, bool)> {
        let page = self.page.as_ref().filter(|_| self.valid.contains(span))?;
        if self.uses < USES_MAX {
            self.uses += 1;
        }
        let reached = self.mark;
        if reached {
            self.mark = false;
        }
        Some((Arc::clone(page), reached))
    }

    pub(crate) fn set_mark(&mut self) {
        self.mark = true;
    }

    /// Decrements the use count. Returns `false` if it was 0.
    pub(crate) fn forget_a_use(&mut self) -> bool {
        let had = self.uses > 0;
        self.uses = self.uses.saturating_sub(1);
        had
    }

    /// Whether `span` can be written without reading other bytes first.
    pub(crate) fn takes(&self, span: Span) -> bool {
        self.page.is_none() || self.valid.joins(span)
    }

    /// Writes `span`. `fresh` has the bytes at their offsets; it becomes the page if there is none or
    /// the whole block is written. Returns the page that is no longer used, to be freed without the
    /// lock.
    pub(crate) fn write(&mut self, span: Span, fresh: Arc<Page>, seq: u64) -> Option<Arc<Page>> {
        debug_assert!(self.takes(span), "a gap");
        if self.dirty.is_empty() {
            self.dirty_since = seq;
        }
        self.dirty = self.dirty.hull(span);
        match &mut self.page {
            Some(page) if span.len() as usize != page.bytes().len() => {
                let bytes = Arc::make_mut(page).bytes_mut();
                bytes[span.indices()].copy_from_slice(&fresh.bytes()[span.indices()]);
                self.valid = self.valid.hull(span);
                Some(fresh)
            }
            _ => {
                self.valid = span;
                self.page.replace(fresh)
            }
        }
    }

    /// Sets the page, all of it valid, as read from the back end. The block must not have a page.
    pub(crate) fn place(&mut self, page: Arc<Page>) {
        self.valid = Span::new(0, page.bytes().len() as u32);
        self.page = Some(page);
    }

    /// Fills the invalid parts with data from the back end, and with zeros after its end. Valid bytes
    /// stay.
    pub(crate) fn fill(&mut self, loaded: &[u8]) {
        let Some(page) = &mut self.page else { return };
        let whole = Span::new(0, page.bytes().len() as u32);
        if self.valid == whole {
            return;
        }
        let bytes = Arc::make_mut(page).bytes_mut();
        for gap in [0..self.valid.start as usize, self.valid.end as usize..bytes.len()] {
            let known = loaded.get(gap.start..gap.end.min(loaded.len())).unwrap_or_default();
            bytes[gap.start..gap.start + known.len()].copy_from_slice(known);
            bytes[gap.start + known.len()..gap.end].fill(0);
        }
        self.valid = whole;
    }

    /// Returns the page if `span` is valid. Does not count a use.
    pub(crate) fn page_of(&self, span: Span) -> Option<Arc<Page>> {
        self.page.as_ref().filter(|_| self.valid.contains(span)).cloned()
    }

    /// Copies the valid bytes over data that was read: for a reader whose block got no page.
    pub(crate) fn lay_over(&self, span: Span, read: &mut [u8]) {
        let Some(page) = &self.page else { return };
        let (start, end) = (span.start.max(self.valid.start), span.end.min(self.valid.end));
        if start < end {
            let known = &page.bytes()[start as usize..end as usize];
            read[(start - span.start) as usize..(end - span.start) as usize].copy_from_slice(known);
        }
    }

    /// Marks the dirty part as being written. Returns the page and the part.
    pub(crate) fn send(&mut self) -> Option<(Arc<Page>, Span)> {
        let page = self.page.as_ref().filter(|_| !self.dirty.is_empty() && self.writing.is_empty())?;
        self.writing = std::mem::take(&mut self.dirty);
        Some((Arc::clone(page), self.writing))
    }

    /// Ends a write to the back end. If it failed, the part is dirty again, as of write `since`.
    pub(crate) fn sent(&mut self, arrived: bool, since: u64) {
        let was = std::mem::take(&mut self.writing);
        if !arrived {
            self.dirty_since = if self.dirty.is_empty() { since } else { since.min(self.dirty_since) };
            self.dirty = self.dirty.hull(was);
        }
    }

    /// Drops the block's bytes. Returns the page, if there was one.
    pub(crate) fn forget(&mut self) -> Option<Arc<Page>> {
        self.valid = Span::EMPTY;
        self.dirty = Span::EMPTY;
        self.page.take()
    }
}
