//! Nanoseconds of CPU time that operations of the memory store take:
//! `cargo bench -p loligo-store --bench store_bench [OBJECTS]`.

use std::hint::black_box;
use std::sync::Arc;

use bytes::Bytes;
use loligo_store::memory::MemoryStore;
use loligo_store::{
    Change, Collection, Commit, CommitListener, Data, Info, ObjectChanges, ObjectRef, ObjectStore,
    ObjectView, StoreError, Transaction,
};
use loligo_wire::{Eversion, PgId, PoolId};
use smallvec::smallvec;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PGS: u32 = 128;
const SMALL: usize = 4 << 10;
const LARGE: usize = 4 << 20;

struct Deaf;

impl CommitListener for Deaf {
    fn committed(&self, _: Eversion) {}
    fn stopped(&self, _: &StoreError) {}
}

fn main() {
    let objects: u32 = std::env::args()
        .skip(1)
        .find(|arg| arg != "--bench")
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000_000);
    let store = MemoryStore::new(u64::MAX);
    let open =
        |seed| store.open(PgId { pool: PoolId(1), seed }, Arc::new(Deaf)).expect("memory never refuses");
    let pgs: Vec<_> = (0..PGS).map(open).collect();
    small_objects(&pgs, objects);
    blocks_of_large_objects(&pgs);
    large_objects(&pgs);
}

fn small_objects(pgs: &[Arc<dyn Collection>], objects: u32) {
    let names: Vec<String> = (0..objects).map(|i| format!("benchmark_data_host_4242_object{i}")).collect();
    // Far larger than a CPU cache, as the receive buffers of many connections are.
    let wire = Bytes::from(vec![1; 64 << 20]);
    let data = |i: u32| wire.slice(i as usize * SMALL % wire.len()..).slice(..SMALL);
    let before = resident_bytes();
    time("create 4 KiB", objects, |i| write_full(pgs, oid(&names, i), data(i)));
    let taken = (resident_bytes() - before) as f64 / f64::from(objects);
    println!("{:<32} {:>8.0} bytes", "memory beside data and name", taken - (SMALL + names[0].len()) as f64);
    time("read 4 KiB", objects, |i| {
        black_box(read(pgs, oid(&names, scatter(i) % objects), 0, SMALL));
    });
    time("overwrite 4 KiB", objects, |i| write_full(pgs, oid(&names, scatter(i) % objects), data(i)));
    time("stat", objects, |i| {
        black_box(view(pgs, oid(&names, scatter(i) % objects)).size());
    });
    time("remove", objects, |i| submit(pgs, oid(&names, i), Change::Remove));
}

fn blocks_of_large_objects(pgs: &[Arc<dyn Collection>]) {
    let objects = 64;
    let names: Vec<String> = (0..objects).map(|i| format!("rbd_data.10226b8b4567.{i:016x}")).collect();
    let wire = Bytes::from(vec![1; 64 << 20]);
    let writes = objects * (LARGE / SMALL) as u32;
    let write = |i: u32| {
        let at = scatter(i) % writes;
        let offset = u64::from(at / objects) * SMALL as u64;
        let data = wire.slice(i as usize * SMALL % wire.len()..).slice(..SMALL);
        submit(pgs, oid(&names, at % objects), Change::Write { offset, data });
    };
    time("write 4 KiB, random, into holes", writes, write);
    time("write 4 KiB, random, over it", writes, write);
    (0..objects).for_each(|i| write_full(pgs, oid(&names, i), Bytes::from(vec![2; LARGE])));
    time("write 4 KiB, random, over 4 MiB", writes, write);
    time("read 4 KiB, random", writes, |i| {
        let at = scatter(i) % writes;
        let offset = u64::from(at / objects) * SMALL as u64;
        black_box(read(pgs, oid(&names, at % objects), offset, SMALL));
    });
    time("read 4 MiB in blocks", objects, |i| {
        black_box(read(pgs, oid(&names, i), 0, LARGE));
    });
    (0..objects).for_each(|i| submit(pgs, oid(&names, i), Change::Remove));
}

fn large_objects(pgs: &[Arc<dyn Collection>]) {
    let names: Vec<String> = (0..200).map(|i| format!("large{i}")).collect();
    let data = Bytes::from(vec![1; LARGE]);
    time("create 4 MiB, kept as received", 200, |i| write_full(pgs, oid(&names, i), data.clone()));
    time("read 4 MiB", 200, |i| {
        black_box(read(pgs, oid(&names, i), 0, LARGE));
    });
}

/// Prints the mean, and the mean of the best eighth, which other load on the machine affects least.
fn time(what: &str, ops: u32, mut op: impl FnMut(u32)) {
    let slice = (ops / 8).max(1);
    let mut best = f64::MAX;
    let start = cpu_ns();
    for first in (0..ops).step_by(slice as usize) {
        let start = cpu_ns();
        let end = ops.min(first + slice);
        (first..end).for_each(&mut op);
        best = best.min((cpu_ns() - start) as f64 / f64::from(end - first));
    }
    let mean = (cpu_ns() - start) as f64 / f64::from(ops);
    println!("{what:<32} {mean:>8.0} ns/op, best eighth {best:.0}");
}

/// Visits indices in an order that defeats prefetchers.
fn scatter(i: u32) -> u32 {
    i.wrapping_mul(0x9e37_79b1)
}

/// The hash only has to spread the names.
fn oid(names: &[String], i: u32) -> ObjectRef<'_> {
    let hash = (u64::from(i) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ObjectRef::head((hash >> 32) as u32, names[i as usize].as_bytes())
}

fn pg<'a>(pgs: &'a [Arc<dyn Collection>], oid: &ObjectRef<'_>) -> &'a dyn Collection {
    &*pgs[(oid.hash % PGS) as usize]
}

fn submit(pgs: &[Arc<dyn Collection>], oid: ObjectRef<'_>, change: Change<'_>) {
    let objects = smallvec![ObjectChanges { oid, info: Info::default(), changes: smallvec![change] }];
    let done = pg(pgs, &oid).submit(Transaction { objects, ..Transaction::default() });
    assert_eq!(done, Ok(Commit::Done));
}

fn write_full(pgs: &[Arc<dyn Collection>], oid: ObjectRef<'_>, data: Bytes) {
    submit(pgs, oid, Change::WriteFull { data });
}

fn view(pgs: &[Arc<dyn Collection>], oid: ObjectRef<'_>) -> Arc<dyn ObjectView> {
    pg(pgs, &oid).object(oid).now().flatten().expect("written before")
}

fn read(pgs: &[Arc<dyn Collection>], oid: ObjectRef<'_>, offset: u64, len: usize) -> Data {
    view(pgs, oid).read(offset, len as u64).now().expect("memory answers at once")
}

/// The CPU time of this thread, so that other load on the machine has little effect.
fn cpu_ns() -> u64 {
    std::thread::yield_now(); // updates the count
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("nanoseconds")
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("pages") * 4096
}
