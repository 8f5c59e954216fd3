//! Misses: reading missing data from the back end.
//!
//! All blocks of the range are first marked as being read. Until the reply arrives none of them is
//! evicted, and data written meanwhile stays: the reply fills in only bytes that are still missing then.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::OwnedSemaphorePermit;

use crate::backend::Backend;
use crate::error::Error;
use crate::object::{BATCH, Memory, Object, Room, State};
use crate::page::{Page, Run};
use crate::source::Source;
use crate::span::{Part, parts};
use crate::target::Target;

/// The most bytes of one request.
const LOAD_BYTES_MAX: usize = 4 << 20;

/// Why a range cannot be copied from the cache.
enum Lack {
    /// It can: nothing is missing any more.
    Nothing,
    /// Another task is reading it.
    Comes(Arc<Object>),
    /// It must be read.
    Load(Load),
}

/// Blocks of an object that are in use or being read, until this is dropped.
struct Load {
    memory: Arc<Memory>,
    object: Arc<Object>,
    needed: RangeInclusive<u32>,
    /// The range from the first to the last missing block.
    missing: RangeInclusive<u32>,
    /// [`State::forgotten`] at the start of the load.
    forgotten: u64,
}

impl<B: Backend> Source<B> {
    /// The most bytes that are loaded at a time.
    pub(crate) fn load_max(&self) -> usize {
        LOAD_BYTES_MAX.min(self.memory.transit_blocks as usize * self.memory.options.block_bytes as usize)
    }

    /// Reads a range that was not completely cached, and caches it, if there is room.
    pub(crate) async fn load(
        self: &Arc<Self>,
        object: u64,
        (offset, len): (u64, usize),
        mut to: Target<'_>,
    ) -> Result<(), Error<B::Error>> {
        let begin = to.pieces();
        let mut lack = self.coming(object, offset, len).await;
        loop {
            if let Lack::Load(load) = lack {
                if load.run(self, (offset, len), Some(&mut to), None).await? {
                    return Ok(());
                }
            } else if self.copy(object, (offset, len), &mut to).is_some() {
                return Ok(());
            }
            // A part was evicted before it was copied, or is being dropped. This time the range is
            // pinned, so it is not evicted again.
            to.back_to(begin);
            lack = self.lack(object, offset, len, false);
        }
    }

    /// Reads a range into the cache, if there is room.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        object: u64,
        offset: u64,
        len: usize,
    ) -> Result<(), Error<B::Error>> {
        match self.coming(object, offset, len).await {
            Lack::Load(load) => load.run(self, (offset, len), None, None).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Reads a range ahead, as far as there is room. With `mark`, the first read of the first block
    /// reports that it was reached.
    pub(crate) fn read_ahead(self: &Arc<Self>, object: u64, offset: u64, len: usize, mark: bool) {
        let blocks = parts(self.memory.options.block_bytes, offset, len).count() as u32;
        let Ok(permit) = Arc::clone(&self.memory.transit).try_acquire_many_owned(blocks) else { return };
        let Lack::Load(load) = self.lack(object, offset, len, true) else { return };
        if mark {
            load.mark();
        }
        let source = Arc::clone(self);
        tokio::spawn(async move {
            // A reader that needs the data reads it again and gets the error.
            let _ = load.run(&source, (offset, len), None, Some(permit)).await;
        });
    }

    /// Determines what is missing once no other task is reading it.
    async fn coming(self: &Arc<Self>, object: u64, offset: u64, len: usize) -> Lack {
        let mut lack = self.lack(object, offset, len, true);
        while let Lack::Comes(of) = lack {
            let told = of.changed.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            // The other reader may have ended just before; or the object was removed meanwhile and there
            // is a new one.
            lack = self.lack(object, offset, len, true);
            if matches!(&lack, Lack::Comes(still) if Arc::ptr_eq(still, &of)) {
                told.await;
                lack = self.lack(object, offset, len, true);
            }
        }
        lack
    }

    /// Determines what is missing of a range. If a part must be read, all blocks of the range are marked
    /// as in use.
    fn lack(self: &Arc<Self>, object: u64, offset: u64, len: usize, wait: bool) -> Lack {
        let wanted = parts(self.memory.options.block_bytes, offset, len);
        self.with(object, |object, state| {
            let missing = |part: &Part| !state.blocks.get(&part.block).is_some_and(|b| b.covers(part.span));
            let mut missing = wanted.clone().filter(missing).map(|part| part.block);
            let Some(first) = missing.next() else { return Lack::Nothing };
            let missing = first..=missing.last().unwrap_or(first);
            let comes = |block: &u32| state.blocks.get(block).is_some_and(|block| block.loads > 0);
            if wait && (comes(missing.start()) || comes(missing.end())) {
                return Lack::Comes(Arc::clone(object));
            }
            let block = |part: Part| part.block;
            let needed = wanted.clone().next().map_or(first, block)..=wanted.last().map_or(first, block);
            Lack::Load(Load::enter(&self.memory, object, state, needed, missing))
        })
    }
}

impl Load {
    fn enter(
        memory: &Arc<Memory>,
        object: &Arc<Object>,
        state: &mut State,
        needed: RangeInclusive<u32>,
        missing: RangeInclusive<u32>,
    ) -> Self {
        for number in needed.clone() {
            let block = state.blocks.entry(number).or_default();
            block.loads += 1;
            object.unqueue(memory, block, number);
        }
        let forgotten = state.forgotten;
        Self { memory: Arc::clone(memory), object: Arc::clone(object), needed, missing, forgotten }
    }

    fn mark(&self) {
        let mut state = self.object.state.lock();
        if let Some(block) = state.blocks.get_mut(self.missing.start()) {
            block.set_mark();
        }
    }

    /// Reads the missing blocks, caches those for which there is room, and adds all of the range to its
    /// target, if there is one. Returns `false` if a part of it was dropped meanwhile. Without `leave`,
    /// waits for permits for the memory of the reply.
    async fn run<B: Backend>(
        self,
        source: &Source<B>,
        (offset, range_len): (u64, usize),
        mut to: Option<&mut Target<'_>>,
        leave: Option<OwnedSemaphorePermit>,
    ) -> Result<bool, Error<B::Error>> {
        let block_bytes = u64::from(self.memory.options.block_bytes);
        let begins = u64::from(*self.missing.start()) * block_bytes;
        let len = (u64::from(*self.missing.end()) + 1) * block_bytes - begins;
        // Released after the reply. Its owner waits for nothing but the back end.
        let _leave = match leave {
            Some(leave) => leave,
            None => self.leave((len / block_bytes) as u32).await?,
        };
        let answer = source.backend.read(self.object.number, begins, len).await.map_err(Error::Read)?;
        let answer = Run::counted(answer, &self.memory.held);
        let begin = begins.max(offset);
        let wanted: SmallVec<[Part; BATCH]> = match &to {
            Some(_) => parts(self.memory.options.block_bytes, offset, range_len).collect(),
            None => parts(self.memory.options.block_bytes, begin, (begins + len - begin) as usize).collect(),
        };
        for batch in wanted.chunks(BATCH) {
            let fresh = self.fresh_pages(batch, &answer);
            if !self.take_in(batch, fresh, &answer, to.as_deref_mut()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Acquires permits for a reply of this many blocks.
    async fn leave<E>(&self, blocks: u32) -> Result<OwnedSemaphorePermit, Error<E>> {
        let blocks = blocks.min(self.memory.transit_blocks);
        Arc::clone(&self.memory.transit).acquire_many_owned(blocks).await.map_err(|_| Error::GivenUp)
    }

    /// Makes pages of the data read, if there is room.
    fn fresh_pages<'a>(&'a self, batch: &[Part], answer: &Bytes) -> Option<(Room<'a>, Pages)> {
        let missing = batch.iter().filter(|part| self.missing.contains(&part.block));
        let room = self.memory.room(missing.clone().count() as u64)?;
        let block_bytes = self.memory.options.block_bytes;
        let page = |part: &Part| {
            let loaded = self.answer_of(answer, part.block);
            let whole = Some(loaded).filter(|loaded| loaded.len() == block_bytes as usize);
            whole
                .and_then(|whole| Page::part(answer, whole))
                .unwrap_or_else(|| Page::beginning(block_bytes, loaded, &self.memory.held))
        };
        Some((room, missing.map(page).map(Arc::new).collect()))
    }

    /// Stores the data read in some blocks, and adds the requested parts of them to their target.
    fn take_in(
        &self,
        batch: &[Part],
        fresh: Option<(Room<'_>, Pages)>,
        answer: &Bytes,
        to: Option<&mut Target<'_>>,
    ) -> bool {
        let (mut room, pages) = fresh.map_or((None, Pages::new()), |(room, pages)| (Some(room), pages));
        let mut pages = pages.into_iter();
        let mut found: SmallVec<[Option<Arc<Page>>; BATCH]> = SmallVec::new();
        let mut old: SmallVec<[Arc<Page>; BATCH]> = SmallVec::new();
        let mut state = self.object.state.lock();
        let is_current = state.forgotten == self.forgotten;
        for part in batch {
            let is_missing = self.missing.contains(&part.block);
            let page = if is_missing { pages.next() } else { None };
            let Some(block) = state.blocks.get_mut(&part.block) else {
                found.push(None);
                continue;
            };
            if is_missing && is_current {
                match (block.has_page(), page) {
                    (true, page) => {
                        old.extend(page);
                        old.extend(block.fill(self.answer_of(answer, part.block)));
                    }
                    (false, Some(page)) if room.as_mut().is_some_and(Room::take) => {
                        let place = self.object.shelf.place(&self.memory, part.block);
                        if to.is_none() {
                            place.expect_a_use();
                        }
                        block.show(page, place);
                    }
                    _ => {}
                }
            }
            found.push(block.page());
        }
        drop(state);
        let Some(to) = to else { return true };
        batch.iter().zip(found).all(|(part, page)| match page {
            Some(page) if page.covers(part.span) => {
                to.page(part, page);
                true
            }
            page if self.missing.contains(&part.block) => {
                // There was no room for the block, or not for all of it.
                to.filled(part, |to| {
                    copy_zero_extended(self.answer_of(answer, part.block), part.span.start as usize, to);
                    page.inspect(|page| page.show_in(part.span, to));
                });
                true
            }
            _ => false,
        })
    }

    /// The part of a reply that belongs to a block; shorter at the end of the object.
    fn answer_of<'a>(&self, answer: &'a [u8], block: u32) -> &'a [u8] {
        let block_bytes = self.memory.options.block_bytes as usize;
        let at = (block - self.missing.start()) as usize * block_bytes;
        answer.get(at..answer.len().min(at + block_bytes)).unwrap_or_default()
    }
}

type Pages = SmallVec<[Arc<Page>; BATCH]>;

/// Copies the bytes of `from` at offset `at`, followed by zeros.
fn copy_zero_extended(from: &[u8], at: usize, to: &mut [u8]) {
    let from = from.get(at..).unwrap_or_default();
    let known = from.len().min(to.len());
    to[..known].copy_from_slice(&from[..known]);
    to[known..].fill(0);
}

impl Drop for Load {
    fn drop(&mut self) {
        let (first, last) = (*self.needed.start(), *self.needed.end());
        for from in (first..=last).step_by(BATCH) {
            let mut state = self.object.state.lock();
            for number in from..=last.min(from + (BATCH as u32 - 1)) {
                if let Some(block) = state.blocks.get_mut(&number) {
                    block.loads -= 1;
                }
                self.object.settle(&self.memory, &mut state, number);
            }
            self.object.retire(&self.memory, &mut state);
        }
        self.object.changed.notify_waiters();
        self.memory.room.notify_waiters();
    }
}
