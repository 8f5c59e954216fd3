//! Write-back.
//!
//! An object's dirty blocks are sent in few requests, in which adjacent blocks form one extent. Requests
//! of different objects are sent concurrently. A block is in one request at a time. Each request is a
//! task of its own: a caller that stops waiting does not cancel the request, and its result is recorded
//! in any case. After a failure the blocks are dirty again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustc_hash::FxHashSet;
use tokio::sync::OwnedSemaphorePermit;

use crate::backend::Backend;
use crate::object::{BATCH, Object, State};
use crate::page::Page;
use crate::pieces::Pieces;
use crate::source::Source;

/// The most objects that are written back at a time.
const OBJECTS_AT_ONCE: usize = 16;
/// The most bytes of a request.
const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// The extents after which no further block is added to a request: each costs the OSD some work.
const EXTENTS_MAX: usize = 64;
/// The minimum and maximum delay before a retry after a failure.
const RETRY_TIMES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Not everything was written back; the reason is recorded in [`Source::failures`].
#[derive(Debug)]
pub(crate) struct Failed;

/// The blocks of a request.
struct Batch {
    blocks: Vec<Sent>,
    _permit: OwnedSemaphorePermit,
}

struct Sent {
    number: u32,
    page: Arc<Page>,
    pieces: Pieces,
    since: u64,
}

enum Step {
    Send(Batch),
    /// The remaining blocks are in requests in progress.
    Wait,
    Done,
}

impl<B: Backend> Source<B> {
    /// Writes back the data that is dirty now, and waits for requests in progress.
    pub(crate) async fn flush(self: &Arc<Self>) -> Result<(), Failed> {
        self.flush_while(|| false).await
    }

    /// Like `flush`; but as long as `goes_on`, it goes on with what becomes dirty meanwhile: a writer that is
    /// faster than the back end keeps all requests in progress, and does not wait for the last one of those
    /// that began together.
    async fn flush_while(self: &Arc<Self>, goes_on: impl Fn() -> bool) -> Result<(), Failed> {
        let (mut running, mut begun) = (FuturesUnordered::new(), FxHashSet::default());
        let (mut due, mut result) = (VecDeque::from(self.tables.busy()), Ok(()));
        loop {
            while running.len() < OBJECTS_AT_ONCE
                && let Some(object) = due.pop_front()
            {
                let number = object.number;
                if begun.insert(number) {
                    running.push(async move { (number, self.flush_object(object).await) });
                }
            }
            let Some((number, done)) = running.next().await else { return result };
            begun.remove(&number);
            result = result.and(done);
            if due.is_empty() && result.is_ok() && goes_on() {
                due =
                    self.tables.busy().into_iter().filter(|object| !begun.contains(&object.number)).collect();
            }
        }
    }

    /// Like `flush`, for one object.
    pub(crate) async fn flush_object(self: &Arc<Self>, object: Arc<Object>) -> Result<(), Failed> {
        let until = object.state.lock().seq;
        let blocks_max = REQUEST_BYTES_MAX / self.memory.options.block_bytes;
        loop {
            let told = object.changed.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            let dirty = object.state.lock().dirty.len().try_into().unwrap_or(u32::MAX);
            let permits = blocks_max.min(self.memory.transit_blocks / 4).clamp(1, dirty.max(1));
            let transit = Arc::clone(&self.memory.transit);
            let Ok(permit) = transit.acquire_many_owned(permits).await else { return Err(Failed) };
            let step = self.step(&mut object.state.lock(), until, permit);
            match step {
                Step::Done => return Ok(()),
                Step::Wait => told.await,
                Step::Send(batch) => {
                    let sent = send(Arc::clone(self), Arc::clone(&object), batch);
                    tokio::spawn(sent).await.map_err(|_| Failed)??;
                }
            }
        }
    }

    /// Chooses the next step for an object.
    fn step(&self, state: &mut State, until: u64, permit: OwnedSemaphorePermit) -> Step {
        let mut blocks: Vec<Sent> = Vec::with_capacity(permit.num_permits());
        let mut extents = 0;
        let State { blocks: all, dirty, .. } = &mut *state;
        for number in dirty.iter() {
            let Some(block) = all.get_mut(number).filter(|block| block.dirty_since <= until) else {
                continue;
            };
            let since = block.dirty_since;
            let Some((page, pieces)) = block.send() else { continue };
            let sent = Sent { number: *number, page, pieces, since };
            let goes_on = blocks.last().is_some_and(|last| last.goes_on_in(&sent));
            extents += pieces.iter().len() - usize::from(goes_on);
            blocks.push(sent);
            if blocks.len() == permit.num_permits() || extents >= EXTENTS_MAX {
                break;
            }
        }
        if !blocks.is_empty() {
            for sent in &blocks {
                state.dirty.remove(&sent.number);
                state.writing.insert(sent.number, sent.since);
            }
            return Step::Send(Batch { blocks, _permit: permit });
        }
        // A block with a part in progress cannot be sent; its dirty part is newer than the part in
        // progress.
        let waits = state.writing.values().any(|since| *since <= until);
        if waits { Step::Wait } else { Step::Done }
    }

    /// Starts the write-back task, unless it is running.
    pub(crate) fn write_back_later(self: &Arc<Self>) {
        // SeqCst here and below: either this call sees that the task has stopped, or the task sees the
        // dirty data.
        if !self.is_written_back.load(Ordering::SeqCst) && !self.is_written_back.swap(true, Ordering::SeqCst)
        {
            tokio::spawn(Arc::clone(self).write_back());
        }
    }

    /// Writes back periodically until nothing is dirty.
    async fn write_back(self: Arc<Self>) {
        let mut pause = self.memory.options.dirty_time;
        loop {
            tokio::select! {
                () = self.hurry.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let flushed = self.flush_while(|| self.memory.is_rather_dirty()).await;
            if !self.is_busy() {
                self.is_written_back.store(false, Ordering::SeqCst);
                if !self.is_busy() || self.is_written_back.swap(true, Ordering::SeqCst) {
                    return;
                }
            } else if flushed.is_err() && self.openers.load(Ordering::SeqCst) == 0 {
                // No opener is left to report the failure to. A new opener, or a write that waits for
                // dirty data to become less, starts the task again.
                self.is_written_back.store(false, Ordering::SeqCst);
                return;
            }
            pause = match flushed {
                Ok(()) => self.memory.options.dirty_time,
                Err(Failed) => {
                    let pause = pause.clamp(RETRY_TIMES.0, RETRY_TIMES.1 / 2) * 2;
                    tokio::time::sleep(RETRY_TIMES.0).await;
                    pause
                }
            };
        }
    }
}

impl Sent {
    /// Whether the next block continues this one without a gap.
    fn goes_on_in(&self, next: &Self) -> bool {
        let first = next.pieces.iter().next();
        let last = self.pieces.iter().next_back();
        next.number == self.number + 1
            && first.is_some_and(|span| span.start == 0)
            && last.is_some_and(|span| span.end as usize == self.page.bytes().len())
    }

    /// Calls `take` for each piece: with its offset in the object, and its bytes.
    fn pieces_at(self, block_bytes: u32, mut take: impl FnMut(u64, Bytes)) {
        let begins = u64::from(self.number) * u64::from(block_bytes);
        for span in self.pieces.iter() {
            take(begins + u64::from(span.start), Arc::clone(&self.page).share(span));
        }
    }
}

/// Sends a request and records its result.
async fn send<B: Backend>(source: Arc<Source<B>>, object: Arc<Object>, batch: Batch) -> Result<(), Failed> {
    let blocks = batch.blocks.iter().map(|sent| (sent.number, sent.since)).collect();
    let Batch { blocks: sent, _permit } = batch;
    let extents = extents(sent, source.memory.options.block_bytes);
    let mut under_way = UnderWay { source, object, blocks, arrived: false, failed: false };
    let result = under_way.source.backend.write(under_way.object.number, extents).await;
    match result {
        Ok(()) => under_way.arrived = true,
        Err(e) => {
            // Recorded before any other task can see that the blocks are dirty again.
            under_way.source.failed(Some(e));
            under_way.failed = true;
        }
    }
    if under_way.arrived { Ok(()) } else { Err(Failed) }
}

/// Blocks in a request. When dropped, they become clean if the request succeeded, and dirty again
/// otherwise.
struct UnderWay<B: Backend> {
    source: Arc<Source<B>>,
    object: Arc<Object>,
    blocks: Vec<(u32, u64)>,
    arrived: bool,
    /// The failure is recorded already.
    failed: bool,
}

impl<B: Backend> Drop for UnderWay<B> {
    fn drop(&mut self) {
        match (self.arrived, self.failed) {
            (true, _) => self.source.shared.standstill.goes_on(),
            // The task ended before the back end replied.
            (false, false) => self.source.failed(None),
            (false, true) => {}
        }
        for some in self.blocks.chunks(BATCH) {
            note(&self.source, &self.object, some, self.arrived);
        }
        self.object.changed.notify_waiters();
        self.source.memory.room.notify_waiters();
    }
}

/// Converts blocks to extents: adjacent pieces are one. The back end gets the pages themselves; what is
/// written meanwhile is in others.
fn extents(blocks: Vec<Sent>, block_bytes: u32) -> Vec<(u64, Vec<Bytes>)> {
    let (mut extents, mut end) = (Vec::<(u64, Vec<Bytes>)>::new(), None);
    for sent in blocks {
        sent.pieces_at(block_bytes, |offset, piece| {
            let ends = offset + piece.len() as u64;
            match extents.last_mut().filter(|_| end == Some(offset)) {
                Some((_, pieces)) => pieces.push(piece),
                None => extents.push((offset, vec![piece])),
            }
            end = Some(ends);
        });
    }
    extents
}

fn note<B: Backend>(source: &Source<B>, object: &Arc<Object>, blocks: &[(u32, u64)], arrived: bool) {
    let mut state = object.state.lock();
    let mut clean = 0;
    for (number, since) in blocks {
        let Some(block) = state.blocks.get_mut(number) else { continue };
        block.sent(arrived, *since);
        let is_dirty = block.is_busy();
        state.writing.remove(number);
        if is_dirty {
            state.dirty.insert(*number);
        } else {
            clean += 1;
            object.settle(&source.memory, &mut state, *number);
        }
    }
    if !state.is_busy() {
        source.tables.note_busy(object.number, false);
    }
    drop(state);
    source.memory.blocks_are_clean(clean);
}
