//! Many connections ask for objects in few placement groups: how long does a request take, and who waits for the PG?
//!
//! Each connection keeps some 4 KiB writes in flight and sends the next when a reply is there. Messenger, decoding, checks,
//! execution, store and reply are the product's in both forms; what differs is how a request gets from the connection that
//! read it to its placement group.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex as StdMutex, MutexGuard as StdGuard, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_maps::{Features, OsdMap, PgPool};
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, Connection, Dispatcher, Messenger, Policy};
use loligo_osd::{Limits, Osd, OsdConfig};
use loligo_store::memory::MemoryStore;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, ObjectLocator, OsdFlags, OsdOp, OsdReply};
use loligo_wire::{Decode, EntityAddr, EntityType, Epoch, PgId, PoolId, Reader, SpgId, Tid, UTime, Uuid};
use smallvec::smallvec;
use tokio::runtime::{Builder, Runtime};

use crate::measure::{Waits, waited_for};
use crate::{About, Case, Error, Form, Locks, Metric, Sample, Setting, Source, Spread, Unit};

/// The lock of the "before": held while a request of the PG is executed.
static PG: Class = Class::new("before.pg");

/// A client's own bookkeeping: taken by the one task that reads a connection.
static STREAM: Class = Class::new("contend.stream");

/// Held to tell that a connection is up.
static UP: Class = Class::new("contend.up");

/// Longest time until all connections are up.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);

const POOL: PoolId = PoolId(1);
const WRITE_BYTES: usize = 4096;
/// Far more than the objects of the case take.
const STORE_BYTES: u64 = 1 << 30;

/// Stock defaults for solid-state disks: `osd_op_num_shards_ssd` and `osd_op_num_threads_per_shard_ssd` of Luminous.
const SHARDS: usize = 8;
const THREADS_PER_SHARD: usize = 2;

/// The case.
pub(super) struct PgSlot {
    /// Connections.
    pub(super) connections: usize,
    /// Requests that each keeps in flight.
    pub(super) in_flight: u64,
    /// One setting for each number of placement groups.
    pub(super) pgs: &'static [u32],
}

impl Default for PgSlot {
    fn default() -> Self {
        Self { connections: 64, in_flight: 4, pgs: &[1, 4] }
    }
}

impl Case for PgSlot {
    fn name(&self) -> &'static str {
        "pg-slot"
    }

    fn about(&self) -> About {
        About {
            title: "Threads queue on one placement group's lock",
            before: "A request goes into its shard's queue; the shard's two threads each take one and lock the placement group \
                     to execute it, so one thread waits for the other.",
            after: "loligo-osd's PG slot, a lane: the thread that read the request executes it if nobody is executing there, \
                    and else leaves it to whoever is.",
            note: "Part of the gain is that no thread is woken between reading and executing. The source gives no figure for \
                   this fix alone, but up to 90 % less tail latency for all of its six.",
            source: Source {
                author: "Didi Cloud Storage",
                title: "Optimizing locks in Didi's Ceph (in Chinese), 4.1: less competition for the PG lock",
                date: "2020-09-08",
                url: "https://www.infoq.cn/article/Jv3GygMyVBgedrN84rAT",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |pgs: &u32| Setting {
            name: format!("{} connections, {pgs} PG{}", self.connections, if *pgs == 1 { "" } else { "s" }),
            metrics: vec![
                Metric::lower("latency, p99", Unit::Us),
                Metric::lower("latency, p50", Unit::Us),
                Metric::lower("latency, longest", Unit::Us),
                Metric::higher("requests", Unit::PerS),
                Metric::lower("waits for a PG per million requests", Unit::Count),
                Metric::lower("total wait for PGs per million requests", Unit::Ms),
            ],
            spread_of: "latency of a request",
        };
        self.pgs.iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let pgs = self.pgs[setting];
        let osd = osd(pgs)?;
        let server_rt = runtime(thread::available_parallelism().map_or(1, usize::from))?;
        match form {
            Form::Before => {
                let queued = Arc::new(Queued::new(osd, pgs));
                let workers = Workers::start(&queued, &server_rt)?;
                let measured = self.drive(&server_rt, queued, &[PG.name()], time, pgs);
                workers.stop()?;
                measured
            }
            Form::After => self.drive(&server_rt, osd, &["osd."], time, pgs),
        }
    }
}

impl PgSlot {
    /// Serves with `dispatcher` and lets the connections ask for a time. `guards` are the classes that guard a PG.
    fn drive(
        &self,
        server_rt: &Runtime,
        dispatcher: Arc<dyn Dispatcher>,
        guards: &[&str],
        time: Duration,
        pgs: u32,
    ) -> Result<Sample, Error> {
        let client_rt = runtime(1)?;
        let (server, addr) = server_rt.block_on(listen(dispatcher))?;
        let (up, ups) = mpsc::channel();
        let asking = Arc::new(Asking {
            up: Mutex::new(&UP, up),
            over: AtomicBool::new(false),
            failure: OnceLock::new(),
        });
        // A messenger each: to a server, two connections of one messenger are a session and its successor.
        let clients: Vec<Arc<Messenger>> = (0..self.connections)
            .map(|_| {
                let dispatcher = Arc::clone(&asking);
                client_rt.block_on(async { Messenger::new(Config::new(EntityType::CLIENT), dispatcher) })
            })
            .collect();
        let streams: Vec<(Arc<Connection>, Arc<Stream>)> = clients
            .iter()
            .zip(0..)
            .map(|(client, number)| {
                let auth = OpenDoor::client("contend");
                let conn = client.connect(EntityType::OSD, addr, Policy::lossy_client(), auth);
                (conn, Arc::new(Stream::new(request(number, pgs), self.in_flight)))
            })
            .collect();
        for _ in &streams {
            ups.recv_timeout(CONNECT_TIME_MAX).map_err(Error::talk("connect to the case's own server"))?;
        }
        loligo_lockstat::reset();
        let began = Instant::now();
        streams.iter().for_each(|(conn, stream)| Stream::start(stream, conn));
        thread::sleep(time);
        // Relaxed: one reply more or less does not matter.
        asking.over.store(true, Ordering::Relaxed);
        let took = began.elapsed();
        let locks = waited_for();
        clients.iter().for_each(|client| client_rt.block_on(client.shutdown()));
        server_rt.block_on(server.shutdown());
        if let Some(why) = asking.failure.get() {
            return Err(Error::talk("ask the OSD")(why));
        }
        let mut latency = Spread::new();
        streams.iter().for_each(|(_, stream)| latency.merge(&stream.progress.lock().latency));
        sample(latency, took, locks, guards)
    }
}

fn sample(latency: Spread, took: Duration, locks: Locks, guards: &[&str]) -> Result<Sample, Error> {
    if latency.is_empty() {
        return Err(Error::NothingMeasured);
    }
    let requests = latency.count();
    let waits = Waits::of(&locks, guards);
    let us = |ns: u64| ns as f64 / 1e3;
    let figures = vec![
        us(latency.quantile_ns(0.99)),
        us(latency.quantile_ns(0.5)),
        us(latency.max_ns()),
        requests as f64 / took.as_secs_f64(),
        waits.count_per_million(requests),
        waits.total_ms_per_million(requests),
    ];
    Ok(Sample { figures, spread: latency, locks })
}

/// An OSD with one pool in memory.
fn osd(pgs: u32) -> Result<Arc<Osd>, Error> {
    const WHAT: &str = "make an OSD";
    let mut map = OsdMap::build(Uuid([1; 16])).finish().map_err(Error::talk(WHAT))?;
    map.pools.insert(POOL, PgPool::replicated(1, pgs));
    map.pool_names.insert(POOL, "contend".into());
    let encoded = map.encode(Features::PACIFIC).bytes;
    let osd =
        Osd::new(OsdConfig { store: Arc::new(MemoryStore::new(STORE_BYTES)), limits: Limits::default() });
    osd.set_map(Arc::new(map), encoded).map_err(Error::talk(WHAT))?;
    Ok(osd)
}

fn runtime(workers: usize) -> Result<Runtime, Error> {
    let runtime = Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    runtime.map_err(Error::io("start a runtime"))
}

async fn listen(dispatcher: Arc<dyn Dispatcher>) -> Result<(Arc<Messenger>, EntityAddr), Error> {
    let server = Messenger::new(Config::new(EntityType::OSD), dispatcher);
    let bound = server.bind(([127, 0, 0, 1], 0).into(), OpenDoor::client("server")).await;
    let addr = EntityAddr::msgr2(bound.map_err(Error::io("listen on 127.0.0.1"))?);
    let nonce = server.config().nonce;
    Ok((server, addr.with_nonce(nonce)))
}

/// What the connection of this number asks for: its own object, in one of the PGs.
fn request(number: u32, pgs: u32) -> MOSDOp {
    let data = Bytes::from(vec![0x6c; WRITE_BYTES]);
    let ops = smallvec![OsdOp::write(0, data)];
    let flags = OsdFlags::WRITE | OsdFlags::ONDISK;
    let mut op = MOSDOp::new(ObjectLocator::in_pool(POOL), format!("object {number}").into(), ops, flags);
    op.spgid = SpgId::whole(PgId { pool: POOL, seed: number % pgs });
    // The number of PGs is a power of two, so these are the bits that choose the PG.
    op.hash = number;
    op.map_epoch = Epoch(1);
    op.mtime = UTime { sec: 1, nsec: 0 };
    op
}

/// The clients' side of all connections.
struct Asking {
    /// Told once for each connection that is up.
    up: Mutex<mpsc::Sender<()>>,
    over: AtomicBool,
    failure: OnceLock<String>,
}

impl Dispatcher for Asking {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let stream = conn.user_data().get().and_then(|data| data.downcast_ref::<Stream>());
        for msg in msgs.drain(..) {
            let Some(stream) = stream else { continue };
            if self.over.load(Ordering::Relaxed) {
                continue;
            }
            let next = OsdReply::open(&msg).map_err(|e| e.to_string()).and_then(|reply| {
                if reply.result < 0 {
                    Err(format!("error {}", reply.result))
                } else {
                    Ok(stream.next(msg.header.tid))
                }
            });
            match next {
                // A connection that is gone is told of by `reset`.
                Ok(msg) => drop(conn.send(msg)),
                Err(why) => drop(self.failure.set(why)),
            }
        }
    }

    fn connected(&self, _: &Arc<Connection>) {
        // Nobody listens any more once the case has given up.
        let _ = self.up.lock().send(());
    }

    fn reset(&self, _: &Arc<Connection>, why: &loligo_msgr::Error) {
        let _ = self.failure.set(why.to_string());
    }
}

/// One connection's requests.
struct Stream {
    request: MOSDOp,
    in_flight: u64,
    progress: Mutex<Progress>,
}

struct Progress {
    latency: Spread,
    /// When the request in flight was sent, by its number modulo how many are.
    sent: Vec<Instant>,
}

impl Stream {
    fn new(request: MOSDOp, in_flight: u64) -> Self {
        let sent = vec![Instant::now(); in_flight as usize];
        let progress = Mutex::new(&STREAM, Progress { latency: Spread::new(), sent });
        Self { request, in_flight, progress }
    }

    fn start(self: &Arc<Self>, conn: &Connection) {
        conn.user_data().get_or_init(|| Arc::clone(self) as _);
        let now = Instant::now();
        self.progress.lock().sent.fill(now);
        for tid in 0..self.in_flight {
            // A connection that is gone is told of by `reset`.
            let _ = conn.send(self.message(tid));
        }
    }

    /// Counts the reply of a request; returns the request that takes its place.
    fn next(&self, tid: Tid) -> Msg {
        let place = (tid.0 % self.in_flight) as usize;
        let now = Instant::now();
        let mut progress = self.progress.lock();
        let took = now - progress.sent[place];
        progress.latency.add(took);
        progress.sent[place] = now;
        drop(progress);
        self.message(tid.0.wrapping_add(self.in_flight))
    }

    fn message(&self, tid: u64) -> Msg {
        Msg::new(&self.request).with_tid(Tid(tid))
    }
}

/// The "before": shards with queues, threads that serve them, and a lock for each PG.
struct Queued {
    osd: Arc<Osd>,
    pgs: Vec<Mutex<()>>,
    shards: [Shard; SHARDS],
}

/// A queue on which threads sleep. Its lock is not the one that is looked at, and needs a condition variable.
#[derive(Default)]
struct Shard {
    queue: StdMutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    closed: bool,
}

struct Request {
    conn: Arc<Connection>,
    msg: Msg,
    seed: u32,
}

impl Queued {
    fn new(osd: Arc<Osd>, pgs: u32) -> Self {
        Self { osd, pgs: (0..pgs).map(|_| Mutex::new(&PG, ())).collect(), shards: Default::default() }
    }

    /// What each of a shard's threads does.
    fn work(&self, shard: usize) {
        let mut msgs = Vec::with_capacity(1);
        while let Some(Request { conn, msg, seed }) = self.shards[shard].pop() {
            msgs.push(msg);
            let pg = self.pgs[seed as usize].lock();
            // The reply is queued under the PG's lock and written without it, as a stock OSD does.
            let cork = conn.cork();
            // The PG's slot is idle, since nobody else has the lock: the request is executed at once, by the same code.
            self.osd.dispatch(&conn, &mut msgs);
            drop(pg);
            drop(cork);
        }
    }
}

impl Dispatcher for Queued {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            // The PG comes first in a request, so that it can be looked at before the rest is decoded.
            match SpgId::decode(&mut Reader::new(&msg.front)) {
                Ok(SpgId { pgid: PgId { seed, .. }, .. }) if (seed as usize) < self.pgs.len() => {
                    self.shards[seed as usize % SHARDS].push(Request { conn: Arc::clone(conn), msg, seed });
                }
                _ => conn.mark_down(),
            }
        }
    }
}

impl Shard {
    fn push(&self, request: Request) {
        self.queue().requests.push_back(request);
        self.wake.notify_one();
    }

    /// Waits for a request; `None` when the shard is closed.
    fn pop(&self) -> Option<Request> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(request) = queue.requests.pop_front() {
                return Some(request);
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.queue().closed = true;
        self.wake.notify_all();
    }

    fn queue(&self) -> StdGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads of all shards.
struct Workers {
    queued: Arc<Queued>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    fn start(queued: &Arc<Queued>, runtime: &Runtime) -> Result<Self, Error> {
        let mut workers = Self { queued: Arc::clone(queued), threads: Vec::new() };
        for number in 0..SHARDS * THREADS_PER_SHARD {
            let (queued, runtime) = (Arc::clone(queued), runtime.handle().clone());
            let body = move || {
                // An OSD may hand work to the runtime it is called in.
                let _entered = runtime.enter();
                queued.work(number % SHARDS);
            };
            match thread::Builder::new().name("before.op_tp".to_owned()).spawn(body) {
                Ok(thread) => workers.threads.push(thread),
                Err(error) => {
                    workers.stop()?;
                    return Err(Error::Io { what: "start a worker", error });
                }
            }
        }
        Ok(workers)
    }

    fn stop(self) -> Result<(), Error> {
        self.queued.shards.iter().for_each(Shard::close);
        let panicked = self.threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        if panicked > 0 {
            Err(Error::talk("serve requests")(format!("{panicked} workers panicked")))
        } else {
            Ok(())
        }
    }
}
