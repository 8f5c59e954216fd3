//! Records waiting to be written to the journal, and the callers waiting for room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use loligo_lane::{Action, Bound, Lane};
use loligo_lockstat::{Class, Mutex};
use loligo_store::{CommitListener, Completer};
use loligo_wire::Eversion;
use smallvec::SmallVec;

use super::block::Moving;

/// Held to take out all waiting records; adding one takes no lock.
static COMMITS: Class = Class::new("store.commits");
/// Held to add one waiter, or to take out all.
static WAITERS: Class = Class::new("store.room");
static LISTENER: Class = Class::new("store.listener");

/// If this many records, or this many bytes of them, wait for the journal, callers that can wait do so. The
/// bound is twice what the OSD admits from its clients. No record is refused: its transaction is already
/// applied in memory.
pub(super) const WAITING_MAX: Bound = Bound { items: 128 << 10, bytes: 1 << 30 };
/// Callers also wait if this many bytes of large writes are in memory until the next checkpoint. During a
/// checkpoint there may be twice as many.
const LARGE_BYTES_MAX: u64 = 512 << 20;

/// The listener of a collection's commits: that of the last `open`.
pub(super) struct Audience(Mutex<Option<Arc<dyn CommitListener>>>);

impl Audience {
    /// Creates an audience without a listener.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&LISTENER, None)))
    }

    pub(super) fn set(&self, listener: Arc<dyn CommitListener>) {
        let old = self.0.lock().replace(listener);
        drop(old);
    }

    pub(super) fn get(&self) -> Option<Arc<dyn CommitListener>> {
        self.0.lock().clone()
    }
}

/// The writes of a transaction that have a place.
pub(super) type Larges = SmallVec<[Moving; 1]>;

/// A record waiting to be written to the journal.
pub(super) struct Pending {
    pub(super) record: Bytes,
    /// Written to their places before the record.
    pub(super) larges: Larges,
    /// The listener to notify when the record is safe.
    pub(super) audience: Arc<Audience>,
    /// The version to report to it; `None` if the collection was removed.
    pub(super) version: Option<Eversion>,
}

impl Pending {
    fn weight(&self) -> usize {
        self.record.len() + self.large_len()
    }

    /// Bytes to write to their places.
    pub(super) fn large_len(&self) -> usize {
        self.larges.iter().map(|moving| moving.data.len()).sum()
    }
}

/// The result of passing a record to the committer; `None` if the store has stopped.
#[must_use]
pub(super) struct Pushed(pub(super) Option<Action>);

pub(super) struct Queue {
    pub(super) records: Lane<Pending>,
    /// The number of records pushed, and of those the committer has finished with: see
    /// [`Queue::committer_is_past`].
    pushed: AtomicU64,
    handled: AtomicU64,
    /// Bytes of the records that the committer has not finished with.
    waiting_bytes: AtomicUsize,
    waiting_max: Bound,
    /// The callers waiting for room, and whether there are any.
    waiters: Mutex<Vec<Completer<()>>>,
    has_waiters: AtomicBool,
    /// The number of records in the committer's newest group.
    group_records: AtomicUsize,
    /// Bytes of large writes that are in memory until the next checkpoint.
    large_bytes: AtomicU64,
}

impl Queue {
    /// `waiting_max`: the number and bytes of records that may wait for the journal before callers are
    /// asked to wait.
    pub(super) fn new(waiting_max: Bound) -> Self {
        Self {
            records: Lane::new(&COMMITS, usize::MAX),
            pushed: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            waiting_bytes: AtomicUsize::new(0),
            waiting_max,
            waiters: Mutex::new(&WAITERS, Vec::new()),
            has_waiters: AtomicBool::new(false),
            group_records: AtomicUsize::new(0),
            large_bytes: AtomicU64::new(0),
        }
    }

    /// Adds a record.
    pub(super) fn push(&self, pending: Pending) -> Pushed {
        // Called under the lock of the record's collection, which a checkpoint takes before it reads the
        // count.
        self.pushed.fetch_add(1, Ordering::Relaxed);
        self.waiting_bytes.fetch_add(pending.weight(), Ordering::Relaxed);
        Pushed(self.records.push(pending).ok())
    }

    /// The number of records pushed so far.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// Called by the committer when it has finished with these records.
    pub(super) fn handled(&self, group: &[Pending]) {
        self.waiting_bytes.fetch_sub(group.iter().map(Pending::weight).sum(), Ordering::SeqCst);
        // SeqCst: publishes the committer's writes, and is ordered before the check for waiters.
        self.handled.fetch_add(group.len() as u64, Ordering::SeqCst);
    }

    /// Whether the committer has finished with the first `pushed` records. Until then it may be about to
    /// write large data to its place, even if a checkpoint has written the same data before: the place
    /// must not be reused meanwhile.
    pub(super) fn committer_is_past(&self, pushed: u64) -> bool {
        self.handled.load(Ordering::Acquire) >= pushed
    }

    /// Records the size of the committer's newest group.
    pub(super) fn group_is(&self, records: usize) {
        // Relaxed: an estimate.
        self.group_records.store(records, Ordering::Relaxed);
    }

    /// Estimates how many records are committed together.
    pub(super) fn load(&self) -> u64 {
        // Relaxed: an estimate.
        let waiting = self.pushed().saturating_sub(self.handled.load(Ordering::Relaxed));
        waiting.max(self.group_records.load(Ordering::Relaxed) as u64)
    }

    /// Adds to the bytes of large writes in memory.
    pub(super) fn add_large(&self, bytes: u64) {
        self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The bytes of large writes in memory.
    pub(super) fn large_bytes(&self) -> u64 {
        self.large_bytes.load(Ordering::Relaxed)
    }

    /// Resets the count, because a checkpoint takes care of all present large writes.
    pub(super) fn forget_large(&self) {
        self.large_bytes.store(0, Ordering::SeqCst);
    }

    pub(super) fn has_room(&self) -> bool {
        let waiting = self.pushed.load(Ordering::SeqCst).saturating_sub(self.handled.load(Ordering::SeqCst));
        (waiting as usize) < self.waiting_max.items
            && self.waiting_bytes.load(Ordering::SeqCst) < self.waiting_max.bytes
            && self.large_bytes.load(Ordering::SeqCst) < LARGE_BYTES_MAX
    }

    /// Adds a caller that waits for room.
    pub(super) fn wait(&self, waiter: Completer<()>) {
        self.waiters.lock().push(waiter);
        // SeqCst, as in `has_waiters`: either the thread that makes room sees this waiter, or the caller
        // sees the room.
        self.has_waiters.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.has_waiters.load(Ordering::SeqCst)
    }

    /// Removes and returns the callers that wait for room.
    pub(super) fn take_waiters(&self) -> Vec<Completer<()>> {
        self.has_waiters.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.waiters.lock())
    }
}
