//! Where an object's pages are found, without the object's lock.
//!
//! Each block that has a page has a place, in which the page is published. Pages never change: a write puts
//! a new one into the place. So a reader sees a block before a write or after it, never in between, and it
//! sees each write that ended before it began. Places are changed under the object's lock only.
//!
//! Places come in rows of [`ROW`], found in an [`Index`]: most blocks come and go without a change of the
//! index. A row that leaves the index is empty, and is not used again: a reader that still has it finds
//! nothing in it, and asks the object.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use arc_swap::ArcSwapOption;
use smallvec::SmallVec;

use crate::index::Index;
use crate::memory::MemoryOf;
use crate::page::Page;
use crate::pieces::Pieces;
use crate::span::Part;
use crate::version::Version;

/// The places in a row.
const ROW: u32 = 16;
/// The largest use count. Each use lets the block survive one round of the queue.
const USES_MAX: u8 = 3;
/// The use count of a block that was read for a reader yet to come: the first use is the one that it was read
/// for, and counts as none. Otherwise whatever is read ahead once would count as used.
const EXPECTED: u8 = u8::MAX;
/// How often several pages are looked at before a reader gives up.
const TRIES: usize = 3;

/// The pages of an object.
#[derive(Debug)]
pub(crate) struct Shelf {
    rows: Index<Row>,
    version: Version,
}

/// The places of neighbouring blocks.
///
/// Use counts and marks are Relaxed, and are changed by a load and a store where two threads may lose each
/// other's change: they decide only what is evicted first, and when to read ahead.
#[derive(Debug)]
struct Row {
    pages: [ArcSwapOption<Page>; ROW as usize],
    uses: [AtomicU8; ROW as usize],
    /// The first read of this block reaches data that was read ahead.
    marks: [AtomicBool; ROW as usize],
    /// The places that blocks have. Changed under the object's lock.
    taken: AtomicU8,
}

/// A block's place.
#[derive(Debug)]
pub(crate) struct Place {
    row: Arc<Row>,
    at: usize,
}

/// Pages of several blocks.
pub(crate) type Pages = SmallVec<[Arc<Page>; ROW as usize]>;

/// Some pages were changed again and again while they were looked at.
#[derive(Debug)]
pub(crate) struct Restless;

impl Shelf {
    pub(crate) fn new() -> Self {
        Self { rows: Index::new(), version: Version::new() }
    }

    /// Copies a part of a block, if it is valid. Returns whether this is the first read to reach data that
    /// was read ahead. Counts a use.
    pub(crate) fn copy(&self, part: Part, to: &mut [u8]) -> Option<bool> {
        let rows = self.rows.load();
        let row = rows.get(row_of(part.block))?;
        let page = row.pages[place_in(part.block)].load();
        let page = page.as_ref().filter(|page| page.covers(part.span))?;
        to.copy_from_slice(&page.bytes()[part.span.indices()]);
        Some(row.hit(place_in(part.block)))
    }

    /// Returns the pages of some parts, as they were at one time, and whether one of them is the first to
    /// reach data that was read ahead; `None` if a part is not valid. Counts uses.
    ///
    /// # Errors
    /// They are being changed: the caller asks again, under the object's lock.
    pub(crate) fn pages(&self, parts: &[Part]) -> Result<Option<(Pages, bool)>, Restless> {
        let once = || self.version.read(|| self.pages_now(parts));
        let pages = (0..TRIES).find_map(|_| once()).ok_or(Restless)?;
        Ok(pages.map(|pages| (pages, self.hit(parts))))
    }

    /// Returns the pages of some parts, if all are valid.
    pub(crate) fn pages_now(&self, parts: &[Part]) -> Option<Pages> {
        let rows = self.rows.load();
        let page = |part: &Part| {
            let row = rows.get(row_of(part.block))?;
            row.pages[place_in(part.block)].load_full().filter(|page| page.covers(part.span))
        };
        parts.iter().map(page).collect()
    }

    /// Counts a use of each part's block. Returns whether one of them is the first to reach data that was
    /// read ahead.
    pub(crate) fn hit(&self, parts: &[Part]) -> bool {
        let rows = self.rows.load();
        parts.iter().fold(false, |reached, part| {
            reached | rows.get(row_of(part.block)).is_some_and(|row| row.hit(place_in(part.block)))
        })
    }

    /// Runs a change of several blocks' pages, which appears at once. Called under the object's lock.
    pub(crate) fn change<R>(&self, change: impl FnOnce() -> R) -> R {
        self.version.change(change)
    }

    /// Takes a place for a block that has none. Called under the object's lock.
    pub(crate) fn place<T: Clone>(&self, memory: &MemoryOf<T>, block: u32) -> Place {
        let row = self.rows.get(row_of(block)).unwrap_or_else(|| {
            let row = Arc::new(Row::new());
            self.rows.insert(row_of(block), Arc::clone(&row));
            memory.row_is_there();
            row
        });
        row.taken.fetch_add(1, Ordering::Relaxed);
        Place { row, at: place_in(block) }
    }

    /// Gives a block's place back. Returns the page that was in it. Called under the object's lock.
    pub(crate) fn clear<T: Clone>(
        &self,
        memory: &MemoryOf<T>,
        block: u32,
        place: Place,
    ) -> Option<Arc<Page>> {
        let Place { row, at } = place;
        let page = row.pages[at].swap(None);
        row.uses[at].store(0, Ordering::Relaxed);
        row.marks[at].store(false, Ordering::Relaxed);
        if row.taken.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.rows.remove(row_of(block));
            memory.row_is_gone();
        }
        page
    }
}

impl Row {
    fn new() -> Self {
        Self {
            pages: std::array::from_fn(|_| ArcSwapOption::empty()),
            uses: std::array::from_fn(|_| AtomicU8::new(0)),
            marks: std::array::from_fn(|_| AtomicBool::new(false)),
            taken: AtomicU8::new(0),
        }
    }

    /// Counts a use. Returns whether it is the first one of data that was read ahead. A block that is read
    /// again and again is not written to.
    fn hit(&self, at: usize) -> bool {
        match self.uses[at].load(Ordering::Relaxed) {
            EXPECTED => self.uses[at].store(0, Ordering::Relaxed),
            uses if uses < USES_MAX => self.uses[at].store(uses + 1, Ordering::Relaxed),
            _ => {}
        }
        self.marks[at].load(Ordering::Relaxed) && self.marks[at].swap(false, Ordering::Relaxed)
    }
}

impl Place {
    /// Publishes a page. Returns the one that it replaces, to be freed without the lock.
    pub(crate) fn put(&self, page: Arc<Page>) -> Option<Arc<Page>> {
        self.row.pages[self.at].swap(Some(page))
    }

    /// Returns the page.
    pub(crate) fn page(&self) -> Option<Arc<Page>> {
        self.row.pages[self.at].load_full()
    }

    /// Returns the valid parts of the page.
    pub(crate) fn valid(&self) -> Pieces {
        self.row.pages[self.at].load().as_ref().map_or(Pieces::EMPTY, |page| page.valid())
    }

    /// Has the next read report that it reached data that was read ahead.
    pub(crate) fn set_mark(&self) {
        self.row.marks[self.at].store(true, Ordering::Relaxed);
    }

    /// A first use is expected, and does not count.
    pub(crate) fn expect_a_use(&self) {
        self.row.uses[self.at].store(EXPECTED, Ordering::Relaxed);
    }

    /// Decrements the use count. Returns `false` if it was 0, or if not even the expected use has come.
    pub(crate) fn forget_a_use(&self) -> bool {
        match self.row.uses[self.at].load(Ordering::Relaxed) {
            0 | EXPECTED => false,
            uses => {
                self.row.uses[self.at].store(uses - 1, Ordering::Relaxed);
                true
            }
        }
    }
}

fn row_of(block: u32) -> u64 {
    u64::from(block / ROW)
}

fn place_in(block: u32) -> usize {
    (block % ROW) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use crate::span::{Span, parts};

    const BLOCK: u32 = 4096;

    fn part(block: u32) -> Part {
        Part { block, span: Span::new(0, BLOCK), at: 0 }
    }

    fn page(memory: &MemoryOf<()>, fill: u8) -> Arc<Page> {
        Arc::new(Page::beginning(BLOCK, &[fill; BLOCK as usize], &memory.held))
    }

    #[test]
    fn a_row_is_there_as_long_as_a_block_has_a_place_in_it() {
        let (shelf, memory) = (Shelf::new(), MemoryOf::<()>::new(Options::default()));
        let places: Vec<_> = [3, 4, 16].map(|block| (block, shelf.place(&memory, block))).into();
        let of_three = memory.used();
        assert!(of_three > 0);
        let mut left = [of_three, of_three / 2, 0].into_iter();
        for (block, place) in places {
            assert!(place.put(page(&memory, 1)).is_none());
            let mut buf = vec![0; BLOCK as usize];
            assert_eq!(shelf.copy(part(block), &mut buf), Some(false));
            assert_eq!(buf, [1; BLOCK as usize]);
            assert!(shelf.clear(&memory, block, place).is_some());
            assert_eq!(shelf.copy(part(block), &mut buf), None);
            assert_eq!(Some(memory.used()), left.next(), "block {block}");
        }
        assert!(shelf.rows.get(0).is_none() && shelf.rows.get(1).is_none());
    }

    #[test]
    fn uses_are_counted_up_to_three_and_a_mark_is_reached_once() {
        let (shelf, memory) = (Shelf::new(), MemoryOf::<()>::new(Options::default()));
        let place = shelf.place(&memory, 7);
        place.set_mark();
        place.put(page(&memory, 1));
        let mut buf = vec![0; BLOCK as usize];
        let reached: Vec<_> = (0..5).map(|_| shelf.copy(part(7), &mut buf)).collect();
        assert_eq!(reached, [Some(true), Some(false), Some(false), Some(false), Some(false)]);
        assert_eq!([(); 4].map(|()| place.forget_a_use()), [true, true, true, false]);
    }

    #[test]
    fn the_use_that_a_block_was_read_for_does_not_count() {
        let (shelf, memory) = (Shelf::new(), MemoryOf::<()>::new(Options::default()));
        let place = shelf.place(&memory, 7);
        place.expect_a_use();
        place.put(page(&memory, 1));
        let mut buf = vec![0; BLOCK as usize];
        assert!(!place.forget_a_use());
        assert_eq!(shelf.copy(part(7), &mut buf), Some(false));
        assert!(!place.forget_a_use());
        assert_eq!(shelf.copy(part(7), &mut buf), Some(false));
        assert_eq!([(); 2].map(|()| place.forget_a_use()), [true, false]);
    }

    #[test]
    fn several_pages_are_refused_while_they_change() {
        let (shelf, memory) = (Shelf::new(), MemoryOf::<()>::new(Options::default()));
        for block in 0..3 {
            shelf.place(&memory, block).put(page(&memory, block as u8));
        }
        let all: Vec<_> = parts(BLOCK, 0, 3 * BLOCK as usize).collect();
        let (pages, reached) = shelf.pages(&all).expect("nothing changes").expect("all are there");
        assert_eq!(pages.iter().map(|page| page.bytes()[0]).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(!reached);
        shelf.change(|| {
            assert!(shelf.pages(&all).is_err());
            assert!(shelf.copy(part(0), &mut [0; BLOCK as usize]).is_some(), "one page is of one time");
        });
        let more: Vec<_> = parts(BLOCK, 0, 4 * BLOCK as usize).collect();
        assert!(shelf.pages(&more).expect("nothing changes").is_none(), "one is missing");
    }
}
