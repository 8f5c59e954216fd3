//! Goal: a client that works at full load for long needs no more memory at the end than soon after the
//! start, and leaves no operation, no task and no file behind when it is closed. Method: workers run all
//! kinds of operations on a bounded set of objects, cancel some, watch, notify and list. The memory of
//! the process, which includes the server's, is sampled all the time.
//!
//! LOLIGO_ENDURANCE_SECONDS sets the duration (default 4). LOLIGO_ENDURANCE_CONF names the ceph.conf of
//! another cluster with a pool `p`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{Builder, CmpOp, IoCtx, WriteOp};
use loligo_server::Server;

/// Operations in flight.
const WORKERS: u64 = 64;
/// Objects of each worker.
const OBJECTS: u64 = 8;
/// The memory that allocators may retain, in bytes.
const SLACK: u64 = 16 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_leaves_nothing_behind_and_does_not_grow() {
    let seconds = std::env::var("LOLIGO_ENDURANCE_SECONDS").ok().map_or(4, |n| n.parse().expect("a number"));
    let server = Server::memory().pool("p").start().expect("the server starts");
    let conf =
        std::env::var_os("LOLIGO_ENDURANCE_CONF").map_or_else(|| server.conf().to_owned(), PathBuf::from);
    let before = Left::now();
    let rados = Builder::new().conf_file(conf.to_str().expect("UTF-8")).connect().await.expect("connects");
    let pool = rados.ioctx("p").await.expect("the pool");
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let workers: Vec<_> = (0..WORKERS)
        .map(|id| tokio::spawn(work(pool.clone(), id, Arc::clone(&stop), Arc::clone(&done))))
        .collect();
    let memory = watch_memory(Duration::from_secs(seconds)).await;
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.expect("no panic");
    }
    assert_eq!(rados.in_flight(), (0, 0));
    drop(pool);
    rados.shutdown().await;
    drop(rados);
    before.is_reached_again().await;
    let done = done.load(Ordering::Relaxed);
    println!("{done} rounds in {seconds} s; resident bytes after a quarter and at most later: {memory:?}");
    assert!(done > WORKERS, "{done} rounds");
    assert!(memory.1 < memory.0 + SLACK, "it grows: {memory:?}");
}

/// Runs every kind of operation repeatedly.
async fn work(pool: IoCtx, id: u64, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let mut round = 0u64;
    while !stop.load(Ordering::Relaxed) {
        let oid = format!("endurance.{id}.{}", round % OBJECTS);
        let oid = oid.as_str();
        let data = Bytes::from(vec![round as u8; 4096 << (round % 4)]);
        pool.write_full(oid, data.clone()).await.expect("written");
        assert_eq!(pool.read(oid, 0, 0).await.expect("read"), data);
        let count = WriteOp::new().set_xattr("n", round.to_string()).set_omap([("k", data.slice(..16))]);
        pool.operate(oid, count).await.expect("changed");
        let other = WriteOp::new().compare_xattr("n", CmpOp::Eq, "none").remove();
        pool.operate(oid, other).await.expect_err("the attribute has another value");
        pool.read("endurance.none", 0, 0).await.expect_err("absent");
        // Cancelled while in flight.
        let given_up = pool.write_full(oid, data);
        let _ = tokio::time::timeout(Duration::from_micros(round % 200), given_up).await;
        if round % 64 == id {
            let watch = pool.watch(oid, Duration::from_secs(30)).await.expect("watched");
            pool.notify(oid, Bytes::new(), Duration::from_secs(1)).await.ok();
            drop(watch);
            let listed: Vec<_> = pool.objects().try_collect().await.expect("listed");
            assert!(!listed.is_empty());
        }
        round += 1;
        done.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the maximum of the resident bytes in the first quarter of the time, and the maximum after it.
async fn watch_memory(lasting: Duration) -> (u64, u64) {
    let began = Instant::now();
    let (mut early, mut most) = (0, 0);
    while began.elapsed() < lasting {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let resident = resident_bytes();
        if began.elapsed() < lasting / 4 {
            early = early.max(resident);
        } else {
            most = most.max(resident);
        }
    }
    (early, most)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = statm.split(' ').nth(1).expect("pages").parse().expect("a number");
    pages * 4096
}

/// The resources that a client uses while it exists.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    tasks: usize,
    files: usize,
}

impl Left {
    fn now() -> Self {
        let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        Self { tasks, files: std::fs::read_dir("/proc/self/fd").expect("Linux has it").count() }
    }

    /// Waits until the resources are freed: cancelled tasks and the server's side of connections need a
    /// moment to end.
    async fn is_reached_again(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while Self::now() != *self {
            assert!(Instant::now() < deadline, "{:?} is left, {self:?} was there before", Self::now());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
