//! Goal: the cost of a hit, and the hit rate, with this cache's own queues and with `quick_cache`, a
//! well-maintained library with the same function. Method: the same 4 KiB blocks in both, with
//! `quick_cache` as a table of pages by object and block, shared by all threads. That is the minimum
//! that a cache based on it would do for each hit: it has no partly valid, dirty or arriving blocks, for
//! which the object's lock would be needed as well. Then the hit rate of both for the same sequences of
//! blocks, each with room for the same number of blocks.
//!
//! `cargo bench -p loligo-cache --bench eviction [SECONDS]`

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use loligo_cache::{Backend, Cache, CachedFile, Options};
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache as QuickCache, DefaultLifecycle};
use rustc_hash::FxBuildHasher;

const BLOCK: usize = 4096;
const OBJECT_BLOCKS: u64 = 1024;
/// Objects in the measurement of hits: all are cached.
const OBJECTS: u64 = 8;
const THREADS: [usize; 3] = [1, 2, 64];
/// One hit in this many is timed.
const TIMED: u64 = 16;
const NS_MAX: u64 = 100_000_000_000;
/// The capacity of either cache, in blocks, in the measurement of hit rates.
const ROOM: u64 = 16 << 10;
const STEPS: u64 = 1_000_000;

type Key = (u64, u32);
type Pages =
    QuickCache<Key, Arc<[u8; BLOCK]>, UnitWeighter, FxBuildHasher, DefaultLifecycle<Key, Arc<[u8; BLOCK]>>>;

fn pages(room: u64) -> Pages {
    QuickCache::with(room as usize, room, UnitWeighter, FxBuildHasher, DefaultLifecycle::default())
}

/// A back end that counts reads.
struct Zeros(Arc<AtomicU64>);

impl Backend for Zeros {
    type Error = Infallible;

    async fn read(&self, _: u64, _: u64, len: u64) -> Result<Bytes, Infallible> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(vec![0; len as usize].into())
    }

    async fn write(&self, _: u64, _: Vec<(u64, Vec<Bytes>)>) -> Result<(), Infallible> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().skip(1).find(|arg| arg != "--bench").map_or(Ok(1.0), |arg| arg.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    hits(Duration::try_from_secs_f64(seconds)?, &runtime)?;
    println!("\n{:<40} {:>12} {:>12}", "found of what is looked for", "ours", "quick_cache");
    for (name, sequence) in sequences() {
        let (ours, theirs) = (found_by_us(&runtime, &sequence)?, found_by_quick_cache(&sequence));
        println!("{name:<40} {:>11.1}% {:>11.1}%", ours * 100.0, theirs * 100.0);
    }
    Ok(())
}

fn hits(time: Duration, runtime: &tokio::runtime::Runtime) -> Result<(), Box<dyn std::error::Error>> {
    let file = Cache::new(Options::of_size(64 << 20)).open("f", Zeros(Arc::default()));
    let quick = pages(4 * OBJECTS * OBJECT_BLOCKS);
    runtime.block_on(async {
        for object in 0..OBJECTS {
            file.fetch(object, 0, OBJECT_BLOCKS * BLOCK as u64).await?;
        }
        Ok::<_, loligo_cache::Error<Infallible>>(())
    })?;
    for object in 0..OBJECTS {
        (0..OBJECT_BLOCKS as u32).for_each(|block| quick.insert((object, block), Arc::new([0; BLOCK])));
    }
    let ours = |object: u64, block: u32, buf: &mut [u8; BLOCK]| {
        file.try_read(object, u64::from(block) * BLOCK as u64, buf).expect("it is cached");
    };
    let theirs = |object: u64, block: u32, buf: &mut [u8; BLOCK]| {
        *buf = *quick.get(&(object, block)).expect("it is cached");
    };
    println!("{:>7} {:<12} {:>12} {:>9} {:>9}", "threads", "", "hits/s", "p50 ns", "p99 ns");
    for threads in THREADS {
        for (name, (rate, times)) in
            [("ours", measure(&ours, threads, time)), ("quick_cache", measure(&theirs, threads, time))]
        {
            let ns = |part| times.value_at_quantile(part);
            println!("{threads:>7} {name:<12} {rate:>12.0} {:>9} {:>9}", ns(0.5), ns(0.99));
        }
    }
    Ok(())
}

/// Returns the hits per second of all threads, and the times of some.
fn measure(
    hit: &(impl Fn(u64, u32, &mut [u8; BLOCK]) + Sync),
    threads: usize,
    time: Duration,
) -> (f64, Histogram<u64>) {
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let (mut hits, mut times) = (0, empty());
    thread::scope(|scope| {
        let over = &over;
        let readers: Vec<_> =
            (0..threads as u64).map(|seed| scope.spawn(move || hits_of_one(hit, seed, over))).collect();
        thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            let (of_one, times_of_one) = reader.join().expect("no panic");
            hits += of_one;
            times.add(times_of_one).expect("the same bounds");
        }
    });
    (hits as f64 / began.elapsed().as_secs_f64(), times)
}

fn hits_of_one(
    hit: &impl Fn(u64, u32, &mut [u8; BLOCK]),
    seed: u64,
    over: &AtomicBool,
) -> (u64, Histogram<u64>) {
    let (mut random, mut buf) = (fastrand::Rng::with_seed(seed), [0; BLOCK]);
    let (mut hits, mut times) = (0, empty());
    while !over.load(Ordering::Relaxed) {
        let (object, block) = (random.u64(0..OBJECTS), random.u32(0..OBJECT_BLOCKS as u32));
        let began = (hits % TIMED == 0).then(Instant::now);
        hit(object, block, &mut buf);
        if let Some(began) = began {
            times.saturating_record(began.elapsed().as_nanos() as u64);
        }
        black_box(&buf);
        hits += 1;
    }
    (hits, times)
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NS_MAX, 2).expect("bounds and digits are valid")
}

/// Sequences of blocks: a skewed distribution, the same with scans in between, and a loop slightly
/// larger than the capacity.
fn sequences() -> Vec<(&'static str, Vec<u64>)> {
    let mut random = fastrand::Rng::with_seed(7);
    let universe = 8 * ROOM;
    let mut zipf = |skew: f64| {
        // The inverse of the cumulative distribution, taken as continuous.
        let part: f64 = random.f64();
        let power = 1.0 - skew;
        let rank = ((universe as f64).powf(power) - 1.0).mul_add(part, 1.0).powf(1.0 / power);
        // Neighbours in rank are not neighbours in the file.
        (rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % universe
    };
    let often: Vec<u64> = (0..STEPS).map(|_| zipf(0.9)).collect();
    let mut scanned = Vec::new();
    let mut cold = universe;
    for (index, block) in often.iter().enumerate() {
        scanned.push(*block);
        // Every 50,000 steps a range twice as large as the capacity is read once.
        if index % 50_000 == 0 {
            scanned.extend(cold..cold + 2 * ROOM);
            cold += 2 * ROOM;
        }
    }
    let circle = (0..STEPS).map(|step| step % (ROOM + ROOM / 4)).collect();
    vec![
        ("often wanted (Zipf, 0.9; 8 times the room)", often),
        ("the same, with scans of twice the room", scanned),
        ("a circle of 1.25 times the room", circle),
    ]
}

/// The hit rate of our cache.
fn found_by_us(
    runtime: &tokio::runtime::Runtime,
    sequence: &[u64],
) -> Result<f64, loligo_cache::Error<Infallible>> {
    let asked = Arc::new(AtomicU64::new(0));
    // The parts of the size that hold no blocks: requests in progress (1/16), and the bookkeeping of
    // blocks.
    let size = (ROOM * (BLOCK as u64 + 256)) * 16 / 15;
    let file: CachedFile<Zeros> = Cache::new(Options { read_ahead_max: 0, ..Options::of_size(size) })
        .open("f", Zeros(Arc::clone(&asked)));
    let mut buf = [0; BLOCK];
    runtime.block_on(async {
        for block in sequence {
            file.read(block / OBJECT_BLOCKS, block % OBJECT_BLOCKS * BLOCK as u64, &mut buf).await?;
        }
        Ok::<_, loligo_cache::Error<Infallible>>(())
    })?;
    Ok(1.0 - asked.load(Ordering::Relaxed) as f64 / sequence.len() as f64)
}

fn found_by_quick_cache(sequence: &[u64]) -> f64 {
    let (pages, page) = (pages(ROOM), Arc::new([0; BLOCK]));
    let found = sequence.iter().filter(|block| {
        let key = (*block / OBJECT_BLOCKS, (*block % OBJECT_BLOCKS) as u32);
        let is_there = pages.get(&key).is_some();
        if !is_there {
            pages.insert(key, Arc::clone(&page));
        }
        is_there
    });
    found.count() as f64 / sequence.len() as f64
}
