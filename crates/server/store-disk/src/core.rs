//! State that all parts of a store share, and operations that involve several parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use loligo_lane::{Action, Bound};
use loligo_store::{Batches, Fetch, Later, StoreError};

use super::backend::{BackendFile, Kv};
use super::config::SmallWrites;
use super::filter::Filter;
use super::io::Io;
use super::marks::Marks;
use super::pool::Pool;
use super::queue::{Pending, Pushed, Queue};
use super::signals::Signals;
use super::space::Space;

/// If at least this many records are committed together, small writes go directly to their final place, with
/// a write of their own, instead of being written twice: to the journal first.
const MANY: u64 = 16;

/// This many objects changed since the last checkpoint trigger the next one. With objects that change
/// during the checkpoint and those that stay in memory, there may be about ten thousand more, of about a
/// kilobyte each.
pub(super) const DIRTY_MAX: u64 = 32 << 10;

/// State that all parts of a store share.
pub(super) struct Core {
    pub(super) io: Arc<Io>,
    pub(super) space: Space,
    pub(super) filter: Filter,
    pub(super) queue: Queue,
    pub(super) marks: Marks,
    pub(super) signals: Signals,
    /// The listeners of the result batches that the committer and the reader deliver.
    pub(super) batches: Arc<Batches>,
    small_writes: SmallWrites,
    /// Objects changed since the last checkpoint.
    pub(super) dirty: AtomicU64,
}

/// The initial values of a [`Core`]'s counters.
pub(super) struct Start {
    pub(super) journal_len: u64,
    pub(super) journal_at: u64,
    pub(super) next_seq: u64,
    pub(super) next_object: u64,
    /// The maximum size of the data cache, in bytes.
    pub(super) cache_bytes: usize,
    /// The number and bytes of records that may wait for the journal before callers are asked to wait.
    pub(super) waiting_max: Bound,
    pub(super) small_writes: SmallWrites,
}

impl Core {
    pub(super) fn new(
        data: Arc<dyn BackendFile>,
        kv: Arc<dyn Kv>,
        space: Space,
        pool: Pool,
        start: &Start,
    ) -> Self {
        Self {
            io: Arc::new(Io::new(data, kv, pool, start.cache_bytes)),
            space,
            filter: Filter::new(),
            queue: Queue::new(start.waiting_max),
            marks: Marks::new(start.journal_len, start.journal_at, start.next_seq, start.next_object),
            signals: Signals::new(),
            batches: Arc::default(),
            small_writes: start.small_writes,
            dirty: AtomicU64::new(0),
        }
    }

    /// Stops the store for good: nothing is written after this, and no transaction is reported as safe.
    pub(super) fn stop(&self, why: String) {
        if !self.signals.set_stopped(why) {
            return;
        }
        drop(self.queue.records.close());
        self.signals.call_on_stop();
        self.let_in();
        self.signals.wake();
    }

    /// Completes when there is room for another record. Callers that can wait call it before they submit a
    /// transaction.
    pub(super) fn room(&self) -> Fetch<()> {
        if self.queue.has_room() {
            return Fetch::Now(());
        }
        let (later, completer) = Later::new();
        self.queue.wait(completer);
        self.signals.want_checkpoint();
        if self.queue.has_room() || self.signals.why_stopped().is_some() {
            self.let_in();
        }
        Fetch::Later(later)
    }

    /// Completes the callers that wait for room, if there is room or the store has stopped.
    pub(super) fn let_in(&self) {
        if !self.queue.has_waiters() {
            return;
        }
        let stopped = self.signals.why_stopped().is_some();
        if !stopped && !self.queue.has_room() {
            return;
        }
        let waiters = self.queue.take_waiters();
        // On another thread: the committer must not spend its time on the callers' requests.
        self.io.pool.push(move || {
            let answer = || if stopped { Err(StoreError::Stopped) } else { Ok(()) };
            waiters.into_iter().for_each(|waiter| waiter.complete(answer()));
        });
    }

    /// Called by the committer when it has finished with these records.
    pub(super) fn handled(&self, group: &[Pending]) {
        self.queue.handled(group);
        self.let_in();
    }

    /// Wakes the committer, if necessary, for a record that was pushed. Called without the lock that keeps
    /// the order of records.
    pub(super) fn wake_committer(&self, pushed: Pushed) -> Result<(), StoreError> {
        match pushed.0 {
            Some(Action::Submit) => self.signals.committer.get().into_iter().for_each(Thread::unpark),
            Some(_) => {}
            None => return Err(StoreError::Stopped),
        }
        Ok(())
    }

    /// Whether a small write should go to its final place at once.
    pub(super) fn writes_small_to_place(&self) -> bool {
        match self.small_writes {
            SmallWrites::ToPlace => true,
            SmallWrites::ToJournal => false,
            SmallWrites::ByLoad => self.queue.load() >= MANY,
        }
    }

    /// Requests that the journal be prepared for a group that would end at `end`.
    pub(super) fn want_journal(&self, end: u64) {
        // Release: pairs with the load in the thread that prepares the journal.
        self.marks.wanted.fetch_max(end, Ordering::Release);
        self.signals.ahead.get().into_iter().for_each(Thread::unpark);
    }

    /// Counts one more object changed since the last checkpoint.
    pub(super) fn one_more_dirty(&self) {
        if self.dirty.fetch_add(1, Ordering::Relaxed) == DIRTY_MAX {
            self.signals.want_checkpoint();
        }
    }
}
