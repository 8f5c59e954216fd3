//! Threads read cached blocks while others read blocks that are not cached: waits for the cache.
//!
//! Most threads read cached blocks of 4 KiB. Some read through uncached data in larger pieces, and wait
//! for each piece to arrive from a back end. Misses are due at fixed times, so that both forms have the
//! same load of misses. Hits are also due at fixed times, or follow one another at once, as the setting
//! says.
//!
//! The time of a hit is that of the call. If its thread was still busy with an earlier hit when it was
//! due, its time is counted from when it was due. Otherwise a thread would measure fewer slow hits the
//! longer it waits.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_cache::{Backend, Cache, CachedFile, Options};
use loligo_lockstat::{Class, Mutex};
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;

use super::clients::runtime;
use crate::measure::{Waits, waited_for};
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

/// Held for all operations on the cache, but not while waiting for the back end.
static CACHE: Class = Class::new("before.object_cache");

const BLOCK: usize = 4096;
const CACHE_BYTES: u64 = 64 << 20;
/// The data that are read repeatedly: a sixteenth of the cache, read so often that neither form evicts
/// them.
const HOT_OBJECTS: u64 = 16;
const HOT_BYTES: u64 = 256 << 10;
const OBJECT_BYTES: u64 = 4 << 20;

/// The case.
pub(super) struct ObjectCache {
    /// Number of threads that read cached data.
    pub(super) hitting: usize,
    /// Number of threads that read uncached data.
    pub(super) missing: usize,
    /// Bytes per miss.
    pub(super) miss_bytes: usize,
    /// Time that the back end takes for a miss.
    pub(super) delay: Duration,
    /// Interval between the misses of a thread.
    pub(super) miss_every: Duration,
    /// Interval between the hits of a thread, in the setting with hits at fixed times.
    pub(super) hit_every: Duration,
}

impl Default for ObjectCache {
    fn default() -> Self {
        Self {
            hitting: 48,
            missing: 16,
            miss_bytes: 256 << 10,
            delay: Duration::from_millis(5),
            miss_every: Duration::from_millis(20),
            hit_every: Duration::from_millis(2),
        }
    }
}

impl Case for ObjectCache {
    fn name(&self) -> &'static str {
        "object-cache"
    }

    fn about(&self) -> About {
        About {
            title: "One lock for all that is cached",
            before: "One mutex around the whole cache: held to find blocks, to copy their bytes, to put in what the back end gave and \
                     to throw out the oldest; released while the back end is waited for.",
            after: "loligo-cache: hits take no lock; one for each object is held to change its blocks, and what the back end gave is put in \
                    sixteen blocks at a time.",
            note: "Misses are due at fixed times, the same for both forms. A hit's time is counted from when it was due, if its thread still \
                   waited for an earlier one then. Hits that find their block thrown out do not count. The source gives more than 20 % of throughput for this fix under \
                   high concurrency, and up to 90 % less tail latency for all of its six.",
            source: Source {
                author: "Didi Cloud Storage",
                title: "Optimizing locks in Didi's Ceph (in Chinese), 4.2: the client's coarse lock",
                date: "2020-09-08",
                url: "https://www.infoq.cn/article/Jv3GygMyVBgedrN84rAT",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let threads = format!("{} threads hit, {} miss", self.hitting, self.missing);
        let names = [
            format!("{threads}; each hits every {} us", self.hit_every.as_micros()),
            format!("{threads}; hit after hit"),
        ];
        let setting = |name| Setting {
            name,
            metrics: vec![
                Metric::lower("time of a hit, p99", Unit::Us),
                Metric::lower("time of a hit, p50", Unit::Us),
                Metric::higher("hits", Unit::PerS).published(1.2),
                Metric::higher("misses", Unit::PerS),
                Metric::lower("waits for the cache per million hits", Unit::Count),
                Metric::lower("total wait for the cache per million hits", Unit::Ms),
            ],
            spread_of: "time of a hit",
        };
        names.into_iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let runtime = runtime(thread::available_parallelism().map_or(1, usize::from))?;
        let disk = Disk { delay: self.delay };
        let hit_every = (setting == 0).then_some(self.hit_every);
        match form {
            Form::Before => {
                let blocks = CACHE_BYTES as usize / BLOCK;
                let cache = Mutex::new(&CACHE, Lru::new(blocks));
                let read = |object, offset, buf: &mut [u8]| {
                    coarse(&cache, &disk, runtime.handle(), object, offset, buf)
                };
                self.run(&read, hit_every, &[CACHE.name()], time)
            }
            Form::After => {
                let file = Cache::new(Options::of_size(CACHE_BYTES)).open("contend", disk);
                let read =
                    |object, offset, buf: &mut [u8]| fine(&file, runtime.handle(), object, offset, buf);
                self.run(&read, hit_every, &["cache."], time)
            }
        }
    }
}

/// Reads a range; returns whether all of it was cached.
type Read<'a> = &'a (dyn Fn(u64, u64, &mut [u8]) -> bool + Sync);

impl ObjectCache {
    fn run(
        &self,
        read: Read<'_>,
        hit_every: Option<Duration>,
        guards: &[&str],
        time: Duration,
    ) -> Result<Sample, Error> {
        let mut warm = vec![0; HOT_BYTES as usize];
        for object in 0..HOT_OBJECTS {
            read(object, 0, &mut warm);
        }
        loligo_lockstat::reset();
        let (over, began) = (AtomicBool::new(false), Instant::now());
        let (spreads, misses) = thread::scope(|scope| {
            let over = &over;
            // Start times are evenly spread.
            let first = |every: Duration, n: usize, of: usize| began + every * n as u32 / of.max(1) as u32;
            let hitting: Vec<_> = (0..self.hitting)
                .map(|n| {
                    let due = hit_every.map(|every| Due::new(first(every, n, self.hitting), every));
                    scope.spawn(move || hit(read, n as u64, due, over))
                })
                .collect();
            let missing: Vec<_> = (0..self.missing)
                .map(|n| {
                    let due = Due::new(first(self.miss_every, n, self.missing), self.miss_every);
                    scope.spawn(move || miss(read, n as u64, self.miss_bytes, due, over))
                })
                .collect();
            thread::sleep(time);
            over.store(true, Ordering::Relaxed);
            let spreads: Vec<Spread> = hitting.into_iter().map(|t| t.join().expect("no panic")).collect();
            let misses: u64 = missing.into_iter().map(|t| t.join().expect("no panic")).sum();
            (spreads, misses)
        });
        let took = began.elapsed().as_secs_f64();
        let locks = waited_for();
        let mut spread = Spread::new();
        spreads.iter().for_each(|of_one| spread.merge(of_one));
        if spread.is_empty() {
            return Err(Error::NothingMeasured);
        }
        let (hits, waits) = (spread.count(), Waits::of(&locks, guards));
        let us = |ns: u64| ns as f64 / 1e3;
        let figures = vec![
            us(spread.quantile_ns(0.99)),
            us(spread.quantile_ns(0.5)),
            hits as f64 / took,
            misses as f64 / took,
            waits.count_per_million(hits),
            waits.total_ms_per_million(hits),
        ];
        Ok(Sample { figures, spread, locks })
    }
}

/// The times at which a thread's calls are due.
struct Due {
    next: Instant,
    every: Duration,
}

impl Due {
    fn new(next: Instant, every: Duration) -> Self {
        Self { next, every }
    }

    /// Waits until the next call is due. Returns the start of the call's time: now, or the due time if
    /// that has passed.
    fn wait(&mut self) -> Instant {
        let due = self.next;
        self.next += self.every;
        let early = due.saturating_duration_since(Instant::now());
        if early.is_zero() {
            return due;
        }
        thread::sleep(early);
        Instant::now()
    }
}

fn hit(read: Read<'_>, seed: u64, mut due: Option<Due>, over: &AtomicBool) -> Spread {
    let (mut spread, mut random) = (Spread::new(), fastrand::Rng::with_seed(seed));
    let mut buf = [0; BLOCK];
    while !over.load(Ordering::Relaxed) {
        let (object, block) = (random.u64(0..HOT_OBJECTS), random.u64(0..HOT_BYTES / BLOCK as u64));
        let began = due.as_mut().map_or_else(Instant::now, Due::wait);
        let was_cached = read(object, block * BLOCK as u64, &mut buf);
        let took = began.elapsed();
        std::hint::black_box(&buf);
        if was_cached {
            spread.add(took);
        }
    }
    spread
}

/// Reads objects that no other thread reads, one after another; returns the number of pieces.
fn miss(read: Read<'_>, number: u64, bytes: usize, mut due: Due, over: &AtomicBool) -> u64 {
    let mut buf = vec![0; bytes];
    let mut pieces = 0;
    while !over.load(Ordering::Relaxed) {
        due.wait();
        let at = pieces * bytes as u64;
        read(HOT_OBJECTS + (number << 32) + at / OBJECT_BYTES, at % OBJECT_BYTES, &mut buf);
        pieces += 1;
    }
    pieces
}

/// Reads through the product's cache.
fn fine(file: &CachedFile<Disk>, runtime: &Handle, object: u64, offset: u64, buf: &mut [u8]) -> bool {
    if file.try_read(object, offset, buf).is_some() {
        return true;
    }
    let Ok(()) = runtime.block_on(file.read(object, offset, buf)).map_err(|e| match e {
        loligo_cache::Error::Read(e) => match e {},
        e => unreachable!("nothing is written: {e}"),
    });
    false
}

/// Reads through the coarse cache.
fn coarse(
    cache: &Mutex<Lru>,
    disk: &Disk,
    runtime: &Handle,
    object: u64,
    offset: u64,
    buf: &mut [u8],
) -> bool {
    let first = offset / BLOCK as u64;
    let mut held = cache.lock();
    let missing = buf
        .chunks_mut(BLOCK)
        .zip(first..)
        .filter_map(|(to, block)| (!held.copy((object, block), to)).then_some(block))
        .min();
    drop(held);
    if missing.is_none() {
        return true;
    }
    let Ok(data) = runtime.block_on(disk.read(object, offset, buf.len() as u64));
    let mut held = cache.lock();
    for ((from, to), block) in data.chunks(BLOCK).zip(buf.chunks_mut(BLOCK)).zip(first..) {
        held.put((object, block), from);
        to.copy_from_slice(from);
    }
    false
}

/// A back end that replies after `delay`.
#[derive(Clone, Copy, Debug)]
struct Disk {
    delay: Duration,
}

impl Backend for Disk {
    type Error = Infallible;

    async fn read(&self, _: u64, _: u64, len: u64) -> Result<Bytes, Infallible> {
        tokio::time::sleep(self.delay).await;
        Ok(vec![0x6c; len as usize].into())
    }

    async fn write(&self, _: u64, _: Vec<(u64, Vec<Bytes>)>) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Blocks. The least recently used block is evicted. Each block's memory is allocated once.
struct Lru {
    places: FxHashMap<(u64, u64), usize>,
    blocks: Vec<Kept>,
    blocks_max: usize,
    newest: usize,
    oldest: usize,
}

struct Kept {
    key: (u64, u64),
    data: Box<[u8]>,
    newer: usize,
    older: usize,
}

const NONE: usize = usize::MAX;

impl Lru {
    fn new(blocks_max: usize) -> Self {
        let places = FxHashMap::with_capacity_and_hasher(blocks_max, Default::default());
        Self { places, blocks: Vec::with_capacity(blocks_max), blocks_max, newest: NONE, oldest: NONE }
    }

    fn copy(&mut self, key: (u64, u64), to: &mut [u8]) -> bool {
        let Some(place) = self.places.get(&key).copied() else { return false };
        self.unlink(place);
        self.link(place);
        to.copy_from_slice(&self.blocks[place].data[..to.len()]);
        true
    }

    fn put(&mut self, key: (u64, u64), data: &[u8]) {
        let known = self.places.get(&key).copied();
        let place = match known {
            Some(place) => {
                self.unlink(place);
                place
            }
            None if self.blocks.len() < self.blocks_max => {
                self.blocks.push(Kept { key, data: vec![0; BLOCK].into(), newer: NONE, older: NONE });
                self.blocks.len() - 1
            }
            None => {
                let place = self.oldest;
                self.unlink(place);
                self.places.remove(&self.blocks[place].key);
                place
            }
        };
        self.blocks[place].key = key;
        self.blocks[place].data[..data.len()].copy_from_slice(data);
        self.places.insert(key, place);
        self.link(place);
    }

    fn link(&mut self, place: usize) {
        let older = std::mem::replace(&mut self.newest, place);
        (self.blocks[place].newer, self.blocks[place].older) = (NONE, older);
        match older {
            NONE => self.oldest = place,
            older => self.blocks[older].newer = place,
        }
    }

    fn unlink(&mut self, place: usize) {
        let Kept { newer, older, .. } = self.blocks[place];
        match newer {
            NONE => self.newest = older,
            newer => self.blocks[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.blocks[older].newer = newer,
        }
    }
}
