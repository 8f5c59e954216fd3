//! The cost of the first write to an object after a snapshot in a store on disk, compared with a plain
//! write, without a network.
//!
//! `cargo bench -p loligo-store-disk --bench disk_clone -- DIR [MIB]` (DIR absolute) creates an image of
//! that many MiB (1,024) of objects of 4 MiB in a new directory. Then it runs three rounds. Each writes 4
//! KiB at a random place of each object, and does the same after a snapshot, as an OSD does: a clone and
//! the write in one transaction, with a new name for the clone in each round. One write runs at a time. A
//! round ends when a checkpoint has written all of it.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use bytes::Bytes;
use loligo_store::{
    Change, Collection, CommitListener, Info, ObjectChanges, ObjectRef, ObjectStore, StoreError, Transaction,
};
use loligo_store_disk::{DiskConfig, DiskStore};
use loligo_wire::{Epoch, Eversion, PgId, PoolId, SnapId, Uuid};
use smallvec::smallvec;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OBJECT: usize = 4 << 20;
const BLOCK: u64 = 4096;
const ROUNDS: u64 = 3;
/// A checkpoint runs after 10 seconds at the latest.
const SETTLE: Duration = Duration::from_secs(11);

struct Safe(mpsc::Sender<u64>);

impl CommitListener for Safe {
    fn committed(&self, version: Eversion) {
        let _ = self.0.send(version.version);
    }

    fn stopped(&self, error: &StoreError) {
        eprintln!("stopped: {error}");
    }
}

struct Image {
    store: DiskStore,
    collection: std::sync::Arc<dyn Collection>,
    safe: mpsc::Receiver<u64>,
    version: u64,
    objects: u64,
}

fn main() {
    let mut args = env::args().skip(1).filter(|arg| arg != "--bench");
    let dir = PathBuf::from(args.next().expect("a directory"));
    let mib: u64 = args.next().map_or(1024, |n| n.parse().expect("a number"));
    fs::create_dir_all(&dir).expect("a directory");
    let config = DiskConfig { capacity: Some((4 * mib) << 20), ..DiskConfig::new(Uuid([7; 16])) };
    let store = DiskStore::open(&dir, config).expect("a store");
    let (sender, safe) = mpsc::channel();
    let pg = PgId { pool: PoolId(1), seed: 0 };
    let collection = store.open(pg, std::sync::Arc::new(Safe(sender))).expect("a collection");
    let mut image = Image { store, collection, safe, version: 0, objects: (mib << 20) / OBJECT as u64 };
    let data = Bytes::from(vec![7; OBJECT]);
    for object in 0..image.objects {
        image.submit(object, None, Change::WriteFull { data: data.clone() });
    }
    thread::sleep(SETTLE);
    println!("the image: {} MiB in use", image.used_mib());
    for round in 0..ROUNDS {
        let plain = image.round(round, None);
        let first = image.round(round, Some(SnapId(round + 1)));
        println!(
            "round {round}: plain {:.0} us of time and {:.0} us of CPU a write, after a snapshot {:.0} and {:.0}: x {:.2} and x {:.2}; {} MiB in use",
            plain.0,
            plain.1,
            first.0,
            first.1,
            first.0 / plain.0,
            first.1 / plain.1,
            image.used_mib()
        );
    }
    image.store.close();
}

impl Image {
    /// Writes to each object once. Returns the mean microseconds of a write until it was safe, and of this
    /// process' CPU time for it, the checkpoint included.
    fn round(&mut self, round: u64, snap: Option<SnapId>) -> (f64, f64) {
        let (start, cpu) = (Instant::now(), cpu_ticks());
        for object in 0..self.objects {
            let block = (object * 7919 + round * 104_729).wrapping_mul(0x9e37_79b9) % (OBJECT as u64 / BLOCK);
            let data = Bytes::from(vec![round as u8; BLOCK as usize]);
            self.submit(object, snap, Change::Write { offset: block * BLOCK, data });
        }
        let time_us = start.elapsed().as_secs_f64() * 1e6 / self.objects as f64;
        thread::sleep(SETTLE);
        let ticks = cpu_ticks() - cpu;
        (time_us, ticks as f64 * 1e4 / self.objects as f64)
    }

    fn submit(&mut self, object: u64, snap: Option<SnapId>, change: Change<'static>) {
        self.version += 1;
        let name = format!("rbd_data.1.{object:016x}");
        let head = ObjectRef::head((object as u32).wrapping_mul(0x9e37_79b1), name.as_bytes());
        let version = Eversion { epoch: Epoch(1), version: self.version };
        let info = Info { version, user_version: self.version, ..Info::default() };
        let mut objects = smallvec![];
        if let Some(snap) = snap {
            let changes = smallvec![Change::CloneFrom { source: head }];
            objects.push(ObjectChanges { oid: ObjectRef { snap, ..head }, info, changes });
        }
        objects.push(ObjectChanges { oid: head, info, changes: smallvec![change] });
        self.collection.submit(Transaction { version, objects, record: None }).expect("room");
        while self.safe.recv().expect("the store goes on") < self.version {}
    }

    fn used_mib(&self) -> u64 {
        let space = self.store.statfs();
        (space.total - space.available) >> 20
    }
}

/// This process' CPU time, in hundredths of a second.
fn cpu_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    fields.map(|n| n.parse::<u64>().expect("a number")).sum()
}
