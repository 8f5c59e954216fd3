//! An open file in the cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use smallvec::SmallVec;

use crate::backend::Backend;
use crate::error::Error;
use crate::flush::Failed;
use crate::object::{BATCH, Memory, Object, State};
use crate::options::{Mode, Options};
use crate::page::{Page, Run};
use crate::shelf::Restless;
use crate::source::{Shared, Source};
use crate::span::{Part, parts};
use crate::target::Target;

/// A cache of objects' bytes, for any number of files over back ends of one type. Clones share one
/// cache.
#[derive(Debug)]
pub struct Cache<B: Backend> {
    shared: Arc<Shared<B>>,
}

/// The current memory use of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes counted against [`Options::size`], including the bookkeeping for blocks.
    pub used: u64,
    /// Bytes of pages that are allocated, and of what was read with them.
    pub held: u64,
    /// Bytes of blocks that are dirty, or may become dirty by writes in progress.
    pub dirty: u64,
}

/// The result of a read that was answered from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The read has reached data that was read ahead: it is time to read further ahead.
    pub reached: bool,
}

/// An open file in a cache.
///
/// Several openers of one file share its cached data. When a `CachedFile` is dropped, its dirty data is
/// written back a little later, and a failure is not reported: call [`CachedFile::flush`] before.
#[derive(Debug)]
pub struct CachedFile<B: Backend> {
    source: Arc<Source<B>>,
    /// The number of failures of the file that this opener has been told of.
    seen: AtomicU64,
}

impl<B: Backend> Cache<B> {
    /// An empty cache; options that are out of bounds are moved into them.
    pub fn new(options: Options) -> Self {
        Self { shared: Arc::new(Shared::new(options)) }
    }

    /// The options, within their bounds.
    pub fn options(&self) -> &Options {
        &self.shared.memory.options
    }

    /// The current memory use.
    pub fn usage(&self) -> Usage {
        let memory = &self.shared.memory;
        let held = memory.held.load(Ordering::Relaxed);
        Usage { used: memory.used(), held, dirty: memory.dirty() }
    }

    /// Opens a file. `id` identifies it: concurrent openers of the same `id` share the file and the
    /// first opener's back end.
    pub fn open(&self, id: impl Into<Vec<u8>>, backend: B) -> CachedFile<B> {
        let id = id.into();
        let fresh = Arc::new(Source::new(Arc::clone(&self.shared), id.clone(), backend));
        let mut sources = self.shared.sources.lock();
        let source = match sources.get(&id).and_then(std::sync::Weak::upgrade) {
            Some(source) => source,
            None => {
                sources.insert(id, Arc::downgrade(&fresh));
                Arc::clone(&fresh)
            }
        };
        drop(sources);
        source.openers.fetch_add(1, Ordering::SeqCst);
        let seen = AtomicU64::new(source.first_look());
        CachedFile { source, seen }
    }
}

impl<B: Backend> Clone for Cache<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<B: Backend> CachedFile<B> {
    /// The file's back end.
    pub fn backend(&self) -> &B {
        &self.source.backend
    }

    /// Reads a range of an object: the last data written, or else the back end's; zeros where there is
    /// neither. If a range of more than 16 blocks is written at the same time, parts of it may be older
    /// than others.
    ///
    /// # Errors
    /// [`Error::Read`]; the content of `buf` is unspecified then.
    pub async fn read(&self, object: u64, offset: u64, buf: &mut [u8]) -> Result<(), Error<B::Error>> {
        self.read_to(object, (offset, buf.len()), Target::Buffer(buf)).await
    }

    /// As [`CachedFile::read`], of a range given by offset and length, to a target of any kind.
    ///
    /// # Errors
    /// [`Error::Read`]; what has been added to the target is unspecified then.
    pub async fn read_to(
        &self,
        object: u64,
        (offset, len): (u64, usize),
        mut to: Target<'_>,
    ) -> Result<(), Error<B::Error>> {
        let load_max = self.source.load_max();
        let mut at = 0;
        while at < len {
            let here = (len - at).min(load_max);
            let range = (offset + at as u64, here);
            if self.try_read_to(object, range, &mut to.part(at..at + here)).is_none() {
                self.source.load(object, range, to.part(at..at + here)).await?;
            }
            at += here;
        }
        Ok(())
    }

    /// Reads a range if all of it is cached. Otherwise returns `None`, and the content of `buf` is
    /// unspecified. Allocates nothing, and takes no lock, with one exception: a range of several blocks is
    /// looked up under the object's lock if writes to the object go on all the time.
    pub fn try_read(&self, object: u64, offset: u64, buf: &mut [u8]) -> Option<Hit> {
        self.source.copy(object, (offset, buf.len()), &mut Target::Buffer(buf))
    }

    /// As [`CachedFile::try_read`], of a range given by offset and length, to a target of any kind: each
    /// piece is one small allocation. Without all of the range, no piece is added.
    pub fn try_read_to(&self, object: u64, range: (u64, usize), to: &mut Target<'_>) -> Option<Hit> {
        let begin = to.pieces();
        let hit = self.source.copy(object, range, to);
        if hit.is_none() {
            to.back_to(begin);
        }
        hit
    }

    /// Reads a range into the cache, if there is room. Waits for concurrent reads of the range.
    ///
    /// # Errors
    /// [`Error::Read`].
    pub async fn fetch(&self, object: u64, offset: u64, len: u64) -> Result<(), Error<B::Error>> {
        let load_max = self.source.load_max();
        let mut at = 0;
        while at < len {
            let here = (len - at).min(load_max as u64);
            self.source.fetch(object, offset + at, here as usize).await?;
            at += here;
        }
        Ok(())
    }

    /// Like `fetch`, but in the background, as far as there is room, and without reporting failures.
    /// With `mark`, the first read of the first block that was missing reports that it is
    /// [reached](Hit::reached).
    pub fn read_ahead(&self, object: u64, offset: u64, len: u64, mark: bool) {
        self.source.read_ahead(object, offset, len as usize, mark);
    }

    /// Writes to a range of an object. The cache's [`Mode`] determines when the write completes. Waits
    /// while too much is dirty. If the future is dropped, a part may have been written.
    ///
    /// A block that would consist of more than four parts is read from the back end first. Bytes that were
    /// read can be written back with the data around them: two caches that write to one block lose each
    /// other's bytes.
    ///
    /// # Errors
    /// [`Error::WriteBack`] or [`Error::GivenUp`] if the limit of dirty data is reached and data of this
    /// file could not be written back. [`Error::Full`] if that is so of other files, repeatedly. In
    /// [`Mode::WriteThrough`] also if this data could not be written, though it is in the cache.
    /// [`Error::Read`] if a block had to be read first and could not be. A part may have been
    /// written.
    pub async fn write(&self, object: u64, offset: u64, data: &[u8]) -> Result<(), Error<B::Error>> {
        self.write_from(object, offset, Data::Copied(data)).await
    }

    /// As [`CachedFile::write`]; but of long data whole blocks are not copied: the cache keeps all of the
    /// data, counted in [`Usage::held`], as long as it has one of them. For data that is not itself a small
    /// part of something larger.
    ///
    /// # Errors
    /// As [`CachedFile::write`].
    pub async fn write_shared(&self, object: u64, offset: u64, data: Bytes) -> Result<(), Error<B::Error>> {
        let data = Run::counted(data, &self.source.memory.held);
        self.write_from(object, offset, Data::Shared(&data)).await
    }

    async fn write_from(&self, object: u64, offset: u64, data: Data<'_>) -> Result<(), Error<B::Error>> {
        let memory = &self.source.memory;
        let all: SmallVec<[Part; BATCH]> =
            parts(memory.options.block_bytes, offset, data.bytes().len()).collect();
        for some in all.chunks(BATCH) {
            let mut left = some;
            while !left.is_empty() {
                let written = self.write_some(object, data, left).await?;
                left = &left[written..];
                if let Some(gap) = left.first() {
                    // The block would have too many parts.
                    let block = u64::from(memory.options.block_bytes);
                    self.source.fill(object, u64::from(gap.block) * block).await?;
                }
            }
        }
        match memory.options.mode {
            Mode::WriteThrough => self.flush_object(object).await,
            Mode::WriteBack => {
                if memory.is_rather_dirty() {
                    self.source.hurry();
                }
                Ok(())
            }
        }
    }

    /// Writes back all data written to the file until now.
    ///
    /// # Errors
    /// [`Error::WriteBack`] if that failed, or if an earlier failure was not reported to this opener
    /// yet. Data that could not be written is still dirty, and the next call retries.
    pub async fn flush(&self) -> Result<(), Error<B::Error>> {
        let failures = self.source.failures();
        let flushed = self.source.flush().await;
        self.outcome(failures, flushed)
    }

    /// Writes back all data written to the file until now, but does not report earlier failures: they
    /// are left for the next [`CachedFile::flush`], as are those of this call.
    ///
    /// # Errors
    /// [`Error::WriteBack`] or [`Error::GivenUp`] if data is still dirty because that failed.
    pub async fn write_back(&self) -> Result<(), Error<B::Error>> {
        let failures = self.source.failures();
        let flushed = self.source.flush().await;
        flushed.map_err(|Failed| self.source.failed_since(failures).unwrap_or(Error::GivenUp))
    }

    /// Like [`CachedFile::flush`], for one object.
    ///
    /// # Errors
    /// As [`CachedFile::flush`].
    pub async fn flush_object(&self, object: u64) -> Result<(), Error<B::Error>> {
        let failures = self.source.failures();
        let flushed = match self.source.find(object) {
            Some(object) => self.source.flush_object(object).await,
            None => Ok(()),
        };
        self.outcome(failures, flushed)
    }

    /// Drops the cached data of a range of an object, including dirty data: for a caller that truncates
    /// the object or has changed it behind the cache. Waits for write-back in progress. If the range
    /// begins or ends within a dirty block, that block is written back first.
    ///
    /// # Errors
    /// [`Error::WriteBack`] of such a block. Then nothing is dropped, unless the block was written while
    /// other blocks were being dropped.
    pub async fn discard(&self, object: u64, offset: u64, len: u64) -> Result<(), Error<B::Error>> {
        let block = u64::from(self.source.memory.options.block_bytes);
        let end = offset.saturating_add(len);
        let number = |offset: u64| u32::try_from(offset / block).unwrap_or(u32::MAX);
        let (first, last) = (number(offset), number(end.saturating_sub(1)));
        let cut = |at: u64, number: u32| Some(number).filter(|_| at != u64::MAX && !at.is_multiple_of(block));
        let cut = [cut(offset, first), cut(end, last)];
        let found = self.source.find(object).filter(|_| len > 0);
        let Some(found) = found else { return Ok(()) };
        while !self.source.forget(&found, first..=last, cut).await {
            let failures = self.source.failures();
            let flushed = self.source.flush_object(Arc::clone(&found)).await;
            self.outcome(failures, flushed)?;
        }
        Ok(())
    }

    /// The numbers of the objects of which something is cached.
    pub fn objects(&self) -> Vec<u64> {
        self.source.tables.all().iter().map(|object| object.number).collect()
    }

    /// Drops all cached data of the file, including dirty data. Waits for write-back in progress.
    pub async fn discard_all(&self) {
        for object in self.source.tables.all() {
            self.source.forget(&object, 0..=u32::MAX, [None; 2]).await;
        }
    }

    /// Writes back the dirty data and drops all cached data: for a caller that learns of another
    /// client's change.
    ///
    /// # Errors
    /// As [`CachedFile::flush`]. Then nothing is dropped.
    pub async fn invalidate(&self) -> Result<(), Error<B::Error>> {
        self.flush().await?;
        self.discard_all().await;
        Ok(())
    }

    fn outcome(&self, failures: u64, flushed: Result<(), Failed>) -> Result<(), Error<B::Error>> {
        let told = self.source.tell(&self.seen);
        // A concurrent call through this opener may have reported our failure.
        match (told, flushed) {
            (None, Ok(())) => Ok(()),
            (Some(e), _) => Err(e),
            (None, Err(Failed)) => Err(self.source.failed_since(failures).unwrap_or(Error::GivenUp)),
        }
    }

    /// Writes parts until one needs bytes of its block that are not there. Returns the number of parts
    /// written.
    async fn write_some(&self, object: u64, data: Data<'_>, some: &[Part]) -> Result<usize, Error<B::Error>> {
        let source = &self.source;
        let mut dirtying = source.shared.wait_to_dirty(source, some.len() as u64).await?;
        let mut room = source.shared.wait_for_room(some.len() as u64).await;
        let fresh: SmallVec<[Arc<Page>; BATCH]> =
            some.iter().map(|part| self.fresh_page(part, data)).collect();
        let mut old: SmallVec<[Option<Arc<Page>>; BATCH]> = SmallVec::new();
        let written = source.with(object, |object, state| {
            let was_busy = state.is_busy();
            state.seq += 1;
            let mut written = 0;
            object.shelf.change(|| {
                for (part, fresh) in some.iter().zip(fresh) {
                    let block = state.blocks.entry(part.block).or_default();
                    let Some(valid) = block.valid_with(part.span) else { break };
                    if !block.has_page() {
                        room.take();
                    }
                    if !block.is_busy() {
                        dirtying.take();
                    }
                    object.unqueue(&source.memory, block, part.block);
                    let place = || object.shelf.place(&source.memory, part.block);
                    old.push(block.write(fresh, (part.span, valid), state.seq, place));
                    state.dirty.insert(part.block);
                    written += 1;
                }
            });
            if !was_busy && state.is_busy() {
                source.tables.note_busy(object.number, true);
            }
            written
        });
        source.write_back_later();
        Ok(written)
    }

    fn fresh_page(&self, part: &Part, data: Data<'_>) -> Arc<Page> {
        let memory = &self.source.memory;
        let block_bytes = memory.options.block_bytes;
        let bytes = &data.bytes()[part.at..part.at + part.span.len() as usize];
        let shared = match data {
            Data::Shared(run) if part.span.len() == block_bytes => Page::part(run, bytes),
            _ => None,
        };
        Arc::new(shared.unwrap_or_else(|| Page::of_part(block_bytes, part.span, bytes, &memory.held)))
    }
}

/// Data of a write.
#[derive(Clone, Copy)]
enum Data<'a> {
    Copied(&'a [u8]),
    /// The cache may keep it.
    Shared(&'a Bytes),
}

impl<'a> Data<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Self::Copied(data) => data,
            Self::Shared(data) => data,
        }
    }
}

impl<B: Backend> Drop for CachedFile<B> {
    fn drop(&mut self) {
        self.source.openers.fetch_sub(1, Ordering::SeqCst);
        self.source.hurry();
    }
}

type Blocks = std::ops::RangeInclusive<u32>;

/// The result of dropping some blocks.
enum Forgotten {
    All,
    /// The first blocks were dropped; this is the next one.
    Until(u32),
    /// A block that is cut by the range must be written back first.
    IsDirty,
    /// A block is being written back.
    IsWritten,
}

impl<B: Backend> Source<B> {
    /// Adds a range to its target if all of it is cached; else perhaps a part of it.
    pub(crate) fn copy(&self, object: u64, range: (u64, usize), to: &mut Target<'_>) -> Option<Hit> {
        self.tables.look(object, |object| object.copy(&self.memory, range, to))
    }

    /// Reads the missing bytes of a block.
    async fn fill(self: &Arc<Self>, object: u64, offset: u64) -> Result<(), Error<B::Error>> {
        self.fetch(object, offset, self.memory.options.block_bytes as usize).await
    }

    /// Drops blocks once none of them is being written back. Returns `false`, and drops nothing, if a
    /// block in `cut` is dirty.
    async fn forget(&self, object: &Arc<Object>, mut blocks: Blocks, cut: [Option<u32>; 2]) -> bool {
        loop {
            let told = object.changed.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            match self.try_forget(object, blocks.clone(), cut) {
                Forgotten::All => return true,
                Forgotten::Until(next) => blocks = next..=*blocks.end(),
                Forgotten::IsDirty => return false,
                Forgotten::IsWritten => told.await,
            }
        }
    }

    /// Drops the first few of some blocks.
    fn try_forget(&self, object: &Arc<Object>, blocks: Blocks, cut: [Option<u32>; 2]) -> Forgotten {
        let Some(mut state) = object.lock() else { return Forgotten::All };
        if state.writing.range(blocks.clone()).next().is_some() {
            return Forgotten::IsWritten;
        }
        if cut.iter().flatten().any(|number| state.dirty.contains(number)) {
            return Forgotten::IsDirty;
        }
        state.forgotten += 1;
        let mut numbers = state.blocks.range(blocks).map(|(number, _)| *number);
        let some: SmallVec<[u32; BATCH]> = numbers.by_ref().take(BATCH).collect();
        let done = numbers.next().map_or(Forgotten::All, Forgotten::Until);
        let (mut pages, mut clean) = (Vec::with_capacity(some.len()), 0);
        object.shelf.change(|| {
            for number in some {
                clean += self.forget_block(object, &mut state, number, &mut pages);
            }
        });
        if !state.is_busy() {
            self.tables.note_busy(object.number, false);
        }
        object.retire(&self.memory, &mut state);
        drop(state);
        self.memory.blocks_are_clean(clean);
        self.memory.blocks_are_gone(pages.len() as u64);
        done
    }

    /// Returns the number of blocks that are no longer dirty: 0 or 1.
    fn forget_block(
        &self,
        object: &Arc<Object>,
        state: &mut State,
        number: u32,
        pages: &mut Vec<Arc<Page>>,
    ) -> u64 {
        let was_dirty = state.dirty.remove(&number);
        let Some(block) = state.blocks.get_mut(&number) else { return 0 };
        object.unqueue(&self.memory, block, number);
        pages.extend(block.forget(&object.shelf, &self.memory, number));
        object.settle(&self.memory, state, number);
        u64::from(was_dirty)
    }
}

impl Object {
    /// Adds a range to its target if all of it is cached.
    fn copy(&self, memory: &Memory, (offset, len): (u64, usize), to: &mut Target<'_>) -> Option<Hit> {
        let mut wanted = parts(memory.options.block_bytes, offset, len);
        let mut hit = Hit { reached: false };
        while let Some(first) = wanted.next() {
            let mut batch: SmallVec<[Part; BATCH]> = SmallVec::new();
            batch.push(first);
            batch.extend(wanted.by_ref().take(BATCH - 1));
            hit.reached |= match (&batch[..], &mut *to) {
                ([part], Target::Buffer(buf)) => self.shelf.copy(*part, &mut buf[part.indices()])?,
                (several, to) => self.copy_several(several, to)?,
            };
        }
        Some(hit)
    }

    /// Adds parts as they were at one time. Returns whether this read is the first to reach data that was
    /// read ahead.
    fn copy_several(&self, parts: &[Part], to: &mut Target<'_>) -> Option<bool> {
        let (pages, reached) = match self.shelf.pages(parts) {
            Ok(found) => found?,
            Err(Restless) => {
                // Nothing is changed while the lock is held.
                let state = self.lock()?;
                let pages = self.shelf.pages_now(parts)?;
                drop(state);
                (pages, self.shelf.hit(parts))
            }
        };
        for (part, page) in parts.iter().zip(pages) {
            to.page(part, page);
        }
        Some(reached)
    }
}

#[cfg(test)]
mod tests;
