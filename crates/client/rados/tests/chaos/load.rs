//! The load on the cluster's objects, and its checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::{CmpOp, IoCtx, OsdId, Rados, ReadFrom, WriteOp};

/// Objects for each pool and client.
const OBJECTS: usize = 6;
/// Appends in flight on each object.
const WINDOW: usize = 4;
/// Pause between rounds.
const PAUSE: Duration = Duration::from_millis(10);
/// Rounds after which a log is checked and the next one starts. That many of the longest appends are 32
/// MiB, a quarter of the OSDs' limit on the size of an object (`osd_max_object_size`).
const ROUNDS_OF_A_LOG: usize = 1000;
/// Bytes of a log per read: less than a connection's life.
const PIECE: u64 = 256 << 10;

/// So long without a completed round, and a writer is stuck.
const STUCK: Duration = Duration::from_secs(180);

/// What a pool's objects support.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    has_maps: bool,
    /// Bytes per append.
    token_len: usize,
}

pub(crate) const PLAIN: Kind = Kind { has_maps: true, token_len: 8 };
/// Whole stripes only: two chunks of 4 KiB.
pub(crate) const CODED: Kind = Kind { has_maps: false, token_len: 8192 };

/// Writers that check their writes.
#[derive(Default)]
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    /// Completed rounds of each writer.
    done: std::sync::Mutex<Vec<Arc<AtomicU64>>>,
    writers: std::sync::Mutex<Vec<tokio::task::JoinHandle<()>>>,
    clients: std::sync::Mutex<Vec<Rados>>,
}

impl Load {
    /// Starts writers on several objects of a pool; the names begin with `who`.
    pub(crate) fn start(&self, who: &str, pool: &IoCtx, kind: Kind) {
        self.clients.lock().expect("no panic").push(pool.rados().clone());
        for i in 0..OBJECTS {
            let done = Arc::new(AtomicU64::new(0));
            self.done.lock().expect("no panic").push(Arc::clone(&done));
            let writer = write(pool.clone(), format!("{who}{i}"), kind, Arc::clone(&self.stop), done);
            self.writers.lock().expect("no panic").push(tokio::spawn(writer));
        }
    }

    /// Waits until each writer has made progress. A writer is stuck if it completes no round for a long time:
    /// on a slow disk all of them get on, each at its turn.
    pub(crate) async fn progress(&self, when: &str) {
        let began = Instant::now();
        let done = self.done.lock().expect("no panic").clone();
        let mut behind: Vec<Behind> = done.into_iter().map(Behind::new).collect();
        let count = behind.len();
        while !behind.is_empty() {
            assert!(!self.has_lost_one(), "a writer has failed {when}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            behind.retain_mut(|writer| !writer.has_reached_goal());
            let stuck = behind.iter().filter(|writer| writer.last.elapsed() > STUCK).count();
            assert!(stuck == 0, "{stuck} of {count} writers are stuck {when}: {}", self.waiting());
        }
        println!("  {when}: got on after {} s", began.elapsed().as_secs());
    }

    /// Describes the operations in flight.
    fn waiting(&self) -> String {
        let clients = self.clients.lock().expect("no panic");
        let of = |client: &Rados| {
            let requests = client.requests().iter().map(|r| format!("\n  {r}")).collect::<String>();
            format!("\nclient {}, map {}:{requests}", client.instance_id().0, client.map_epoch().0)
        };
        clients.iter().map(of).collect()
    }

    fn has_lost_one(&self) -> bool {
        self.writers.lock().expect("no panic").iter().any(tokio::task::JoinHandle::is_finished)
    }

    pub(crate) async fn finish(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let writers = std::mem::take(&mut *self.writers.lock().expect("no panic"));
        for writer in writers {
            writer.await.expect("what was written is there");
        }
    }
}

/// A writer that has not made enough progress.
struct Behind {
    done: Arc<AtomicU64>,
    seen: u64,
    goal: u64,
    /// The time of its last round.
    last: Instant,
}

impl Behind {
    fn new(done: Arc<AtomicU64>) -> Self {
        let seen = done.load(Ordering::Relaxed);
        Self { done, seen, goal: seen + 5, last: Instant::now() }
    }

    fn has_reached_goal(&mut self) -> bool {
        let done = self.done.load(Ordering::Relaxed);
        if done > self.seen {
            (self.seen, self.last) = (done, Instant::now());
        }
        done >= self.goal
    }
}

/// Appends to an object and counts on it until told to stop; then checks the object.
async fn write(pool: IoCtx, name: String, kind: Kind, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let counter = format!("{name}.counter");
    let o = counter.as_str();
    let first = WriteOp::new().create(true).set_xattr("n", "0");
    pool.operate(o, first).await.expect("made, once");
    if kind.has_maps {
        pool.set_omap(o, [("n", text(0))]).await.expect("set");
    }
    let mut n = 0;
    let mut log = Log { pool: &pool, name: name.clone(), token_len: kind.token_len, begins: 0 };
    while !stop.load(Ordering::Relaxed) {
        if n - log.begins == ROUNDS_OF_A_LOG {
            log.check(n).await;
            log = Log { name: format!("{name}.{n}"), begins: n, ..log };
        }
        let window = (n * WINDOW..(n + 1) * WINDOW)
            .map(|i| pool.append(log.name.as_str(), token(i, kind.token_len).into()));
        for appended in join_all(window).await {
            appended.expect("appended");
        }
        // A second execution would not find the expected count.
        let mut count = WriteOp::new().compare_xattr("n", CmpOp::Eq, text(n)).set_xattr("n", text(n + 1));
        if kind.has_maps {
            count = count.compare_omap("n", CmpOp::Eq, text(n)).set_omap([("n", text(n + 1))]);
        }
        pool.operate(o, count).await.unwrap_or_else(|e| panic!("{o} counts from {n}: {e}"));
        n += 1;
        done.store(n as u64, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
    log.check(n).await;
    assert_eq!(pool.xattr(o, "n").await.expect("read"), text(n), "{o}");
    if kind.has_maps {
        assert_eq!(pool.omap_values(o, ["n"]).await.expect("read")[&b"n"[..]], text(n), "{o}");
    }
}

/// The object that receives the appends of some rounds.
struct Log<'a> {
    pool: &'a IoCtx,
    name: String,
    token_len: usize,
    /// The first round.
    begins: usize,
}

impl Log<'_> {
    /// Checks that each append up to the round `end` is there once, in order.
    async fn check(&self, end: usize) {
        if self.begins == end {
            return;
        }
        let mut got = Vec::new();
        loop {
            let piece = self.pool.read(self.name.as_str(), got.len() as u64, PIECE).await.expect("read");
            if piece.is_empty() {
                break;
            }
            got.extend_from_slice(&piece);
        }
        let appends = self.begins * WINDOW..end * WINDOW;
        let expected: String = appends.map(|i| token(i, self.token_len)).collect();
        let tokens = expected.as_bytes().chunks(self.token_len);
        let at = got.chunks(self.token_len).zip(tokens).position(|(got, wanted)| got != wanted);
        assert!(
            got == expected.as_bytes(),
            "{}: {} bytes of {}, differs at {at:?}",
            self.name,
            got.len(),
            expected.len()
        );
    }
}

/// Returns the data of the `i`th append.
pub(crate) fn token(i: usize, len: usize) -> String {
    format!("{i:07}|{}", ".".repeat(len - 8))
}

fn text(n: usize) -> Bytes {
    n.to_string().into()
}

/// Writes to a pool until the pool is removed.
pub(crate) async fn mourn(pool: IoCtx) {
    let mut written = 0;
    let last = loop {
        match pool.append("o", token(written, 8).into()).await {
            Ok(()) => written += 1,
            Err(e) => break e,
        }
    };
    assert!(written > 0 && last.is_not_found(), "{written}: {last}");
}

/// Checks that balanced reads reach all OSDs that store an object, once all of them know that they may
/// serve it.
pub(crate) async fn all_copies_are_read(rados: &Rados, pool: &IoCtx) {
    let reads = async || {
        let mut reads = Vec::new();
        for osd in 0..3 {
            let dump = rados.osd_command(OsdId(osd), r#"{"prefix": "perf dump"}"#, Bytes::new()).await;
            let dump: serde_json::Value = serde_json::from_slice(&dump.expect("answered").0).expect("JSON");
            reads.push(dump["osd"]["op_r"].as_u64().expect("a counter"));
        }
        reads
    };
    pool.write_full("copied", Bytes::from_static(b"copy")).await.expect("written");
    let balanced = pool.reading_from(ReadFrom::Balanced);
    let are_read = async {
        loop {
            // Later changes in the placement group tell the other copies that earlier ones are complete
            // everywhere.
            pool.with_locator("copied").append("next", Bytes::from_static(b"more")).await.expect("appended");
            let before = reads().await;
            for _ in 0..60 {
                assert_eq!(balanced.read("copied", 0, 0).await.expect("read"), "copy");
            }
            if before.iter().zip(&reads().await).all(|(before, after)| after - before >= 15) {
                return;
            }
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(60), are_read).await.is_ok(),
        "some copies are never read"
    );
}

/// Writes an object repeatedly and reads it from other copies than the primary's, until told to stop:
/// acknowledged writes are in all copies. Returns the number of rounds.
pub(crate) async fn read_anywhere(pool: IoCtx, stop: Arc<AtomicBool>) -> u64 {
    let mut count = 0u64;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let content = Bytes::copy_from_slice(&count.to_le_bytes());
        pool.write_full("anywhere", content.clone()).await.expect("written");
        for read_from in [ReadFrom::Balanced, ReadFrom::Balanced, ReadFrom::Nearest] {
            let found = pool.reading_from(read_from).read("anywhere", 0, 0).await.expect("read");
            assert_eq!(found, content, "{read_from:?}, round {count}");
        }
    }
    count
}
