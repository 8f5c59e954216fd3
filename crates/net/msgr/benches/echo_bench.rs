//! Requests of 4 KiB and replies of 150 bytes over one connection on loopback: measures their rate and
//! the processor time of each.
//!
//! ```text
//! cargo bench -p loligo-msgr --features testing --bench echo_bench [-- SECONDS [WORKERS [DEPTH [WORK_NS]]]]
//! ```
//!
//! Client and server are two messengers in one process, each on its own runtime with two worker threads.
//! A request is a task that sends a message and waits for the reply with its tid, as in a client of a
//! storage cluster.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, Connection, Dispatcher, Messenger, Policy};
use loligo_wire::message::{Header, Msg};
use loligo_wire::{EntityAddr, EntityType, Tid};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

static WORK_NS: AtomicU64 = AtomicU64::new(0);
static PENDING: Class = Class::new("bench.pending");

/// Answers each message with 150 bytes.
struct Echo {
    reply: Bytes,
}

impl Dispatcher for Echo {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            work();
            let header = Header { kind: 43, tid: msg.header.tid, ..Header::default() };
            let _ = conn.send(Msg { header, front: self.reply.clone(), ..Msg::default() });
        }
    }
}

/// Completes requests when their replies arrive.
struct Client {
    pending: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    batches: AtomicU64,
    replies: AtomicU64,
}

impl Dispatcher for Client {
    fn dispatch(&self, _conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.replies.fetch_add(msgs.len() as u64, Ordering::Relaxed);
        for msg in msgs.drain(..) {
            let waiting = self.pending.lock().remove(&msg.header.tid.0);
            if let Some(waiting) = waiting {
                let _ = waiting.send(());
            }
        }
    }
}

/// Simulates the work of a real client or server on a request.
fn work() {
    let began = Instant::now();
    while (began.elapsed().as_nanos() as u64) < WORK_NS.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime")
}

/// User and system time of the process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap_or(0) + fields[12].parse::<u64>().unwrap_or(0);
    Duration::from_millis(ticks * 10)
}

fn run(seconds: f64, workers: usize, depth: usize, len: usize) {
    let (server_rt, client_rt) = (runtime(workers), runtime(workers));
    let auth = OpenDoor::client("bench");
    let echo = Arc::new(Echo { reply: Bytes::from(vec![7; 150]) });
    let (server, addr) = server_rt.block_on(async {
        let server = Messenger::new(Config::new(EntityType::OSD), echo);
        let addr = server.bind(([127, 0, 0, 1], 0).into(), auth.clone()).await.expect("a port");
        (server, addr)
    });
    let client = Arc::new(Client {
        pending: Mutex::new(&PENDING, HashMap::new()),
        batches: AtomicU64::new(0),
        replies: AtomicU64::new(0),
    });
    let messenger =
        client_rt.block_on(async { Messenger::new(Config::new(EntityType::CLIENT), client.clone()) });
    let target = EntityAddr::msgr2(addr).with_nonce(server.config().nonce);
    let conn = messenger.connect(EntityType::OSD, target, Policy::lossy_client(), auth);
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(1));
    let data = Bytes::from(vec![1; len]);
    let front = Bytes::from(vec![2; 200]);
    let tasks: Vec<_> = (0..depth)
        .map(|_| {
            let (conn, client, stop, next) = (conn.clone(), client.clone(), stop.clone(), next.clone());
            let (data, front) = (data.clone(), front.clone());
            client_rt.spawn(async move {
                let mut done = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    let tid = next.fetch_add(1, Ordering::Relaxed);
                    let (tx, rx) = oneshot::channel();
                    client.pending.lock().insert(tid, tx);
                    let header = Header { kind: 42, tid: Tid(tid), ..Header::default() };
                    let data = [data.clone()].into_iter().collect();
                    conn.send(Msg { header, front: front.clone(), data, ..Msg::default() }).expect("sent");
                    rx.await.expect("a reply");
                    work();
                    done += 1;
                }
                done
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let (cpu, began) = (cpu_time(), Instant::now());
    let (replies, batches) = (client.replies.load(Ordering::Relaxed), client.batches.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let elapsed = began.elapsed().as_secs_f64();
    let replies = client.replies.load(Ordering::Relaxed) - replies;
    let batches = client.batches.load(Ordering::Relaxed) - batches;
    let cpu_us = (cpu_time() - cpu).as_secs_f64() * 1e6 / replies as f64;
    stop.store(true, Ordering::Relaxed);
    for task in tasks {
        client_rt.block_on(task).expect("the task ends");
    }
    let rate = replies as f64 / elapsed;
    println!(
        "{workers} workers each, {depth:3} in flight, {len} B: {rate:9.0} /s  {:6.1} µs each  {cpu_us:5.2} µs CPU  {:5.1} replies a batch",
        depth as f64 / rate * 1e6,
        replies as f64 / batches as f64
    );
    client_rt.block_on(messenger.shutdown());
    server_rt.block_on(server.shutdown());
}

fn main() {
    let args: Vec<f64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let seconds = args.first().copied().unwrap_or(3.0);
    WORK_NS.store(args.get(3).map_or(0, |&ns| ns as u64), Ordering::Relaxed);
    let choice = |at: usize, all: &[usize]| args.get(at).map_or(all.to_vec(), |&one| vec![one as usize]);
    for workers in choice(1, &[1, 2]) {
        for depth in choice(2, &[1, 4, 16, 64, 256]) {
            run(seconds, workers, depth, 4096);
        }
    }
}
