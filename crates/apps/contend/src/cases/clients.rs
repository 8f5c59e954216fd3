//! Connections that each keep some requests in flight, for cases that send requests to an OSD.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use loligo_lockstat::{Class, Mutex};
use loligo_maps::{Features, OsdMap, PgPool};
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, Connection, Dispatcher, Messenger, Policy};
use loligo_osd::{Limits, Osd, OsdConfig};
use loligo_store::ObjectStore;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, ObjectLocator, Ops, OsdFlags, OsdReply};
use loligo_wire::{EntityAddr, EntityType, Epoch, PgId, PoolId, SpgId, Tid, UTime, Uuid};
use tokio::runtime::{Builder, Runtime};

use crate::measure::waited_for;
use crate::{Error, Locks, Spread};

/// A client's own bookkeeping: locked only by the one task that reads a connection.
static STREAM: Class = Class::new("contend.stream");

/// Held to report that a connection is up.
static UP: Class = Class::new("contend.up");

/// Time limit for all connections to come up.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);

/// The only pool.
pub(super) const POOL: PoolId = PoolId(1);

/// The requests of one connection.
pub(super) struct Asks {
    /// Number of requests that it keeps in flight.
    pub(super) in_flight: u64,
    /// Makes the request with a number, counted from 0.
    pub(super) request: Box<dyn Fn(u64) -> Msg + Send + Sync>,
}

/// The results.
pub(super) struct Driven {
    /// The latencies of each connection's requests.
    pub(super) latency: Vec<Spread>,
    pub(super) took: Duration,
    pub(super) locks: Locks,
}

/// Serves with `dispatcher` and lets the connections send requests for `time`.
pub(super) fn drive(
    server_rt: &Runtime,
    dispatcher: Arc<dyn Dispatcher>,
    asks: Vec<Asks>,
    time: Duration,
) -> Result<Driven, Error> {
    let client_rt = runtime(1)?;
    let (server, addr) = server_rt.block_on(listen(dispatcher))?;
    let (up, ups) = mpsc::channel();
    let asking =
        Arc::new(Asking { up: Mutex::new(&UP, up), over: AtomicBool::new(false), failure: OnceLock::new() });
    // One messenger per connection: to a server, two connections of one messenger are a session and its
    // successor.
    let clients: Vec<Arc<Messenger>> = (0..asks.len())
        .map(|_| {
            let dispatcher = Arc::clone(&asking);
            client_rt.block_on(async { Messenger::new(Config::new(EntityType::CLIENT), dispatcher) })
        })
        .collect();
    let streams: Vec<(Arc<Connection>, Arc<Stream>)> = clients
        .iter()
        .zip(asks)
        .map(|(client, asks)| {
            let auth = OpenDoor::client("contend");
            let conn = client.connect(EntityType::OSD, addr, Policy::lossy_client(), auth);
            (conn, Arc::new(Stream::new(asks)))
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
    let latency = streams.iter().map(|(_, stream)| stream.progress.lock().latency.clone()).collect();
    Ok(Driven { latency, took, locks })
}

/// Creates an OSD with one pool.
pub(super) fn osd(store: Arc<dyn ObjectStore>, pgs: u32) -> Result<Arc<Osd>, Error> {
    const WHAT: &str = "make an OSD";
    let mut map = OsdMap::build(Uuid([1; 16])).finish().map_err(Error::talk(WHAT))?;
    map.pools.insert(POOL, PgPool::replicated(1, pgs));
    map.pool_names.insert(POOL, "contend".into());
    let encoded = map.encode(Features::PACIFIC).bytes;
    let osd = Osd::new(OsdConfig { store, limits: Limits::default() });
    osd.set_map(Arc::new(map), encoded, &BTreeMap::new()).map_err(Error::talk(WHAT))?;
    Ok(osd)
}

/// A request for an object in a PG.
pub(super) fn request(name: String, hash: u32, seed: u32, ops: Ops, flags: OsdFlags) -> MOSDOp {
    let mut op = MOSDOp::new(ObjectLocator::in_pool(POOL), name.into(), ops, flags);
    op.spgid = SpgId::whole(PgId { pool: POOL, seed });
    op.hash = hash;
    op.map_epoch = Epoch(1);
    op.mtime = UTime { sec: 1, nsec: 0 };
    op
}

pub(super) fn runtime(workers: usize) -> Result<Runtime, Error> {
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

/// The clients' side of all connections.
struct Asking {
    /// Sent to once for each connection that comes up.
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
                // `reset` reports a lost connection.
                Ok(msg) => drop(conn.send(msg)),
                Err(why) => drop(self.failure.set(why)),
            }
        }
    }

    fn connected(&self, _: &Arc<Connection>) {
        // The receiver is dropped if the case has given up.
        let _ = self.up.lock().send(());
    }

    fn reset(&self, _: &Arc<Connection>, why: &loligo_msgr::Error) {
        let _ = self.failure.set(why.to_string());
    }
}

/// One connection's requests.
struct Stream {
    asks: Asks,
    progress: Mutex<Progress>,
}

struct Progress {
    latency: Spread,
    /// When the request in flight was sent, indexed by its number modulo `in_flight`.
    sent: Vec<Instant>,
}

impl Stream {
    fn new(asks: Asks) -> Self {
        let sent = vec![Instant::now(); asks.in_flight as usize];
        let progress = Mutex::new(&STREAM, Progress { latency: Spread::new(), sent });
        Self { asks, progress }
    }

    fn start(self: &Arc<Self>, conn: &Connection) {
        conn.user_data().get_or_init(|| Arc::clone(self) as _);
        let now = Instant::now();
        self.progress.lock().sent.fill(now);
        for tid in 0..self.asks.in_flight {
            // `reset` reports a lost connection.
            let _ = conn.send(self.message(tid));
        }
    }

    /// Counts the reply to a request and returns the next request.
    fn next(&self, tid: Tid) -> Msg {
        let place = (tid.0 % self.asks.in_flight) as usize;
        let now = Instant::now();
        let mut progress = self.progress.lock();
        let took = now - progress.sent[place];
        progress.latency.add(took);
        progress.sent[place] = now;
        drop(progress);
        self.message(tid.0.wrapping_add(self.asks.in_flight))
    }

    fn message(&self, tid: u64) -> Msg {
        (self.asks.request)(tid).with_tid(Tid(tid))
    }
}
