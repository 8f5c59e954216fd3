//! Goal: whatever a cluster of several OSDs goes through, each operation of a client happens exactly once, and those on one
//! object in the order in which they were submitted. Method: on pools of two and three copies and on an erasure-coded one,
//! writers append to logs and count in attributes and maps under the condition that nobody else has counted, while primary
//! affinity, upmaps and the number of placement groups change, OSDs go out, down and away and come back, a pool gets another
//! name, one is removed, and the monitor restarts.
//!
//! LOLIGO_STOCK3_CONF names the ceph.conf of a cluster with three OSDs, LOLIGO_STOCK3_DIR its directory. Its daemons are
//! restarted. LOLIGO_CHAOS_ROUNDS says how often it all happens (1).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::{Builder, CmpOp, IoCtx, OsdId, Rados, ReadFrom, WriteOp};

/// Objects of each pool.
const OBJECTS: usize = 8;
/// Appends in flight on each object.
const WINDOW: usize = 4;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn operations_happen_once_and_in_order_in_chaos() {
    let cluster = Cluster::of_environment();
    let rounds = std::env::var("LOLIGO_CHAOS_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for _ in 0..rounds {
        cluster.run().await;
    }
}

struct Cluster {
    conf: String,
    dir: PathBuf,
}

impl Cluster {
    fn of_environment() -> Self {
        let var = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
        Self { conf: var("LOLIGO_STOCK3_CONF"), dir: var("LOLIGO_STOCK3_DIR").into() }
    }

    /// What `ceph` prints.
    fn ceph(&self, words: &str) -> String {
        let output = Command::new("ceph").env("CEPH_CONF", &self.conf).args(words.split(' ')).output();
        let output = output.expect("it is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ceph {words}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn make_pools(&self, id: u64) -> [String; 4] {
        let [two, three, coded, doomed] = ["two", "three", "coded", "doomed"].map(|p| format!("{p}-{id}"));
        self.ceph("osd erasure-code-profile set two-and-one k=2 m=1 crush-failure-domain=osd --force");
        self.ceph(&format!("osd pool create {coded} 16 16 erasure two-and-one"));
        for (pool, size) in [(&two, 2), (&three, 3), (&doomed, 2)] {
            self.ceph(&format!("osd pool create {pool} 16"));
            self.ceph(&format!("osd pool set {pool} size {size}"));
        }
        self.ceph(&format!("osd pool set {two} min_size 1"));
        self.ceph(&format!("osd pool set {three} min_size 2"));
        self.ceph(&format!("osd pool set {coded} min_size 2"));
        [two, three, coded, doomed]
    }

    async fn run(&self) {
        let rados = Builder::new().conf_file(&self.conf).connect().await.expect("connects");
        let [two, three, coded, doomed] = self.make_pools(rados.instance_id().0);
        let load = Load::default();
        for (pool, kind) in [(&two, PLAIN), (&three, PLAIN), (&coded, CODED)] {
            let pool = rados.ioctx(pool).await.expect("opened");
            load.start(&pool, kind);
        }
        all_copies_are_read(&rados, &rados.ioctx(&three).await.expect("opened")).await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut readers = Vec::new();
        for pool in [&two, &three] {
            let pool = rados.ioctx(pool).await.expect("opened");
            readers.push(tokio::spawn(read_anywhere(pool, Arc::clone(&stop))));
        }
        let mourned = rados.ioctx(&doomed).await.expect("opened");
        let mourner = tokio::spawn(mourn(mourned));

        load.progress("from the start").await;
        self.ceph("osd primary-affinity osd.0 0");
        load.progress("without osd.0 as a primary").await;
        self.ceph("osd set-require-min-compat-client luminous");
        self.upmap(&two);
        load.progress("after an upmap").await;
        self.ceph("osd primary-affinity osd.0 1");
        self.ceph(&format!("osd pool set {two} pg_num 64"));
        self.ceph(&format!("osd pool set {coded} pg_num 32"));
        load.progress("after splits").await;
        self.ceph("osd down osd.1");
        load.progress("after osd.1 was marked down").await;
        self.ceph("osd out osd.2");
        load.progress("with osd.2 out").await;
        self.ceph("osd in osd.2");
        self.ceph(&format!("osd pool set {two} pg_num 16"));
        load.progress("while placement groups merge").await;
        self.ceph(&format!("osd pool delete {doomed} {doomed} --yes-i-really-really-mean-it"));
        self.ceph(&format!("osd pool rename {two} {two}-renamed"));
        load.progress("after a pool got another name and one was removed").await;
        self.restart("ceph-osd", "osd.1").await;
        load.progress("after osd.1 was restarted").await;
        self.ceph("osd pause");
        self.ceph("osd unpause");
        self.restart("ceph-mon", "mon.a").await;
        load.progress("after the monitor was restarted").await;
        self.ceph("osd down osd.0 osd.2");
        load.progress("after two were marked down").await;

        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.await.expect("no panic") > 20, "it got on");
        }
        load.finish().await;
        mourner.await.expect("no panic");
        for pool in [format!("{two}-renamed"), three, coded] {
            self.ceph(&format!("osd pool delete {pool} {pool} --yes-i-really-really-mean-it"));
        }
        assert_eq!(rados.in_flight(), (0, 0));
    }

    /// Has some placement groups of a pool of two copies use another OSD than the map's rules say.
    fn upmap(&self, pool: &str) {
        let listed = self.ceph("osd lspools");
        let id = listed.lines().find_map(|line| line.strip_suffix(pool)).expect("the pool").trim().to_owned();
        for seed in 0..6 {
            let shown = self.ceph(&format!("pg map {id}.{seed:x}"));
            let up = shown.split("up [").nth(1).and_then(|rest| rest.split(']').next()).expect("a set");
            let up: Vec<&str> = up.split(',').collect();
            let other = ["0", "1", "2"].into_iter().find(|osd| !up.contains(osd)).expect("there are three");
            self.ceph(&format!("osd pg-upmap-items {id}.{seed:x} {} {other}", up[0]));
        }
    }

    /// Stops a daemon in an orderly way and starts it again.
    async fn restart(&self, program: &str, daemon: &str) {
        let pid_file = self.dir.join("run").join(format!("{daemon}.pid"));
        let pid = std::fs::read_to_string(pid_file).expect("the daemon's pid").trim().to_owned();
        assert!(Command::new("kill").arg(&pid).status().expect("kill runs").success());
        while Path::new("/proc").join(&pid).exists() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let id = daemon.split('.').nth(1).expect("TYPE.ID");
        let started = Command::new(program).env("CEPH_CONF", &self.conf).args(["-i", id]).status();
        assert!(started.expect("it is installed").success(), "{daemon}");
    }
}

/// What objects of a pool can do.
#[derive(Clone, Copy)]
struct Kind {
    has_maps: bool,
    /// Bytes of one append.
    token_len: usize,
}

const PLAIN: Kind = Kind { has_maps: true, token_len: 8 };
/// Whole stripes only: two chunks of 4 KiB.
const CODED: Kind = Kind { has_maps: false, token_len: 8192 };

/// Writers, who check what they do.
#[derive(Default)]
struct Load {
    stop: Arc<AtomicBool>,
    /// Rounds that each writer has done.
    done: std::sync::Mutex<Vec<Arc<AtomicU64>>>,
    writers: std::sync::Mutex<Vec<tokio::task::JoinHandle<()>>>,
}

impl Load {
    fn start(&self, pool: &IoCtx, kind: Kind) {
        for i in 0..OBJECTS {
            let done = Arc::new(AtomicU64::new(0));
            self.done.lock().expect("no panic").push(Arc::clone(&done));
            let writer = write(pool.clone(), format!("o{i}"), kind, Arc::clone(&self.stop), done);
            self.writers.lock().expect("no panic").push(tokio::spawn(writer));
        }
    }

    /// Waits until each writer has got on.
    async fn progress(&self, when: &str) {
        let done = self.done.lock().expect("no panic").clone();
        let goal: Vec<u64> = done.iter().map(|done| done.load(Ordering::Relaxed) + 5).collect();
        let behind =
            || done.iter().zip(&goal).filter(|(done, goal)| done.load(Ordering::Relaxed) < **goal).count();
        let reached = async {
            while behind() > 0 && !self.has_lost_one() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let limit = Duration::from_secs(120);
        let in_time = tokio::time::timeout(limit, reached).await.is_ok();
        assert!(!self.has_lost_one(), "a writer has failed {when}");
        assert!(in_time, "{} of {} writers are stuck {when}", behind(), done.len());
    }

    fn has_lost_one(&self) -> bool {
        self.writers.lock().expect("no panic").iter().any(tokio::task::JoinHandle::is_finished)
    }

    async fn finish(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let writers = std::mem::take(&mut *self.writers.lock().expect("no panic"));
        for writer in writers {
            writer.await.expect("what was written is there");
        }
    }
}

/// Appends to an object and counts on it until told to stop; then checks what is there.
async fn write(pool: IoCtx, name: String, kind: Kind, stop: Arc<AtomicBool>, done: Arc<AtomicU64>) {
    let counter = format!("{name}.counter");
    let o = counter.as_str();
    let first = WriteOp::new().create(true).set_xattr("n", "0");
    pool.operate(o, first).await.expect("made, once");
    if kind.has_maps {
        pool.set_omap(o, [("n", text(0))]).await.expect("set");
    }
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let window = (n * WINDOW..(n + 1) * WINDOW)
            .map(|i| pool.append(name.as_str(), token(i, kind.token_len).into()));
        for appended in join_all(window).await {
            appended.expect("appended");
        }
        // Executed twice, it would not find the count that it asks for.
        let mut count = WriteOp::new().compare_xattr("n", CmpOp::Eq, text(n)).set_xattr("n", text(n + 1));
        if kind.has_maps {
            count = count.compare_omap("n", CmpOp::Eq, text(n)).set_omap([("n", text(n + 1))]);
        }
        pool.operate(o, count).await.unwrap_or_else(|e| panic!("{o} counts from {n}: {e}"));
        n += 1;
        done.store(n as u64, Ordering::Relaxed);
    }
    let log = pool.read(name.as_str(), 0, 0).await.expect("read");
    let expected: String = (0..n * WINDOW).map(|i| token(i, kind.token_len)).collect();
    let at = log
        .chunks(kind.token_len)
        .zip(expected.as_bytes().chunks(kind.token_len))
        .position(|(got, wanted)| got != wanted);
    assert!(
        log == expected.as_bytes(),
        "{name}: {} bytes of {}, differs at {at:?}",
        log.len(),
        expected.len()
    );
    assert_eq!(pool.xattr(o, "n").await.expect("read"), text(n), "{o}");
    if kind.has_maps {
        assert_eq!(pool.omap_values(o, ["n"]).await.expect("read")[&b"n"[..]], text(n), "{o}");
    }
}

/// Writes to a pool until it is removed.
async fn mourn(pool: IoCtx) {
    let mut written = 0;
    let last = loop {
        match pool.append("o", token(written, 8).into()).await {
            Ok(()) => written += 1,
            Err(e) => break e,
        }
    };
    assert!(written > 0 && last.is_not_found(), "{written}: {last}");
}

/// What is appended as the `i`th.
fn token(i: usize, len: usize) -> String {
    format!("{i:07}|{}", ".".repeat(len - 8))
}

fn text(n: usize) -> Bytes {
    n.to_string().into()
}

/// Reads that are balanced come to all OSDs that have an object.
async fn all_copies_are_read(rados: &Rados, pool: &IoCtx) {
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
    let before = reads().await;
    let balanced = pool.reading_from(ReadFrom::Balanced);
    for _ in 0..60 {
        assert_eq!(balanced.read("copied", 0, 0).await.expect("read"), "copy");
    }
    let after = reads().await;
    assert!(before.iter().zip(&after).all(|(before, after)| after - before >= 15), "{before:?} {after:?}");
}

/// Writes an object again and again and reads it from other copies than the primary's, until it is to stop: what was acknowledged is in all of
/// them. Gives how often.
async fn read_anywhere(pool: IoCtx, stop: Arc<AtomicBool>) -> u64 {
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
