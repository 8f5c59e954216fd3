//! Some threads apply transactions of many op sequencers: time that the threads need.
//!
//! Clients queue bursts of transactions, each burst for one sequencer. The transactions of a sequencer
//! must be applied in order. Applying one is the same in both forms: loligo-store's memory store, then a
//! wait as long as that of a FileStore's write to a file. The forms differ in how the threads share the
//! sequencers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex as StdMutex, MutexGuard as StdGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_lane::{Action, Lane, RunEnd};
use loligo_lockstat::{Class, Mutex};
use loligo_store::memory::MemoryStore;
use loligo_store::{
    Change, Collection, CommitListener, Info, ObjectChanges, ObjectRef, ObjectStore, StoreError, Transaction,
};
use loligo_wire::{Epoch, Eversion, PgId, PoolId};
use smallvec::smallvec;

use crate::measure::{Waits, waited_for};
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

/// The "before": held while a transaction of the sequencer is applied.
static APPLY: Class = Class::new("before.apply");
/// The "before": the transactions of a sequencer.
static QUEUE: Class = Class::new("before.sequencer_queue");
/// The "after": held to take out all queued transactions.
static SEQUENCER: Class = Class::new("contend.sequencer");

/// Number of threads that queue transactions.
const CLIENTS: u64 = 2;
/// Maximum number of a client's transactions in flight.
const IN_FLIGHT: usize = 512;
/// Consecutive transactions for one sequencer: a common queue depth of one client, below FileStore's 50
/// (`filestore_queue_max_ops`).
const BURST: u64 = 32;
const BYTES: usize = 4096;
/// Time that a thread waits for a write to a file.
const DISK_TIME: Duration = Duration::from_micros(100);
const STORE_BYTES: u64 = 1 << 30;
/// Transactions that a thread applies before it puts a busy sequencer back on the queue.
const RUN_BUDGET: usize = 64;

/// The case.
pub(super) struct Apply {
    pub(super) sequencers: u32,
    /// One setting for each number of applying threads.
    pub(super) threads: &'static [usize],
}

impl Default for Apply {
    fn default() -> Self {
        // 2 is the default of `filestore_op_threads`; 16 and 32 are usual for fast disks.
        Self { sequencers: 64, threads: &[2, 16, 32] }
    }
}

impl Case for Apply {
    fn name(&self) -> &'static str {
        "apply"
    }

    fn about(&self) -> About {
        About {
            title: "Threads that apply queue on a sequencer's lock",
            before: "A sequencer is put on the apply queue for each of its transactions; the threads take it from there, lock it, \
                     and apply the oldest one, so that several wait for one sequencer while others have work.",
            after: "loligo-lane: a sequencer is a lane. Its first transaction puts it on the apply queue, once; the thread that \
                    takes it applies what is there, without a lock.",
            note: "Apply time is what the threads spend between taking a sequencer and having applied its transaction, waiting \
                   for its lock included. A transaction keeps its thread waiting for 100 µs and what a timer adds to it, as \
                   a write to a file may. Each thread beyond the first can wait for the same sequencer, so the ratio \
                   grows with the threads, up to the 32 transactions that come for one sequencer; how many of either the published \
                   test had is not known.",
            source: Source {
                author: "Didi Cloud Storage",
                title: "Optimizing locks in Didi's Ceph (in Chinese), 4.3: FileStore's apply lock",
                date: "2020-09-08",
                url: "https://www.infoq.cn/article/Jv3GygMyVBgedrN84rAT",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |threads: &usize| Setting {
            name: format!("{} sequencers, {threads} threads", self.sequencers),
            metrics: vec![
                Metric::lower("total apply time per million transactions", Unit::S)
                    .published(1.0 / (1.0 - 0.896)),
                Metric::higher("transactions", Unit::PerS),
                Metric::lower("from queued to applied, mean", Unit::Us),
                Metric::lower("from queued to applied, p99", Unit::Us),
                Metric::lower("total wait for sequencers per million transactions", Unit::Ms),
            ],
            spread_of: "time from queued to applied",
        };
        self.threads.iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let threads = self.threads[setting];
        match form {
            Form::Before => run::<Locked>(self.sequencers, threads, time),
            Form::After => run::<Once>(self.sequencers, threads, time),
        }
    }
}

/// A queued transaction.
struct Op {
    queued: Instant,
    version: u64,
    done: mpsc::Sender<()>,
}

/// The measurements of an applying thread.
struct Applied {
    /// Times from queued to applied.
    latency: Spread,
    apply_time: Duration,
}

/// The collection of a placement group, to which transactions are applied.
struct Target(Arc<dyn Collection>);

impl Target {
    fn apply(&self, op: &Op, data: &Bytes) -> Result<(), StoreError> {
        let version = Eversion { epoch: Epoch(1), version: op.version };
        let oid = ObjectRef::head((op.version % 64) as u32, b"object");
        let changes = smallvec![Change::WriteFull { data: data.clone() }];
        let info = Info { version, ..Info::default() };
        let objects = smallvec![ObjectChanges { oid, info, changes }];
        self.0.submit(Transaction { version, objects, record: None })?;
        thread::sleep(DISK_TIME);
        Ok(())
    }
}

/// How threads share a sequencer.
trait Sequencer: Send + Sync + Sized + 'static {
    fn new(target: Target) -> Self;

    /// Adds a transaction; returns whether the caller must put the sequencer on the apply queue.
    fn add(&self, op: Op) -> bool;

    /// Called by a thread that took the sequencer from the apply queue: applies its share of
    /// transactions. Returns whether the thread must put the sequencer back on the queue.
    fn apply(&self, each: &mut dyn FnMut(&Target, Op)) -> bool;
}

/// The "before": a queue and a lock.
struct Locked {
    target: Target,
    ops: Mutex<VecDeque<Op>>,
    apply: Mutex<()>,
}

impl Sequencer for Locked {
    fn new(target: Target) -> Self {
        Self { target, ops: Mutex::new(&QUEUE, VecDeque::new()), apply: Mutex::new(&APPLY, ()) }
    }

    fn add(&self, op: Op) -> bool {
        self.ops.lock().push_back(op);
        true
    }

    fn apply(&self, each: &mut dyn FnMut(&Target, Op)) -> bool {
        let _apply = self.apply.lock();
        let op = self.ops.lock().pop_front();
        if let Some(op) = op {
            each(&self.target, op);
        }
        false
    }
}

/// The "after": a lane.
struct Once {
    target: Target,
    lane: Lane<Op>,
}

impl Sequencer for Once {
    fn new(target: Target) -> Self {
        Self { target, lane: Lane::new(&SEQUENCER, CLIENTS as usize * IN_FLIGHT) }
    }

    fn add(&self, op: Op) -> bool {
        // The lane has room for all transactions in flight.
        matches!(self.lane.push(op), Ok(Action::Submit))
    }

    fn apply(&self, each: &mut dyn FnMut(&Target, Op)) -> bool {
        self.lane.run(RUN_BUDGET, |op| each(&self.target, op)) == RunEnd::Again
    }
}

/// The queue of sequencers on which the applying threads sleep; the same in both forms.
struct ApplyQueue<S> {
    state: StdMutex<(VecDeque<Arc<S>>, bool)>,
    wake: Condvar,
}

impl<S> ApplyQueue<S> {
    fn push(&self, sequencer: Arc<S>) {
        self.state().0.push_back(sequencer);
        self.wake.notify_one();
    }

    /// Waits for a sequencer; returns `None` once the queue is closed and empty.
    fn pop(&self) -> Option<Arc<S>> {
        let mut state = self.state();
        loop {
            if let Some(sequencer) = state.0.pop_front() {
                return Some(sequencer);
            }
            if state.1 {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.state().1 = true;
        self.wake.notify_all();
    }

    fn state(&self) -> StdGuard<'_, (VecDeque<Arc<S>>, bool)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs one form.
fn run<S: Sequencer>(sequencers: u32, threads: usize, time: Duration) -> Result<Sample, Error> {
    let all = sequencers_of::<S>(sequencers)?;
    let queue = ApplyQueue { state: StdMutex::new((VecDeque::new(), false)), wake: Condvar::new() };
    let over = AtomicBool::new(false);
    loligo_lockstat::reset();
    let began = Instant::now();
    let applied = thread::scope(|scope| {
        let (queue, all, over) = (&queue, &all, &over);
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(move || work(queue))).collect();
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || ask(number, queue, all, over))).collect();
        thread::sleep(time);
        // Relaxed: one burst more or less does not matter.
        over.store(true, Ordering::Relaxed);
        let panicked = |_| Error::talk("a thread")("it panicked");
        let asked = clients.into_iter().try_for_each(|client| client.join().map_err(panicked));
        queue.close();
        let applied = workers.into_iter().map(|worker| worker.join().map_err(panicked)?);
        asked.and(applied.collect::<Result<Vec<Applied>, Error>>())
    })?;
    let took = began.elapsed();
    let locks = waited_for();
    let mut latency = Spread::new();
    applied.iter().for_each(|one| latency.merge(&one.latency));
    if latency.is_empty() {
        return Err(Error::NothingMeasured);
    }
    let count = latency.count();
    let apply_s: f64 = applied.iter().map(|one| one.apply_time.as_secs_f64()).sum();
    let figures = vec![
        apply_s * 1e6 / count as f64,
        count as f64 / took.as_secs_f64(),
        latency.mean_ns() / 1e3,
        latency.quantile_ns(0.99) as f64 / 1e3,
        Waits::of(&locks, &[APPLY.name(), SEQUENCER.name()]).total_ms_per_million(count),
    ];
    Ok(Sample { figures, spread: latency, locks })
}

fn sequencers_of<S: Sequencer>(count: u32) -> Result<Vec<Arc<S>>, Error> {
    struct Nobody;
    impl CommitListener for Nobody {
        fn committed(&self, _: Eversion) {}
        fn stopped(&self, _: &StoreError) {}
    }
    let store = MemoryStore::new(STORE_BYTES);
    let open = |seed| store.open(PgId { pool: PoolId(1), seed }, Arc::new(Nobody));
    let collections = (0..count).map(open).collect::<Result<Vec<_>, _>>();
    let collections = collections.map_err(Error::talk("open a collection"))?;
    Ok(collections.into_iter().map(|collection| Arc::new(S::new(Target(collection)))).collect())
}

/// The loop of an applying thread.
fn work<S: Sequencer>(queue: &ApplyQueue<S>) -> Result<Applied, Error> {
    let data = Bytes::from(vec![0x61; BYTES]);
    let mut latency = Spread::new();
    let mut apply_time = Duration::ZERO;
    let mut failed = None;
    while let Some(sequencer) = queue.pop() {
        let mut from = Instant::now();
        let again = sequencer.apply(&mut |target, op| {
            if let Err(e) = target.apply(&op, &data) {
                failed = Some(Error::talk("apply")(e));
            }
            let now = Instant::now();
            latency.add(now - op.queued);
            apply_time += now - from;
            from = now;
            // The client may have ended.
            let _ = op.done.send(());
        });
        if again {
            queue.push(sequencer);
        }
    }
    failed.map_or(Ok(Applied { latency, apply_time }), Err)
}

/// The loop of a client: bursts for each of its own sequencers in turn.
fn ask<S: Sequencer>(number: u64, queue: &ApplyQueue<S>, all: &[Arc<S>], over: &AtomicBool) {
    let (done, finished) = mpsc::channel();
    let mut under_way = 0;
    let mut version = 0;
    while !over.load(Ordering::Relaxed) {
        version += BURST;
        for sequencer in all.iter().skip(number as usize).step_by(CLIENTS as usize) {
            for n in 0..BURST {
                if under_way == IN_FLIGHT {
                    // All transactions complete: the queue is not closed before the clients have ended.
                    let _ = finished.recv();
                    under_way -= 1;
                }
                under_way += 1;
                let op = Op { queued: Instant::now(), version: version + n, done: done.clone() };
                if sequencer.add(op) {
                    queue.push(Arc::clone(sequencer));
                }
            }
        }
    }
    for _ in 0..under_way {
        let _ = finished.recv();
    }
}
