//! What is known of one block of an object.

use std::sync::Arc;

use crate::evict::Slot;
use crate::page::Page;
use crate::span::Span;

/// More uses than this are not counted: each is a round of the queue that the block survives.
const USES_MAX: u8 = 3;

/// A block. It has bytes, or they are being read, or both.
#[derive(Debug, Default)]
pub(crate) struct Block {
    page: Option<Arc<Page>>,
    /// What of the page is right; empty without one.
    valid: Span,
    /// What of it the back end does not have and is not being sent.
    pub(crate) dirty: Span,
    /// What is being sent.
    pub(crate) writing: Span,
    /// The number of the write since which it is dirty; of no meaning if it is not.
    pub(crate) dirty_since: u64,
    /// Reads of the back end that will fill in what is missing.
    pub(crate) loads: u16,
    uses: u8,
    /// Who reads this reaches what was read ahead.
    mark: bool,
    /// Its place in the queue; only what could be thrown out has one.
    pub(crate) slot: Option<Slot>,
}

impl Block {
    /// Whether it may be thrown out: there is something to throw out, and nobody needs it.
    pub(crate) fn is_idle(&self) -> bool {
        self.loads == 0 && !self.is_busy()
    }

    /// Whether the back end does not have all of it.
    pub(crate) fn is_busy(&self) -> bool {
        !self.dirty.is_empty() || !self.writing.is_empty()
    }

    pub(crate) fn has_page(&self) -> bool {
        self.page.is_some()
    }

    pub(crate) fn covers(&self, span: Span) -> bool {
        self.page.is_some() && self.valid.contains(span)
    }

    /// The page, if all of these bytes of it are right; and whether something that was read ahead is reached.
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

    /// One use less; false if there was none any more.
    pub(crate) fn forget_a_use(&mut self) -> bool {
        let had = self.uses > 0;
        self.uses = self.uses.saturating_sub(1);
        had
    }

    /// Whether these bytes can be written without reading others first.
    pub(crate) fn takes(&self, span: Span) -> bool {
        self.page.is_none() || self.valid.joins(span)
    }

    /// Writes. `fresh` has the bytes at their place, and becomes the page if there is none or all of it is
    /// new. What was the page and is not any more is returned, to be freed without the lock.
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

    /// Gets a page of what the back end has, all of it right. It had none.
    pub(crate) fn place(&mut self, page: Arc<Page>) {
        self.valid = Span::new(0, page.bytes().len() as u32);
        self.page = Some(page);
    }

    /// Fills in what is missing from what the back end has (zeros follow); what is known stays.
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

    /// The page, if all of these bytes of it are right. Not counted as a use.
    pub(crate) fn page_of(&self, span: Span) -> Option<Arc<Page>> {
        self.page.as_ref().filter(|_| self.valid.contains(span)).cloned()
    }

    /// Copies what is known over what was read: for a reader whose block finds no place.
    pub(crate) fn lay_over(&self, span: Span, read: &mut [u8]) {
        let Some(page) = &self.page else { return };
        let (start, end) = (span.start.max(self.valid.start), span.end.min(self.valid.end));
        if start < end {
            let known = &page.bytes()[start as usize..end as usize];
            read[(start - span.start) as usize..(end - span.start) as usize].copy_from_slice(known);
        }
    }

    /// What is dirty is on its way from now on: the page and where it is.
    pub(crate) fn send(&mut self) -> Option<(Arc<Page>, Span)> {
        let page = self.page.as_ref().filter(|_| !self.dirty.is_empty() && self.writing.is_empty())?;
        self.writing = std::mem::take(&mut self.dirty);
        Some((Arc::clone(page), self.writing))
    }

    /// What was on its way has arrived, or is dirty again, as of the write of this number.
    pub(crate) fn sent(&mut self, arrived: bool, since: u64) {
        let was = std::mem::take(&mut self.writing);
        if !arrived {
            self.dirty_since = if self.dirty.is_empty() { since } else { since.min(self.dirty_since) };
            self.dirty = self.dirty.hull(was);
        }
    }

    /// Forgets its bytes; whether there were any.
    pub(crate) fn forget(&mut self) -> Option<Arc<Page>> {
        self.valid = Span::EMPTY;
        self.dirty = Span::EMPTY;
        self.page.take()
    }
}
