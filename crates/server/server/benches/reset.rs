//! How long a server takes to return to its first state, and to write and read it:
//! `cargo bench -p loligo-server --bench reset [OBJECTS] [IMAGES]`.
//!
//! A round changes objects, resets, and reads one by a client that stays connected. An image is the objects
//! of one: a header with attributes and an omap, and sixteen objects of data.

use std::time::{Duration, Instant};

use loligo_rados::{Builder, IoCtx, WriteOp};
use loligo_server::{Handle, Server};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 51;
/// Objects that a round changes.
const CHANGED: usize = 200;

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench").map(|arg| arg.parse());
    let mut count = |default| args.next().and_then(Result::ok).unwrap_or(default);
    let (objects, images) = (count(1_000), count(10));
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    runtime.block_on(measure(objects, images));
}

async fn measure(objects: usize, images: usize) {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let conf = server.conf().to_str().expect("a path in UTF-8");
    let rados = Builder::new().conf_file(conf).connect().await.expect("connects");
    let pool = rados.ioctx("p").await.expect("there");
    fill(&pool, objects, images).await;
    server.mark().await.expect("in memory");
    let (mut resets, mut reads) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for at in 0..CHANGED.min(objects) {
            pool.write_full(format!("o{at}"), vec![2; 8192].into()).await.expect("written");
        }
        // Our client waits before it replaces a connection that it has only just opened.
        tokio::time::sleep(Duration::from_millis(110)).await;
        let began = Instant::now();
        server.reset().await.expect("in memory");
        resets.push(began.elapsed());
        pool.read("o0", 0, 0).await.expect("there");
        reads.push(began.elapsed());
    }
    println!("{objects} objects, {images} images, {CHANGED} objects changed in each of {ROUNDS} rounds");
    show("reset", resets);
    show("reset, and a read by a connected client", reads);
    of_file(&server).await;
    rados.shutdown().await;
}

async fn of_file(server: &Handle) {
    let file = std::env::temp_dir().join(format!("loligo-reset-bench.{}", std::process::id()));
    let (mut dumps, mut restores) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        let began = Instant::now();
        server.dump(&file).await.expect("written");
        dumps.push(began.elapsed());
        let began = Instant::now();
        server.restore(&file).await.expect("it is whole");
        restores.push(began.elapsed());
    }
    let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
    println!("a file of {:.1} MB", bytes as f64 / 1e6);
    show("dump", dumps);
    show("restore", restores);
    let _ = std::fs::remove_file(&file);
}

async fn fill(pool: &IoCtx, objects: usize, images: usize) {
    for at in 0..objects {
        pool.write_full(format!("o{at}"), vec![1; 4096].into()).await.expect("written");
    }
    for image in 0..images {
        let keys = (0..12).map(|key| (format!("key{key}"), vec![0; 40].into()));
        let header = WriteOp::new().create(false).set_omap(keys);
        pool.operate(format!("rbd_header.{image}"), header).await.expect("written");
        for part in 0..16 {
            let name = format!("rbd_data.{image}.{part:016x}");
            pool.write_full(name, vec![1; 64 << 10].into()).await.expect("written");
        }
    }
}

fn show(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (median, last) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what:<42} median {:>8.3} ms, longest {:>8.3} ms", ms(median), ms(last));
}
