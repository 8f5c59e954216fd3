//! Goal: our client uses a stock cluster whose daemons speak version 1 of the messenger alone, as it uses
//! others. Method: objects and images are shared with the cluster's own programs, connections to all daemons
//! are cut at any byte, and an OSD is restarted while writers work. `upheaval.rs` of the crate `rados` runs
//! on this cluster as well.
//!
//! LOLIGO_STOCK_DIR names the directory of a cluster that was started by
//! `cargo xtask stock-ceph up DIR --without-msgr2`.

#[path = "../../rados/tests/daemons/mod.rs"]
mod daemons;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_msgr::testing::{FaultProxies, FaultProxy};
use loligo_rados::{Builder, IoCtx, Rados};
use loligo_rbd::{CloneFormat, Image, Mode, NewClone, NewImage, Shrink};
use tokio::time::{sleep, timeout};

use daemons::Daemons;

const MB: u64 = 1 << 20;

/// The timeout of all waits.
const LONG: Duration = Duration::from_secs(180);

/// Maximum life of a connection through a proxy, in bytes, and the number of those that are reset.
const LIFE_MAX: u64 = 40_000;
const RESETS_MAX: u64 = 25;

/// The cluster, and a client of it with a pool of its own.
struct Place {
    daemons: Daemons,
    rados: Rados,
    pool: String,
    io: IoCtx,
}

impl Place {
    async fn new(what: &str) -> Self {
        let daemons = Daemons::of("LOLIGO_STOCK_DIR");
        let monitors = mon_host(&daemons);
        assert!(monitors.contains("v1:") && !monitors.contains("v2:"), "the cluster has msgr2: {monitors}");
        let rados = Builder::new().conf_file(&daemons.conf()).connect().await.expect("connects");
        let pool = format!("v1-{what}-{}", rados.instance_id());
        rados.create_pool(&pool).await.expect("a pool");
        let io = rados.ioctx(&pool).await.expect("the pool");
        Self { daemons, rados, pool, io }
    }

    /// Runs a program of the cluster's release, which must succeed, and returns its output. `POOL` stands for
    /// the pool.
    fn stock(&self, words: &str) -> String {
        self.daemons.run(&words.replace("POOL", &self.pool))
    }

    async fn end(self) {
        self.rados.delete_pool(&self.pool).await.expect("deleted");
        self.rados.shutdown().await;
    }
}

/// `mon host` of the cluster's configuration.
fn mon_host(daemons: &Daemons) -> String {
    let text = std::fs::read_to_string(daemons.conf()).expect("the cluster has a configuration");
    let line = text.lines().find_map(|line| line.strip_prefix("mon host = "));
    line.expect("it names the monitors").to_owned()
}

/// Bytes that are different for each object.
fn content(number: usize, len: usize) -> Bytes {
    (0..len).map(|at| ((at * (number + 3)) >> 4) as u8).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn objects_are_shared_with_stock() {
    let place = Place::new("objects").await;
    let io = &place.io;
    let len = |i: usize| i * i * 2503 % (4 * MB as usize);
    let writes = (0..40).map(|i| io.write_full(format!("ours-{i}"), content(i, len(i))));
    assert!(join_all(writes).await.into_iter().all(|written| written.is_ok()));
    for i in 0..40 {
        let read = io.read(format!("ours-{i}"), 0, 4 * MB).await.expect("read");
        assert!(read == content(i, len(i)), "object {i} has {} bytes of {}", read.len(), len(i));
    }
    assert_eq!(place.stock("rados -p POOL ls").lines().count(), 40);
    assert!(place.stock("rados -p POOL stat ours-39").contains(&format!("size {}", len(39))));
    io.set_xattr("ours-1", "language", "en").await.expect("set");
    assert_eq!(place.stock("rados -p POOL getxattr ours-1 language").trim_end(), "en");
    place.stock("rados -p POOL setomapval ours-1 key value");
    let values = io.omap_values("ours-1", ["key"]).await.expect("read");
    assert_eq!(values[&b"key"[..]], "value");
    place.end().await;
}

/// Sizes, snapshots and the exclusive lock go from client to client by notifications.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn images_are_shared_with_stock() {
    let place = Place::new("images").await;
    loligo_rbd::create(&place.io, "disk", NewImage::of_size(64 * MB)).await.expect("made");
    let image = Image::open(&place.io, "disk", Mode::ReadWrite).await.expect("opens");
    image.write(5 * MB, content(1, 3 << 20)).await.expect("written");
    assert!(image.is_lock_owner());
    // The lock's owner does for stock what stock asks for.
    place.stock("rbd snap create POOL/disk@theirs");
    place.stock("rbd resize POOL/disk --size 96M --no-progress");
    assert_eq!(image.size(), 96 * MB);
    image.write(5 * MB, content(2, 3 << 20)).await.expect("written");
    place.stock("rbd bench POOL/disk --io-type write --io-size 4K --io-total 256K");
    assert!(!image.is_lock_owner(), "stock has taken the lock");
    image.write(9 * MB, content(3, 4096)).await.expect("written");
    assert!(image.read(9 * MB, 4096).await.expect("read") == content(3, 4096));
    image.resize(80 * MB, Shrink::Allowed).await.expect("resized");
    assert!(place.stock("rbd info POOL/disk").contains("size 80 MiB"));
    let at = Image::open_snapshot(&place.io, "disk", "theirs").await.expect("opens");
    assert!(at.read(5 * MB, 3 * MB).await.expect("read") == content(1, 3 << 20));
    at.close().await.expect("closes");
    let second = NewClone { format: CloneFormat::Second, ..NewClone::default() };
    loligo_rbd::clone(&place.io, "disk", "theirs", &place.io, "copy", second).await.expect("cloned");
    let copy = Image::open(&place.io, "copy", Mode::ReadWrite).await.expect("opens");
    copy.write(6 * MB, content(4, 512)).await.expect("written");
    assert!(copy.read(5 * MB, MB).await.expect("read") == content(1, 3 << 20)[..1 << 20]);
    copy.close().await.expect("closes");
    image.close().await.expect("closes");
    for image in ["disk", "copy"] {
        place.stock(&format!("rbd object-map check POOL/{image} --no-progress"));
        let info = place.stock(&format!("rbd info POOL/{image}"));
        assert!(info.lines().any(|line| line.trim() == "flags:"), "{info}");
    }
    place.end().await;
}

/// Appends to objects until told to stop. Returns how many there are in each.
struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<usize>>,
}

impl Writers {
    const COUNT: usize = 8;

    fn start(io: &IoCtx) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = |writer| {
            let (io, stop) = (io.clone(), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    io.append(format!("append-{writer}"), token(count).into()).await.expect("appended");
                    count += 1;
                }
                count
            })
        };
        let tasks = (0..Self::COUNT).map(task).collect();
        Self { stop, tasks }
    }

    /// Ends them, and compares what each has appended: all, once, in order.
    async fn finish(self, io: &IoCtx) {
        self.stop.store(true, Ordering::Relaxed);
        for (writer, task) in self.tasks.into_iter().enumerate() {
            let count = timeout(LONG, task).await.expect("it ends").expect("no panic");
            let got = io.read(format!("append-{writer}"), 0, 0).await.expect("read");
            let expected: String = (0..count).map(token).collect();
            assert!(
                count > 0 && got == expected.as_bytes(),
                "{writer}: {} bytes of {count} appends",
                got.len()
            );
        }
    }
}

fn token(number: usize) -> String {
    format!("{number:07}|")
}

/// Waits until a condition is met.
async fn until(what: &str, met: impl Fn() -> bool) {
    let wait = async {
        while !met() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(LONG, wait).await.is_ok(), "{what}: not after {} s", LONG.as_secs());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn what_is_appended_over_connections_that_break_is_there_once() {
    let place = Place::new("cut").await;
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let proxies = Arc::new(FaultProxies::new(seed, LIFE_MAX, RESETS_MAX));
    let through = Arc::clone(&proxies);
    let builder = Builder::new().conf_file(&place.daemons.conf()).reroute(move |_, to| through.route(to));
    let rados = builder.connect().await.expect("connects");
    let io = rados.ioctx(&place.pool).await.expect("the pool");
    let writers = Writers::start(&io);
    until("resets", || proxies.sum(FaultProxy::faults) >= RESETS_MAX).await;
    writers.finish(&io).await;
    rados.shutdown().await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn writers_go_on_after_a_restart_of_the_osd() {
    let place = Place::new("restart").await;
    // Keeps acknowledged writes across a restart if objects are stored in memory.
    place.stock("ceph config set osd osd_fast_shutdown false");
    let writers = Writers::start(&place.io);
    for _ in 0..2 {
        place.daemons.restart("osd.0").await;
        let last = Bytes::from_static(b"after the restart");
        timeout(LONG, place.io.write_full("o", last)).await.expect("it is back").expect("written");
    }
    writers.finish(&place.io).await;
    place.end().await;
}

/// A client that is told the wrong version says which one is spoken.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_client_of_msgr2_is_told_what_to_give() {
    let daemons = Daemons::of("LOLIGO_STOCK_DIR");
    let wrong = mon_host(&daemons).replace("v1:", "v2:");
    let builder = Builder::new().conf_file(&daemons.conf()).set("mon_host", &wrong);
    let error = builder.set("client_mount_timeout", "2").connect().await.expect_err("it is not msgr2");
    assert!(error.to_string().contains("v1:HOST:PORT"), "{error}");
}
