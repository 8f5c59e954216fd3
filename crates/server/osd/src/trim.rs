//! Removes deleted snapshots from the clones that represent them.
//!
//! The map lists the snapshots of a pool that are being removed. Each placement group is walked once,
//! page by page, reading only names. For each head with clones the OSD submits a request of its own,
//! ordered with clients' requests. When all groups are done, the monitor is notified and takes the
//! snapshots off the list. After a restart the walk begins again; work already done is found done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Cork;
use loligo_store::{Fetch, ObjectName, ObjectRef};
use loligo_wire::message::Msg;
use loligo_wire::{Epoch, PoolId, SnapSet};

use crate::asker::Asker;
use crate::exec::{TRIM_PAGE, Task, heads_with_clones};
use crate::group::Walk;
use crate::place::Places;
use crate::slot::Slot;

/// Held to look up or change the snapshots being removed from each pool.
static TRIMS: Class = Class::new("osd.trims");
/// Held to store the position where a walk continues.
static TRIM_PG: Class = Class::new("osd.trim_pg");

/// Called when snapshots are gone from all placement groups of a pool.
pub(crate) type OnPurged = Arc<dyn Fn(PoolId, SnapSet) + Send + Sync>;

/// The snapshots being removed from the objects of one store.
pub(crate) struct Trims {
    pools: Mutex<BTreeMap<PoolId, State>>,
    on_purged: OnceLock<OnPurged>,
    /// Another store has replaced this one: its snapshots are no longer the monitor's concern.
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    running: bool,
    /// Removed, but still on the map's list.
    done: SnapSet,
}

impl Default for Trims {
    fn default() -> Self {
        let pools = Mutex::new(&TRIMS, BTreeMap::new());
        Self { pools, on_purged: OnceLock::new(), is_over: AtomicBool::new(false) }
    }
}

impl Trims {
    pub(crate) fn on_purged(&self, tell: OnPurged) {
        let _ = self.on_purged.set(tell); // there is one monitor
    }

    /// The state for the objects of another store: nothing is removed from them yet.
    pub(crate) fn of_another_store(&self) -> Self {
        Self { on_purged: self.on_purged.clone(), ..Self::default() }
    }

    /// Reports nothing any more.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Begins the removals that a new map lists and that are not in progress.
    pub(crate) fn begin(self: &Arc<Self>, places: &Places) {
        let mut jobs = Vec::new();
        let mut pools = self.pools.lock();
        pools.retain(|id, _| places.pool(*id).is_some());
        for (id, queue) in &places.map.removed_snaps_queue {
            let Some(pool) = places.pool(*id) else { continue };
            let state = pools.entry(*id).or_default();
            let mut removed = queue.clone();
            removed.subtract(&state.done);
            if state.running || removed.is_empty() {
                continue;
            }
            state.running = true;
            jobs.push((*id, Arc::clone(&pool.slots), removed));
        }
        drop(pools);
        for (id, slots, removed) in jobs {
            // Unopened slots have nothing to trim.
            let slots: Vec<_> = slots.iter().cloned().collect();
            let job = Arc::new(Job {
                trims: Arc::clone(self),
                pool: id,
                epoch: places.epoch(),
                removed: Arc::new(removed),
                groups_left: AtomicUsize::new(slots.len()),
                failed: AtomicBool::new(false),
            });
            let start = move || {
                slots.iter().for_each(|slot| slot.walk(TrimPg::new(&job, slot)));
                if slots.is_empty() {
                    job.trims.ended(&job);
                }
            };
            // Started on the runtime if there is one: the caller is the monitor, which must not be
            // delayed.
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(async move { start() })),
                Err(_) => start(),
            }
        }
    }

    fn ended(&self, job: &Job) {
        // Acquire: pairs with the groups' stores. If a group failed, all groups are walked again with
        // the next map.
        let failed = job.failed.load(Ordering::Acquire);
        let mut pools = self.pools.lock();
        if let Some(state) = pools.get_mut(&job.pool) {
            state.running = false;
            if !failed {
                state.done.union(&job.removed);
            }
        }
        drop(pools);
        let is_over = self.is_over.load(Ordering::Acquire);
        if let Some(tell) = self.on_purged.get().filter(|_| !failed && !is_over) {
            tell(job.pool, SnapSet::clone(&job.removed));
        }
    }
}

/// The removal of one pool's deleted snapshots.
struct Job {
    trims: Arc<Trims>,
    pool: PoolId,
    epoch: Epoch,
    removed: Arc<SnapSet>,
    groups_left: AtomicUsize,
    failed: AtomicBool,
}

impl Job {
    fn group_ended(&self, failed: bool) {
        if failed {
            self.failed.store(true, Ordering::Release);
        }
        // AcqRel: the last group to end sees the other groups' stores.
        if self.groups_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.trims.ended(self);
        }
    }
}

/// The walk through one placement group.
pub(crate) struct TrimPg {
    job: Arc<Job>,
    slot: Weak<Slot>,
    /// Unanswered requests, plus one while the page is being submitted.
    unanswered: AtomicUsize,
    failed: AtomicBool,
    /// The last name examined; `None` when all were.
    from: Mutex<Option<ObjectName>>,
    me: Weak<Self>,
}

impl TrimPg {
    fn new(job: &Arc<Job>, slot: &Arc<Slot>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            job: Arc::clone(job),
            slot: Arc::downgrade(slot),
            unanswered: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            from: Mutex::new(&TRIM_PG, None),
            me: me.clone(),
        })
    }

    fn page(&self, from: Option<ObjectName>) {
        let (Some(slot), Some(me)) = (self.slot.upgrade(), self.me.upgrade()) else { return self.end(true) };
        let first = from.as_ref().map_or(ObjectRef::first_of_hash(0), |name| name.as_ref());
        match slot.collection.list(first, TRIM_PAGE) {
            Fetch::Now(names) => self.walk(&slot, &names),
            Fetch::Later(later) => later.then(move |names| match names {
                Ok(names) => me.walk(&slot, &names),
                Err(_) => me.end(true),
            }),
        }
    }

    fn walk(&self, slot: &Arc<Slot>, names: &[ObjectName]) {
        // The next page begins with the last name of this one; a head examined twice is found done.
        *self.from.lock() = names.last().filter(|_| names.len() == TRIM_PAGE).cloned();
        let heads = heads_with_clones(names);
        // Relaxed: the requests go through the slot's queue, which orders them after this store.
        self.unanswered.store(heads.len() + 1, Ordering::Relaxed);
        for head in &heads {
            let Some(me) = self.me.upgrade() else { return };
            let task = Task::Trim(Arc::clone(&self.job.removed));
            if !slot.submit_task(head, self.job.epoch, task, me) {
                self.failed.store(true, Ordering::Release);
                self.answered();
            }
        }
        self.answered();
    }

    fn answered(&self) {
        // AcqRel: the last one to decrement sees the others' stores.
        if self.unanswered.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let from = self.from.lock().take();
        match from {
            Some(from) => self.page(Some(from)),
            None => self.end(self.failed.load(Ordering::Acquire)),
        }
    }

    fn end(&self, failed: bool) {
        self.job.group_ended(failed);
    }
}

impl Walk for TrimPg {
    /// Starts at the first object.
    fn begin(&self) {
        self.page(None);
    }
}

impl Asker for TrimPg {
    fn answer(&self, reply: Msg) {
        let failed = loligo_wire::message::osd::OsdReply::open(&reply).is_ok_and(|reply| reply.result != 0);
        if failed {
            self.failed.store(true, Ordering::Release);
        }
        self.answered();
    }

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }
}
