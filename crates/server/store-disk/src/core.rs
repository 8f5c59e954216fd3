//! What all parts of a store share, and what takes several of its parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;

use loligo_lane::{Action, Bound};
use loligo_store::{BatchListeners, Fetch, Later, StoreError};

use super::backend::{BackendFile, Kv};
use super::config::SmallWrites;
use super::filter::Filter;
use super::io::Io;
use super::marks::Marks;
use super::pool::Pool;
use super::queue::{Pending, Pushed, Queue};
use super::signals::Signals;
use super::space::Space;

/// So many records at once make it worth while to write the data of small writes to its place, in a write of
/// its own, rather than twice: into the journal first.
const MANY: u64 = 16;

/// So many objects that were changed since the last checkpoint make for the next one: with what is under way
/// meanwhile, and what stays in memory, some ten thousand more, of about a kilobyte each.
pub(super) const DIRTY_MAX: u64 = 32 << 10;

/// What all parts of a store share.
pub(super) struct Core {
    pub(super) io: Arc<Io>,
    pub(super) space: Space,
    pub(super) filter: Filter,
    pub(super) queue: Queue,
    pub(super) marks: Marks,
    pub(super) signals: Signals,
    /// Told of answers that the committer and the reader give together.
    pub(super) batches: Arc<BatchListeners>,
    small_writes: SmallWrites,
    /// Objects changed since the last checkpoint.
    pub(super) dirty: AtomicU64,
}

/// Where the counters of a [`Core`] begin.
pub(super) struct Start {
    pub(super) journal_len: u64,
    pub(super) journal_at: u64,
    pub(super) next_seq: u64,
    pub(super) next_object: u64,
    /// Of the data cache, at most.
    pub(super) cache_bytes: usize,
    /// Records that may wait for the journal before others are asked to wait.
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

    /// Stops the store for good: after this nothing is written any more, and nobody is told that anything is
    /// safe.
    pub(super) fn stop(&self, why: String) {
        if !self.signals.set_stopped(why) {
            return;
        }
        drop(self.queue.records.close());
        self.signals.call_on_stop();
        self.let_in();
        self.signals.wake();
    }

    /// When whoever has a change and can wait should make it.
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

    /// Lets those go on who wait for room, if there is some, or none will ever be.
    pub(super) fn let_in(&self) {
        if !self.queue.has_waiters() {
            return;
        }
        let stopped = self.signals.why_stopped().is_some();
        if !stopped && !self.queue.has_room() {
            return;
        }
        let waiters = self.queue.take_waiters();
        // On another thread: the committer has other things to do than to go on with requests.
        self.io.pool.push(move || {
            let answer = || if stopped { Err(StoreError::Stopped) } else { Ok(()) };
            waiters.into_iter().for_each(|waiter| waiter.complete(answer()));
        });
    }

    /// The committer has done with these records.
    pub(super) fn handled(&self, group: &[Pending]) {
        self.queue.handled(group);
        self.let_in();
    }

    /// Wakes the committer, if need be, for a record that was pushed. Called without the lock that keeps the
    /// order of records.
    pub(super) fn wake_committer(&self, pushed: Pushed) -> Result<(), StoreError> {
        match pushed.0 {
            Some(Action::Submit) => self.signals.committer.get().into_iter().for_each(Thread::unpark),
            Some(_) => {}
            None => return Err(StoreError::Stopped),
        }
        Ok(())
    }

    /// Whether a small write had better go to its place at once.
    pub(super) fn writes_small_to_place(&self) -> bool {
        match self.small_writes {
            SmallWrites::ToPlace => true,
            SmallWrites::ToJournal => false,
            SmallWrites::ByLoad => self.queue.load() >= MANY,
        }
    }

    /// Has the journal made ready for a group that would end there.
    pub(super) fn want_journal(&self, end: u64) {
        // Release: pairs with the load of who makes it ready.
        self.marks.wanted.fetch_max(end, Ordering::Release);
        self.signals.ahead.get().into_iter().for_each(Thread::unpark);
    }

    /// One more object has changed since the last checkpoint.
    pub(super) fn one_more_dirty(&self) {
        if self.dirty.fetch_add(1, Ordering::Relaxed) == DIRTY_MAX {
            self.signals.want_checkpoint();
        }
    }
}
