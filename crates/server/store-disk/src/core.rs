//! What all parts of a store share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

use bytes::Bytes;
use loligo_lane::{Action, Bound, Lane};
use loligo_lockstat::{Class, Mutex};
use loligo_store::{Completer, Fetch, Later, StoreError, guarded};
use loligo_wire::Eversion;
use smallvec::SmallVec;

use super::backend::{BackendFile, Buffers, Closed, Kv};
use super::block::Moving;
use super::collection::DiskCollection;
use super::data_cache::DataCache;
use super::filter::Filter;
use super::layout::BLOCK;
use super::pool::Pool;
use super::reader::{Job, Looks, Reader, Reading};
use super::space::Space;
use super::store::SmallWrites;

/// Held to take out all records that wait; adding one takes no lock.
static COMMITS: Class = Class::new("store.commits");
/// Held to take a reference.
static MAP: Class = Class::new("store.map");
static ON_STOP: Class = Class::new("store.on_stop");
/// Held to add one who waits for room, or to take all out.
static WAITERS: Class = Class::new("store.room");

/// Records that wait for the journal, and their bytes, at which whoever can wait does: twice what the OSD
/// lets in from its clients. Nobody is refused: what a record says is done in memory already.
pub(super) const WAITING_MAX: Bound = Bound { items: 128 << 10, bytes: 1 << 30 };
/// Bytes of large writes in memory until the next checkpoint, at which the same holds. While one is under way
/// there may be as many again.
const LARGE_BYTES_MAX: u64 = 512 << 20;

/// So many records at once make it worth while to write the data of small writes to its place, in a write of
/// its own, rather than twice: into the journal first.
const MANY: u64 = 16;

/// So many objects that were changed since the last checkpoint make for the next one: with what is under way
/// meanwhile, and what stays in memory, some ten thousand more, of about a kilobyte each.
pub(super) const DIRTY_MAX: u64 = 32 << 10;

/// The writes of a transaction that have a place.
pub(super) type Larges = SmallVec<[Moving; 1]>;

/// A record on its way into the journal.
pub(super) struct Pending {
    pub(super) record: Bytes,
    /// To be written to their places before the record is.
    pub(super) larges: Larges,
    pub(super) collection: Arc<DiskCollection>,
    /// Who submitted it hears of it when it is safe; nobody does if the collection was removed.
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
pub(super) struct Pushed(Option<Action>);

type OnStop = Box<dyn FnOnce(&StoreError) + Send>;

/// What all parts of a store share.
pub(super) struct Core {
    /// The data file, to be read and written. Who syncs it has a handle of its own.
    pub(super) data: Arc<dyn BackendFile>,
    kv: Mutex<Arc<dyn Kv>>,
    pub(super) space: Space,
    pub(super) filter: Filter,
    pub(super) pool: Pool,
    /// If the kernel offers what it takes; else the pool does its work.
    pub(super) reader: OnceLock<Reader>,
    pub(super) looks: Looks,
    pub(super) data_cache: DataCache,
    /// For large reads.
    pub(super) buffers: Buffers,
    pub(super) commits: Lane<Pending>,
    pub(super) journal_len: u64,
    /// Behind the newest group of the journal that is safe. Written by the committer.
    pub(super) journal_head: AtomicU64,
    /// No group may end behind it yet: see [`ahead`](super::ahead).
    pub(super) journal_limit: AtomicU64,
    /// Where a group would end that waits for the limit.
    pub(super) journal_wanted: AtomicU64,
    /// Where a restart would begin. Written by the checkpointer.
    pub(super) journal_tail: AtomicU64,
    pub(super) next_seq: AtomicU64,
    pub(super) next_object: AtomicU64,
    /// Records given to the committer, and those with which it has done: see [`Core::committer_is_past`].
    pushed: AtomicU64,
    handled: AtomicU64,
    /// Bytes of the records that the committer has not done with.
    waiting_bytes: AtomicUsize,
    waiting_max: Bound,
    /// Those who wait for room, and whether there are any.
    waiters: Mutex<Vec<Completer<()>>>,
    has_waiters: AtomicBool,
    /// Bytes of small writes that the data cache got since the last checkpoint began.
    pub(super) kept_bytes: AtomicUsize,
    /// Records in the committer's newest group.
    pub(super) group_records: AtomicUsize,
    small_writes: SmallWrites,
    /// Bytes of large writes that are in memory until the next checkpoint.
    pub(super) large_bytes: AtomicU64,
    /// Objects changed since the last checkpoint.
    pub(super) dirty: AtomicU64,
    /// Somebody wants a checkpoint now.
    pub(super) wanted: AtomicBool,
    /// The store is being closed: nothing is submitted any more.
    pub(super) closing: AtomicBool,
    /// And the committer has ended.
    pub(super) drained: AtomicBool,
    pub(super) committer: OnceLock<Thread>,
    pub(super) checkpointer: OnceLock<Thread>,
    pub(super) ahead: OnceLock<Thread>,
    stopped: OnceLock<String>,
    on_stop: Mutex<Vec<OnStop>>,
}

/// Where the counters of a [`Core`] begin.
pub(super) struct Start {
    pub(super) journal_len: u64,
    pub(super) journal_at: u64,
    /// How far the journal is ready.
    pub(super) journal_limit: u64,
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
            data,
            kv: Mutex::new(&MAP, kv),
            space,
            filter: Filter::new(),
            pool,
            reader: OnceLock::new(),
            looks: Looks::default(),
            data_cache: DataCache::new(start.cache_bytes),
            buffers: Buffers::new(),
            commits: Lane::new(&COMMITS, usize::MAX),
            journal_len: start.journal_len,
            journal_head: AtomicU64::new(start.journal_at),
            journal_limit: AtomicU64::new(start.journal_limit),
            journal_wanted: AtomicU64::new(0),
            journal_tail: AtomicU64::new(start.journal_at),
            next_seq: AtomicU64::new(start.next_seq),
            next_object: AtomicU64::new(start.next_object),
            pushed: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            waiting_bytes: AtomicUsize::new(0),
            waiting_max: start.waiting_max,
            waiters: Mutex::new(&WAITERS, Vec::new()),
            has_waiters: AtomicBool::new(false),
            kept_bytes: AtomicUsize::new(0),
            group_records: AtomicUsize::new(0),
            small_writes: start.small_writes,
            large_bytes: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            committer: OnceLock::new(),
            checkpointer: OnceLock::new(),
            ahead: OnceLock::new(),
            stopped: OnceLock::new(),
            on_stop: Mutex::new(&ON_STOP, Vec::new()),
        }
    }

    /// The map.
    pub(super) fn kv(&self) -> Arc<dyn Kv> {
        Arc::clone(&self.kv.lock())
    }

    /// Lets go of the map.
    pub(super) fn close_kv(&self) {
        let old = std::mem::replace(&mut *self.kv.lock(), Arc::new(Closed));
        drop(old);
    }

    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.stopped.get().is_some() { Err(StoreError::Stopped) } else { Ok(()) }
    }

    /// Why the store has stopped, if it has.
    pub(super) fn why_stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Stops the store for good: after this nothing is written any more, and nobody is told that anything is
    /// safe.
    pub(super) fn stop(&self, why: String) {
        if self.stopped.set(why).is_err() {
            return;
        }
        drop(self.commits.close());
        let hooks = std::mem::take(&mut *self.on_stop.lock());
        for hook in hooks {
            // One that panics keeps neither the others from hearing of it nor those who wait.
            guarded("that stops a store", || hook(&StoreError::Stopped), |_| ());
        }
        self.let_in();
        self.wake();
    }

    /// When whoever has a change and can wait should make it.
    pub(super) fn room(&self) -> Fetch<()> {
        if self.has_room() {
            return Fetch::Now(());
        }
        let (later, completer) = Later::new();
        self.waiters.lock().push(completer);
        // SeqCst, as in `let_in`: either that one sees this, or this sees what that one has made room with.
        self.has_waiters.store(true, Ordering::SeqCst);
        self.want_checkpoint();
        if self.has_room() || self.why_stopped().is_some() {
            self.let_in();
        }
        Fetch::Later(later)
    }

    fn has_room(&self) -> bool {
        let waiting = self.pushed.load(Ordering::SeqCst).saturating_sub(self.handled.load(Ordering::SeqCst));
        (waiting as usize) < self.waiting_max.items
            && self.waiting_bytes.load(Ordering::SeqCst) < self.waiting_max.bytes
            && self.large_bytes.load(Ordering::SeqCst) < LARGE_BYTES_MAX
    }

    /// Lets those go on who wait for room, if there is some, or none will ever be.
    pub(super) fn let_in(&self) {
        if !self.has_waiters.load(Ordering::SeqCst) {
            return;
        }
        let stopped = self.why_stopped().is_some();
        if !stopped && !self.has_room() {
            return;
        }
        self.has_waiters.store(false, Ordering::SeqCst);
        let waiters = std::mem::take(&mut *self.waiters.lock());
        // On another thread: the committer has other things to do than to go on with requests.
        self.pool.push(move || {
            let answer = || if stopped { Err(StoreError::Stopped) } else { Ok(()) };
            waiters.into_iter().for_each(|waiter| waiter.complete(answer()));
        });
    }

    /// Has `hook` called when the store stops; now, if it has.
    pub(super) fn on_stop(&self, hook: OnStop) {
        let mut hooks = self.on_stop.lock();
        if self.stopped.get().is_none() {
            hooks.push(hook);
            return;
        }
        drop(hooks);
        hook(&StoreError::Stopped);
    }

    /// Has a read done.
    pub(super) fn read(&self, read: Box<dyn Reading>) {
        self.have_done(Job::Read(read), true);
    }

    /// Has a look at the map done, which takes it through [`Looks::look`].
    pub(super) fn look(&self, job: impl FnOnce() + Send + 'static) {
        self.have_done(Job::Quick(Box::new(job)), self.looks.next_is_quick());
    }

    fn have_done(&self, job: Job, by_reader: bool) {
        let left = match self.reader.get() {
            Some(reader) if by_reader => reader.push(job).err(),
            _ => Some(job),
        };
        if let Some(job) = left {
            let data = Arc::clone(&self.data);
            self.pool.push(move || job.now(&*data));
        }
    }

    /// Gives a record to the committer. To be followed by [`pushed_record`](Self::pushed_record) without the
    /// lock that keeps the order.
    pub(super) fn push(&self, pending: Pending) -> Pushed {
        // Under the lock of the record's collection, which a checkpoint takes before it looks.
        self.pushed.fetch_add(1, Ordering::Relaxed);
        self.waiting_bytes.fetch_add(pending.weight(), Ordering::Relaxed);
        Pushed(self.commits.push(pending).ok())
    }

    /// Wakes the committer if need be.
    pub(super) fn pushed_record(&self, pushed: Pushed) -> Result<(), StoreError> {
        match pushed.0 {
            Some(Action::Submit) => self.committer.get().into_iter().for_each(Thread::unpark),
            Some(_) => {}
            None => return Err(StoreError::Stopped),
        }
        Ok(())
    }

    /// Whether the data cache is to have so many blocks more that were written: from one checkpoint to the
    /// next not so many that all that is there already would have to go.
    pub(super) fn may_keep(&self, blocks: usize) -> bool {
        let max = self.data_cache.bytes_max() / 2;
        // Relaxed: if two add at once, both look at what is there with theirs. It stays near the bound
        // however often it is asked.
        self.kept_bytes.load(Ordering::Relaxed) < max
            && self.kept_bytes.fetch_add(blocks * BLOCK, Ordering::Relaxed) < max
    }

    /// Whether a small write had better go to its place at once.
    pub(super) fn writes_small_to_place(&self) -> bool {
        match self.small_writes {
            SmallWrites::ToPlace => true,
            SmallWrites::ToJournal => false,
            SmallWrites::ByLoad => {
                // Relaxed: a guess.
                let waiting = self.pushed().saturating_sub(self.handled.load(Ordering::Relaxed));
                waiting.max(self.group_records.load(Ordering::Relaxed) as u64) >= MANY
            }
        }
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
        self.let_in();
    }

    /// Whether the committer has done with the first `pushed` records. Until then it may be about to write
    /// large data to its place, also if a checkpoint has written the same before: the place must not be
    /// another's meanwhile.
    pub(super) fn committer_is_past(&self, pushed: u64) -> bool {
        self.handled.load(Ordering::Acquire) >= pushed
    }

    /// Has the journal made ready for a group that would end there.
    pub(super) fn want_journal(&self, end: u64) {
        // Release: pairs with the load of who makes it ready.
        self.journal_wanted.fetch_max(end, Ordering::Release);
        self.ahead.get().into_iter().for_each(Thread::unpark);
    }

    /// One more object has changed since the last checkpoint.
    pub(super) fn one_more_dirty(&self) {
        if self.dirty.fetch_add(1, Ordering::Relaxed) == DIRTY_MAX {
            self.want_checkpoint();
        }
    }

    /// Asks for a checkpoint.
    pub(super) fn want_checkpoint(&self) {
        // Release: the checkpointer sees what made it necessary.
        if !self.wanted.swap(true, Ordering::Release)
            && let Some(thread) = self.checkpointer.get()
        {
            thread.unpark();
        }
    }

    pub(super) fn wake(&self) {
        [&self.committer, &self.checkpointer, &self.ahead]
            .into_iter()
            .filter_map(OnceLock::get)
            .for_each(Thread::unpark);
    }
}
