//! Goal: how many cached random reads of 4 KiB the cache answers per second, with 1 thread and with 64,
//! and how long one takes. Method: 32 MiB of 8 objects are in a cache of 64 MiB; threads read random
//! blocks of them; every 16th read is timed.
//!
//! `cargo bench -p loligo-cache --bench cached_reads [SECONDS]`

use std::convert::Infallible;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use loligo_cache::{Backend, Cache, CachedFile, Options};

const BLOCK: u64 = 4096;
const OBJECTS: u64 = 8;
const OBJECT_BYTES: u64 = 4 << 20;
const THREADS: [usize; 2] = [1, 64];
/// One read in this many is timed: timing costs a noticeable part of a read.
const TIMED: u64 = 16;
/// The upper bound of the histogram: 100 s.
const NS_MAX: u64 = 100_000_000_000;

struct Zeros;

impl Backend for Zeros {
    type Error = Infallible;

    async fn read(&self, _: u64, _: u64, len: u64) -> Result<Bytes, Infallible> {
        Ok(vec![0; len as usize].into())
    }

    async fn write(&self, _: u64, _: Vec<(u64, Vec<Bytes>)>) -> Result<(), Infallible> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().skip(1).find(|arg| arg != "--bench").map_or(Ok(3.0), |arg| arg.parse())?;
    let time = Duration::try_from_secs_f64(seconds)?;
    let file = Cache::new(Options::of_size(64 << 20)).open("f", Zeros);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        for object in 0..OBJECTS {
            file.fetch(object, 0, OBJECT_BYTES).await?;
        }
        Ok::<_, loligo_cache::Error<Infallible>>(())
    })?;
    println!(
        "{:>7} {:>12} {:>9} {:>9} {:>9} {:>9}",
        "threads", "reads/s", "p50 us", "p99 us", "p99.9 us", "max us"
    );
    for threads in THREADS {
        let (reads, took, times) = measure(&file, threads, time);
        let us = |part| times.value_at_quantile(part) as f64 / 1e3;
        let (rate, max) = (reads as f64 / took.as_secs_f64(), times.max() as f64 / 1e3);
        println!(
            "{threads:>7} {rate:>12.0} {:>9.2} {:>9.2} {:>9.2} {max:>9.1}",
            us(0.5),
            us(0.99),
            us(0.999)
        );
    }
    Ok(())
}

/// Returns the number of reads of all threads, the time they took, and the times of the timed reads.
fn measure(file: &CachedFile<Zeros>, threads: usize, time: Duration) -> (u64, Duration, Histogram<u64>) {
    let (over, all_there) = (AtomicBool::new(false), Barrier::new(threads + 1));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads as u64)
            .map(|n| {
                let (over, all_there) = (&over, &all_there);
                scope.spawn(move || {
                    all_there.wait();
                    read(file, n, over)
                })
            })
            .collect();
        all_there.wait();
        let began = Instant::now();
        thread::sleep(time);
        over.store(true, Ordering::Relaxed);
        let (mut reads, mut times) = (0, empty());
        for reader in readers {
            let (of_one, times_of_one) = reader.join().expect("no panic");
            reads += of_one;
            times.add(times_of_one).expect("the same bounds");
        }
        (reads, began.elapsed(), times)
    })
}

fn read(file: &CachedFile<Zeros>, seed: u64, over: &AtomicBool) -> (u64, Histogram<u64>) {
    let (mut random, mut buf) = (fastrand::Rng::with_seed(seed), [0; BLOCK as usize]);
    let (mut reads, mut times) = (0, empty());
    while !over.load(Ordering::Relaxed) {
        let (object, block) = (random.u64(0..OBJECTS), random.u64(0..OBJECT_BYTES / BLOCK));
        let began = (reads % TIMED == 0).then(Instant::now);
        file.try_read(object, block * BLOCK, &mut buf).expect("all of it is cached");
        if let Some(began) = began {
            times.saturating_record(began.elapsed().as_nanos() as u64);
        }
        std::hint::black_box(&buf);
        reads += 1;
    }
    (reads, times)
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, NS_MAX, 2).expect("bounds and digits are valid")
}
