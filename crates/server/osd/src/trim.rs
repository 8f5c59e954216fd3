//! Takes removed snapshots away from the clones that stand for them.
//!
//! The map says which snapshots of a pool are being removed. Each placement group is walked once, by names
//! alone, page after page; the heads of clones get a request of the OSD's own, in order with clients'
//! requests. When all groups are done the monitor is told, and takes the snapshots off the list. After a
//! restart it begins anew: what was done is found done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use loligo_lockstat::{Class, Mutex};
use loligo_maps::SnapSet as SnapIds;
use loligo_msgr::Cork;
use loligo_store::{Fetch, ObjectName, ObjectRef};
use loligo_wire::message::Msg;
use loligo_wire::{Epoch, PoolId};

use crate::asker::Asker;
use crate::exec::{TRIM_PAGE, Task, heads_with_clones};
use crate::group::Walk;
use crate::place::Places;
use crate::slot::Slot;

/// Held to look up or change what is being removed from which pool.
static TRIMS: Class = Class::new("osd.trims");
/// Held to put in the place where a walk goes on.
static TRIM_PG: Class = Class::new("osd.trim_pg");

/// Told when snapshots are gone from all placement groups of a pool.
pub(crate) type OnPurged = Box<dyn Fn(PoolId, SnapIds) + Send + Sync>;

/// What is being removed.
pub(crate) struct Trims {
    pools: Mutex<BTreeMap<PoolId, State>>,
    on_purged: OnceLock<OnPurged>,
}

#[derive(Default)]
struct State {
    running: bool,
    /// Gone, but the map still has them on its list.
    done: SnapIds,
}

impl Default for Trims {
    fn default() -> Self {
        Self { pools: Mutex::new(&TRIMS, BTreeMap::new()), on_purged: OnceLock::new() }
    }
}

impl Trims {
    pub(crate) fn on_purged(&self, tell: OnPurged) {
        let _ = self.on_purged.set(tell); // there is one monitor
    }

    /// Begins what a new map asks for and is not under way.
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
            // What is not opened has nothing to be trimmed.
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
            // The caller is the monitor, which has other things to do.
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(async move { start() })),
                Err(_) => start(),
            }
        }
    }

    fn ended(&self, job: &Job) {
        // Acquire: pairs with the groups' stores. A group that failed is walked again with the next map.
        let failed = job.failed.load(Ordering::Acquire);
        let mut pools = self.pools.lock();
        if let Some(state) = pools.get_mut(&job.pool) {
            state.running = false;
            if !failed {
                state.done.union(&job.removed);
            }
        }
        drop(pools);
        if let Some(tell) = self.on_purged.get().filter(|_| !failed) {
            tell(job.pool, SnapIds::clone(&job.removed));
        }
    }
}

/// One pool's removed snapshots.
struct Job {
    trims: Arc<Trims>,
    pool: PoolId,
    epoch: Epoch,
    removed: Arc<SnapIds>,
    groups_left: AtomicUsize,
    failed: AtomicBool,
}

impl Job {
    fn group_ended(&self, failed: bool) {
        if failed {
            self.failed.store(true, Ordering::Release);
        }
        // AcqRel: the last one sees what all others have stored.
        if self.groups_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.trims.ended(self);
        }
    }
}

/// The walk through one placement group.
pub(crate) struct TrimPg {
    job: Arc<Job>,
    slot: Weak<Slot>,
    /// Requests that are not answered, and one for who makes them.
    unanswered: AtomicUsize,
    failed: AtomicBool,
    /// The last name that was looked at; `None` when all were.
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
        // The next page begins with the last name of this one; what is looked at twice is found done.
        *self.from.lock() = names.last().filter(|_| names.len() == TRIM_PAGE).cloned();
        let heads = heads_with_clones(names);
        // Relaxed: the requests go through the slot's queue, which orders them behind this.
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
        // AcqRel: whoever is last sees what the others have stored.
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
    /// From the first object on.
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
