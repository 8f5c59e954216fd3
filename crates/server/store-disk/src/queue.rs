//! Records on their way into the journal, and who waits for room among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use loligo_lane::{Action, Bound, Lane};
use loligo_lockstat::{Class, Mutex};
use loligo_store::{CommitListener, Completer};
use loligo_wire::Eversion;
use smallvec::SmallVec;

use super::block::Moving;

/// Held to take out all records that wait; adding one takes no lock.
static COMMITS: Class = Class::new("store.commits");
/// Held to add one who waits for room, or to take all out.
static WAITERS: Class = Class::new("store.room");
static LISTENER: Class = Class::new("store.listener");

/// Records that wait for the journal, and their bytes, at which whoever can wait does: twice what the OSD
/// lets in from its clients. Nobody is refused: what a record says is done in memory already.
pub(super) const WAITING_MAX: Bound = Bound { items: 128 << 10, bytes: 1 << 30 };
/// Bytes of large writes in memory until the next checkpoint, at which the same holds. While one is under way
/// there may be as many again.
const LARGE_BYTES_MAX: u64 = 512 << 20;

/// Whoever is told of a collection's commits: the one who has opened it last.
pub(super) struct Audience(Mutex<Option<Arc<dyn CommitListener>>>);

impl Audience {
    /// Of a collection that nobody has opened.
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

/// A record on its way into the journal.
pub(super) struct Pending {
    pub(super) record: Bytes,
    /// To be written to their places before the record is.
    pub(super) larges: Larges,
    /// Who hears of it when it is safe …
    pub(super) audience: Arc<Audience>,
    /// … and of which version then; of none if the collection was removed.
    pub(super) version: Option<Eversion>,
}

impl Pending {
    fn weight(&self) -> usize {
        self.record.len() + self.large_len()
    }

    /// Bytes to be written to their places.
    pub(super) fn large_len(&self) -> usize {
        self.larges.iter().map(|moving| moving.data.len()).sum()
    }
}

/// What became of a record that was given to the committer; nothing if the store has stopped.
#[must_use]
pub(super) struct Pushed(pub(super) Option<Action>);

pub(super) struct Queue {
    pub(super) records: Lane<Pending>,
    /// Records given to the committer, and those with which it has done: see [`Queue::committer_is_past`].
    pushed: AtomicU64,
    handled: AtomicU64,
    /// Bytes of the records that the committer has not done with.
    waiting_bytes: AtomicUsize,
    waiting_max: Bound,
    /// Those who wait for room, and whether there are any.
    waiters: Mutex<Vec<Completer<()>>>,
    has_waiters: AtomicBool,
    /// Records in the committer's newest group.
    group_records: AtomicUsize,
    /// Bytes of large writes that are in memory until the next checkpoint.
    large_bytes: AtomicU64,
}

impl Queue {
    /// `waiting_max`: records that may wait for the journal before others are asked to wait.
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
        // Under the lock of the record's collection, which a checkpoint takes before it looks.
        self.pushed.fetch_add(1, Ordering::Relaxed);
        self.waiting_bytes.fetch_add(pending.weight(), Ordering::Relaxed);
        Pushed(self.records.push(pending).ok())
    }

    /// Records that were given to the committer so far.
    pub(super) fn pushed(&self) -> u64 {
        self.pushed.load(Ordering::Relaxed)
    }

    /// The committer has done with these records.
    pub(super) fn handled(&self, group: &[Pending]) {
        self.waiting_bytes.fetch_sub(group.iter().map(Pending::weight).sum(), Ordering::SeqCst);
        // Release, and more: with what it wrote for them, and before it is looked who waits.
        self.handled.fetch_add(group.len() as u64, Ordering::SeqCst);
    }

    /// Whether the committer has done with the first `pushed` records. Until then it may be about to write
    /// large data to its place, also if a checkpoint has written the same before: the place must not be
    /// another's meanwhile.
    pub(super) fn committer_is_past(&self, pushed: u64) -> bool {
        self.handled.load(Ordering::Acquire) >= pushed
    }

    /// The committer's newest group has so many records.
    pub(super) fn group_is(&self, records: usize) {
        // Relaxed: a guess.
        self.group_records.store(records, Ordering::Relaxed);
    }

    /// About how many records are made safe together.
    pub(super) fn load(&self) -> u64 {
        // Relaxed: a guess.
        let waiting = self.pushed().saturating_sub(self.handled.load(Ordering::Relaxed));
        waiting.max(self.group_records.load(Ordering::Relaxed) as u64)
    }

    /// More bytes of large writes are in memory.
    pub(super) fn add_large(&self, bytes: u64) {
        self.large_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of large writes in memory.
    pub(super) fn large_bytes(&self) -> u64 {
        self.large_bytes.load(Ordering::Relaxed)
    }

    /// A checkpoint takes care of all large writes that there are.
    pub(super) fn forget_large(&self) {
        self.large_bytes.store(0, Ordering::SeqCst);
    }

    pub(super) fn has_room(&self) -> bool {
        let waiting = self.pushed.load(Ordering::SeqCst).saturating_sub(self.handled.load(Ordering::SeqCst));
        (waiting as usize) < self.waiting_max.items
            && self.waiting_bytes.load(Ordering::SeqCst) < self.waiting_max.bytes
            && self.large_bytes.load(Ordering::SeqCst) < LARGE_BYTES_MAX
    }

    /// Has one more wait for room.
    pub(super) fn wait(&self, waiter: Completer<()>) {
        self.waiters.lock().push(waiter);
        // SeqCst, as in `has_waiters`: either that one sees this, or the caller sees what that one has made
        // room with.
        self.has_waiters.store(true, Ordering::SeqCst);
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.has_waiters.load(Ordering::SeqCst)
    }

    /// Those who wait for room, who wait no longer.
    pub(super) fn take_waiters(&self) -> Vec<Completer<()>> {
        self.has_waiters.store(false, Ordering::SeqCst);
        std::mem::take(&mut *self.waiters.lock())
    }
}
