//! Goal: data that a flush of cached files acknowledged survives a kill of the server (SIGKILL), also in
//! the middle of writing back. Data that could not be written back is kept, written later, and its
//! failure is reported once. Method: a server process on disk, striped files behind a cache, arrays with
//! the expected bytes, and new clients that compare.

mod server_process;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use loligo_cache::{Cache, Options};
use loligo_rados::{Builder, Errno, Rados};
use loligo_stripe::{CachedFile, Error, Layout, Striper};
use server_process::{Scratch, ServerProcess};

const UNIT: u64 = 64 << 10;
const FILE_BYTES: usize = 8 << 20;
const FILES: [&str; 3] = ["one", "two", "busy"];
const ROUNDS: u64 = 6;
/// Time limit of all waits; exceeded only by an event that never comes.
const LONG: Duration = Duration::from_secs(60);
/// The operation timeout of a client that does not wait forever (`rados_osd_op_timeout`).
const PATIENCE_S: &str = "1.5";

/// A cached file and its expected content.
struct Written {
    file: CachedFile,
    array: Vec<u8>,
}

impl Written {
    async fn write(&mut self, at: usize, data: &[u8]) {
        self.file.write(at as u64, data).await.expect("in the cache");
        self.array[at..at + data.len()].copy_from_slice(data);
    }

    /// Overwrites most of the file, in pieces of random length.
    async fn scribble(&mut self, random: &mut Rng, writes: usize) {
        for _ in 0..writes {
            let at = random.usize(..FILE_BYTES);
            let len = random.usize(1..200_000).min(FILE_BYTES - at);
            let data: Vec<u8> = (at..at + len).map(|n| random.u8(..4) ^ n as u8).collect();
            self.write(at, &data).await;
        }
    }
}

/// Nothing is lost: a flush waits until the server is back, and returns no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_flushed_survives_kills_in_the_middle_of_it() {
    let dir = Scratch::new("write-back-survives");
    let mut server = ServerProcess::start(&dir.0);
    let rados = connect(&dir.0, None).await;
    // Only flushes write back: the cache never does by itself.
    let cache = Cache::new(Options { dirty_time: LONG * 60, ..Options::of_size(128 << 20) });
    let mut files = Vec::new();
    for name in FILES {
        files.push(make(&rados, &cache, name).await);
    }
    let mut random = Rng::with_seed(5);
    let mut in_the_middle = 0;
    for round in 0..ROUNDS {
        for written in &mut files {
            written.scribble(&mut random, 60).await;
        }
        let [one, two, busy] = &mut files[..] else { panic!("three files") };
        let flushed = AtomicBool::new(false);
        let flush = async {
            let (one, two) = tokio::join!(one.file.flush(), two.file.flush());
            flushed.store(true, Ordering::SeqCst);
            one.and(two).expect("written back when the server was there again");
        };
        let delay = Duration::from_millis(random.u64(1..15));
        let kill = async {
            tokio::time::sleep(delay).await;
            tokio::task::block_in_place(|| server.kill());
            in_the_middle += u64::from(!flushed.load(Ordering::SeqCst));
            server = tokio::task::block_in_place(|| ServerProcess::start(&dir.0));
        };
        let mut others = Rng::with_seed(round);
        let together = async { tokio::join!(flush, kill, busy.scribble(&mut others, 20)) };
        tokio::time::timeout(LONG, together).await.expect("the server is back");
        files[2].file.flush().await.expect("written back");
        // The flush is acknowledged, so no write is in flight.
        tokio::task::block_in_place(|| server.kill());
        server = tokio::task::block_in_place(|| ServerProcess::start(&dir.0));
        for (name, written) in FILES.iter().zip(&files) {
            assert!(content(&dir.0, name).await == written.array, "round {round}, {name}");
        }
    }
    assert!(in_the_middle > 0, "no kill was in the middle of a flush");
    println!("{in_the_middle} of {ROUNDS} kills in the middle of a flush");
    for written in files {
        written.file.close().await.expect("closed");
    }
    rados.shutdown().await;
}

/// A flush without a server fails each time, since each one tries again. A reported failure is not
/// reported again later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_told_of_a_failure_is_not_told_again() {
    let dir = Scratch::new("write-back-told");
    let mut server = ServerProcess::start(&dir.0);
    let rados = connect(&dir.0, Some(PATIENCE_S)).await;
    let cache = Cache::new(Options { dirty_time: LONG * 60, ..Options::of_size(64 << 20) });
    let mut written = make(&rados, &cache, "f").await;
    written.write(0, &[1; 300_000]).await;
    written.file.flush().await.expect("the server is there");
    server.kill();
    written.write(200_704, &[2; 8 * 4096]).await;
    for _ in 0..2 {
        assert_timed_out(written.file.flush().await);
        assert_eq!(cache.usage().dirty, 8 * 4096, "it is kept");
    }
    server = ServerProcess::start(&dir.0);
    is_there(&rados).await;
    written.file.flush().await.expect("told already, and written now");
    assert_eq!(cache.usage().dirty, 0);
    assert!(content(&dir.0, "f").await == written.array);
    written.file.close().await.expect("closed");
    rados.shutdown().await;
    drop(server);
}

/// A failure outside a flush is reported by the next flush, once, even if all data is written by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_behind_the_back_is_told_once() {
    let dir = Scratch::new("write-back-behind");
    let mut server = ServerProcess::start(&dir.0);
    let rados = connect(&dir.0, Some(PATIENCE_S)).await;
    let cache = Cache::new(Options { dirty_time: Duration::from_millis(5), ..Options::of_size(64 << 20) });
    let mut written = make(&rados, &cache, "f").await;
    let mut other = make(&rados, &cache, "other").await;
    written.write(0, &[1; 300_000]).await;
    other.write(0, &[3; 10_000]).await;
    written.file.flush().await.expect("the server is there");
    other.file.flush().await.expect("the server is there");
    server.kill();
    written.write(4096, &[2; 20 * 4096]).await;
    let first = soon(|| rados.requests().first().map(|request| request.tid)).await;
    soon(|| rados.requests().iter().all(|request| request.tid != first).then_some(())).await;
    assert_eq!(cache.usage().dirty, 20 * 4096, "it is kept");
    server = ServerProcess::start(&dir.0);
    soon(|| (cache.usage().dirty == 0).then_some(())).await;
    assert!(content(&dir.0, "f").await == written.array);
    assert_timed_out(written.file.flush().await);
    written.file.flush().await.expect("once");
    other.file.flush().await.expect("another file's failure");
    for written in [written, other] {
        written.file.close().await.expect("closed");
    }
    rados.shutdown().await;
    drop(server);
}

fn assert_timed_out(flushed: Result<(), Error>) {
    let e = flushed.expect_err("the server is away, or was");
    assert!(matches!(e, Error::WriteBack(_)) && e.errno() == Errno::ETIMEDOUT, "{e}");
}

async fn make(rados: &Rados, cache: &Cache<loligo_stripe::CachedObjects>, name: &str) -> Written {
    let pool = rados.ioctx("p").await.expect("the pool");
    let layout = Layout::new(UNIT, 3, 2 * UNIT).expect("valid");
    let striper = Striper::new(pool).with_layout(layout).expect("stock reads it");
    let file = striper.create(name).await.expect("made");
    file.extend(FILE_BYTES as u64).await.expect("as long as it becomes");
    Written { file: file.cached(cache), array: vec![0; FILE_BYTES] }
}

/// Returns the content as a client without a cache reads it.
async fn content(dir: &Path, name: &str) -> Vec<u8> {
    let rados = connect(dir, None).await;
    let file = Striper::new(rados.ioctx("p").await.expect("the pool")).open(name).await.expect("there");
    let content = file.read(0, u64::MAX).await.expect("read").into_bytes();
    file.close().await.expect("closed");
    rados.shutdown().await;
    content.to_vec()
}

async fn connect(dir: &Path, patience_s: Option<&str>) -> Rados {
    let conf = dir.join("ceph.conf");
    let mut builder = Builder::new().conf_file(conf.to_str().expect("a path in UTF-8"));
    if let Some(patience_s) = patience_s {
        builder = builder.set("rados_osd_op_timeout", patience_s);
    }
    tokio::time::timeout(LONG, builder.connect()).await.expect("the server answers").expect("connects")
}

/// Waits until the client has reconnected to the server.
async fn is_there(rados: &Rados) {
    let pool = rados.ioctx("p").await.expect("the pool");
    let begun = Instant::now();
    while pool.stat("nothing").await.is_err_and(|e| !e.is_not_found()) {
        assert!(begun.elapsed() < LONG, "the server is not there");
    }
}

/// Waits until `look` finds something.
async fn soon<T>(look: impl Fn() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < LONG, "it does not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
