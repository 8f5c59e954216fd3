//! The cost of many small objects in a store on disk, without a network: the memory while they are
//! written, and the time to open the store after it was closed and after its process was killed.
//!
//! `cargo bench -p loligo-store-disk --bench disk_fill -- DIR [OBJECTS] [CACHE_MIB] [JOURNAL_MIB]` (DIR
//! absolute) fills a new directory. With the directory of an earlier run it only opens the store. The last
//! line of the first run tells how to start the next one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use bytes::Bytes;
use loligo_store::{
    Change, Collection, CommitListener, Info, ObjectChanges, ObjectRef, ObjectStore, OpRecord, StoreError,
    Transaction,
};
use loligo_store_disk::{DiskConfig, DiskStore};
use loligo_wire::{Epoch, Eversion, PgId, PoolId, Tid, Uuid};
use smallvec::smallvec;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PGS: u32 = 32;
/// Writes in flight: as many as a few busy clients have.
const DEPTH: u64 = 256;

/// Counts safe transactions. The versions of a collection are 1, 2, 3.
#[derive(Default)]
struct Safe(AtomicU64);

impl CommitListener for Safe {
    fn committed(&self, version: Eversion) {
        self.0.store(version.version, Ordering::Release);
    }

    fn stopped(&self, error: &StoreError) {
        eprintln!("stopped: {error}");
    }
}

struct Pg {
    collection: Arc<dyn Collection>,
    safe: Arc<Safe>,
    version: u64,
}

fn main() {
    let mut args = env::args().skip(1).filter(|arg| arg != "--bench");
    let dir = PathBuf::from(args.next().expect("a directory"));
    let mut number = |default| args.next().map_or(default, |n| n.parse().expect("a number"));
    let (objects, cache_mib): (u64, u64) = (number(5_000_000), number(64));
    let config = DiskConfig { cache_bytes: (cache_mib << 20) as usize, ..DiskConfig::new(Uuid([7; 16])) };
    let is_new = !dir.exists();
    fs::create_dir_all(&dir).expect("a directory");
    let store = open(&dir, config);
    if is_new {
        fill(&store, objects);
        println!("{:<28} {:>8} MiB", "memory after filling", resident_mib());
        let start = Instant::now();
        store.close();
        println!("{:<28} {:>8.2} s", "closing", start.elapsed().as_secs_f64());
    }
    drop(store);
    let store = open(&dir, config);
    look(&store, objects);
    // Some are in the journal only.
    fill(&store, objects.min(50_000));
    println!("{:<28} {:>8} MiB", "memory in the end", resident_mib());
    println!("now killing itself; run it again with the same directory");
    let killed = process::Command::new("kill").args(["-9", &process::id().to_string()]).status();
    assert!(killed.is_ok_and(|status| status.success()), "kill");
    thread::sleep(Duration::MAX);
}

fn open(dir: &Path, config: DiskConfig) -> DiskStore {
    let start = Instant::now();
    let store = DiskStore::open(dir, config).expect("a store");
    let took = start.elapsed().as_secs_f64();
    let objects = store.statfs().stored.objects;
    println!("{:<28} {took:>8.2} s, {objects} objects, {} MiB", "opening", resident_mib());
    store
}

fn fill(store: &DiskStore, objects: u64) {
    let mut pgs: Vec<Pg> = (0..PGS).map(|seed| pg(store, seed)).collect();
    // 100 bytes to 4 KiB.
    let data = Bytes::from_iter((0..1u32 << 20).map(|i| ((i * i) >> 9) as u8));
    let start = Instant::now();
    let tenth = (objects / 10).max(1);
    let (mut most, mut next) = (0, tenth);
    let mut waiting = std::collections::VecDeque::new();
    for i in 0..objects {
        let hash = scatter(i);
        let pg = &mut pgs[hash as usize % PGS as usize];
        pg.version += 1;
        let len = 100 + (hash >> 8) as usize % 3996;
        let name = format!("benchmark_data_host_4242_object{i}");
        let version = Eversion { epoch: Epoch(1), version: pg.version };
        let at = (i as usize * 4096) % (data.len() - 8192);
        let changes = smallvec![Change::WriteFull { data: data.slice(at..at + len) }];
        let oid = ObjectRef::head(hash, name.as_bytes());
        let info = Info { version, user_version: pg.version, ..Info::default() };
        let record = OpRecord { client: 1, tid: Tid(i), version, ..OpRecord::default() };
        let objects = smallvec![ObjectChanges { oid, info, changes }];
        pg.collection.submit(Transaction { version, objects, record: Some(record) }).expect("room");
        waiting.push_back((hash as usize % PGS as usize, pg.version));
        while waiting.len() as u64 > DEPTH {
            let (index, version) = waiting[0];
            while pgs[index].safe.0.load(Ordering::Acquire) < version {
                thread::sleep(Duration::from_micros(50));
            }
            waiting.pop_front();
        }
        if i % 1000 == 0 {
            most = most.max(resident_mib());
        }
        if i == next {
            next += tenth;
            println!(
                "{:<28} {i:>8}, {:.1} s, {most} MiB at most",
                "  written",
                start.elapsed().as_secs_f64()
            );
        }
    }
    println!(
        "{:<28} {:>8.0} objects/s, {most} MiB at most",
        "filling",
        objects as f64 / start.elapsed().as_secs_f64()
    );
}

/// Reads objects all over the store.
fn look(store: &DiskStore, objects: u64) {
    let pgs: Vec<Pg> = (0..PGS).map(|seed| pg(store, seed)).collect();
    let count = objects.min(100_000);
    let (start, mut most) = (Instant::now(), 0);
    for n in 0..count {
        let i = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % objects;
        let hash = scatter(i);
        let name = format!("benchmark_data_host_4242_object{i}");
        let oid = ObjectRef::head(hash, name.as_bytes());
        let (sender, receiver) = std::sync::mpsc::channel();
        match pgs[hash as usize % PGS as usize].collection.object(oid) {
            loligo_store::Fetch::Now(view) => drop(sender.send(Ok(view))),
            loligo_store::Fetch::Later(later) => later.then(move |view| drop(sender.send(view))),
        }
        assert!(receiver.recv().expect("an answer").expect("readable").is_some(), "{name}");
        if n % 1000 == 0 {
            most = most.max(resident_mib());
        }
    }
    println!(
        "{:<28} {:>8.0} objects/s, {most} MiB at most",
        "looking at objects",
        count as f64 / start.elapsed().as_secs_f64()
    );
}

fn pg(store: &DiskStore, seed: u32) -> Pg {
    let safe = Arc::new(Safe::default());
    let listener: Arc<dyn CommitListener> = Arc::clone(&safe) as _;
    let collection = store.open(PgId { pool: PoolId(1), seed }, listener).expect("the store works");
    let version = collection.version().version;
    safe.0.store(version, Ordering::Release);
    Pg { collection, safe, version }
}

/// A hash that only has to spread the names.
fn scatter(i: u64) -> u32 {
    ((i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn resident_mib() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    pages / 256
}
