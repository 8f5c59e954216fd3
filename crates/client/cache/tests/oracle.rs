//! Goal: under any caching, eviction, write-back and failures, each object of a file behaves as an array
//! of bytes. Method: random operations compared with arrays, by one task and by 16 threads, over a back
//! end that replies late, fails and disappears.

mod place;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use loligo_cache::{Cache, CachedFile, Error, Mode, Options, Target};
use place::{Failure, Store};
use proptest::collection::vec;
use proptest::prelude::*;

const BLOCK: u64 = 4096;
/// The smallest cache: memory for about 235 blocks including their bookkeeping.
const SMALL: u64 = 256 * BLOCK;

fn small() -> Options {
    Options { dirty_time: Duration::from_millis(2), ..Options::of_size(SMALL) }
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, usize, u8),
    Read(u64, usize, usize),
    Flush,
    FlushObject(u64),
    Discard(u64, usize, usize),
    Invalidate,
    ReadAhead(u64, usize, usize),
}

const OBJECTS: u64 = 3;
const OBJECT_BYTES: usize = 200 * BLOCK as usize;

fn step() -> impl Strategy<Value = Step> {
    // Many ranges overlap within few blocks; some are long.
    let at = prop_oneof![3 => 0..6 * BLOCK as usize, 1 => 0..OBJECT_BYTES];
    let len = prop_oneof![3 => 1..600usize, 2 => Just(BLOCK as usize), 1 => 1..40 * BLOCK as usize];
    let range = (0..OBJECTS, at, len).prop_map(|(o, at, len)| (o, at, len.min(OBJECT_BYTES - at)));
    prop_oneof![
        8 => (range.clone(), any::<u8>()).prop_map(|((o, at, len), fill)| Step::Write(o, at, len, fill)),
        8 => range.clone().prop_map(|(o, at, len)| Step::Read(o, at, len)),
        1 => Just(Step::Flush),
        1 => (0..OBJECTS).prop_map(Step::FlushObject),
        1 => range.clone().prop_map(|(o, at, len)| Step::Discard(o, at, len)),
        1 => Just(Step::Invalidate),
        1 => range.prop_map(|(o, at, len)| Step::ReadAhead(o, at, len)),
    ]
}

async fn check_read(file: &CachedFile<Store>, oracle: &[u8], object: u64, at: usize) {
    let mut buf = vec![0xee; oracle.len()];
    file.read(object, at as u64, &mut buf).await.expect("read");
    let wrong = buf.iter().zip(oracle).position(|(a, b)| a != b);
    assert_eq!(wrong.map(|n| n + at), None, "object {object}");
    drop(shared(file, oracle, object, at).await);
}

/// Reads a range in pieces, and returns them.
async fn shared(file: &CachedFile<Store>, oracle: &[u8], object: u64, at: usize) -> Vec<Bytes> {
    let (mut pieces, range) = (Vec::new(), (at as u64, oracle.len()));
    file.read_to(object, range, Target::Pieces(&mut pieces)).await.expect("read");
    assert!(pieces.concat() == oracle, "object {object} at {at}, in {} pieces", pieces.len());
    assert!(pieces.iter().all(|piece| !piece.is_empty()));
    let (count, mut more) = (pieces.len(), Target::Pieces(&mut pieces));
    if file.try_read_to(object, range, &mut more).is_none() {
        assert_eq!(more.pieces(), count, "all of them or none");
    }
    pieces.truncate(count);
    pieces
}

async fn execute(steps: Vec<Step>, options: Options) {
    let store = Store::default();
    let cache = Cache::new(options);
    let file = cache.open("f", store.clone());
    let mut oracle = vec![vec![0u8; OBJECT_BYTES]; OBJECTS as usize];
    // The last read in pieces, and what it showed.
    let mut kept = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Write(object, at, len, fill) => {
                let data: Vec<u8> = (0..len).map(|n| fill ^ n as u8).collect();
                file.write(object, at as u64, &data).await.expect("written");
                oracle[object as usize][at..at + len].copy_from_slice(&data);
            }
            Step::Read(object, at, len) => {
                let content = &oracle[object as usize][at..at + len];
                check_read(&file, content, object, at).await;
                kept = (shared(&file, content, object, at).await, content.to_vec());
            }
            Step::Flush => file.flush().await.expect("flushed"),
            Step::FlushObject(object) => {
                file.flush_object(object).await.expect("flushed");
                let stored = store.content(object);
                assert!(oracle[object as usize][..stored.len()] == stored, "what is flushed is there");
                assert!(oracle[object as usize][stored.len()..].iter().all(|byte| *byte == 0));
            }
            Step::Discard(object, at, len) => {
                file.discard(object, at as u64, len as u64).await.expect("discarded");
                // The rest is the back end's data; nothing around the range has changed.
                let mut stored = store.content(object);
                stored.resize(OBJECT_BYTES, 0);
                oracle[object as usize][at..at + len].copy_from_slice(&stored[at..at + len]);
            }
            Step::Invalidate => file.invalidate().await.expect("written back"),
            Step::ReadAhead(object, at, len) => file.read_ahead(object, at as u64, len as u64, true),
        }
        assert!(cache.usage().used <= cache.options().size, "{:?}", cache.usage());
        assert!(cache.usage().dirty <= cache.options().dirty_max);
        assert!(kept.0.concat() == kept.1, "what was read stays as it was");
    }
    drop(kept);
    for (object, content) in oracle.iter().enumerate() {
        check_read(&file, content, object as u64, 0).await;
    }
    file.flush().await.expect("flushed");
    for (object, content) in oracle.iter().enumerate() {
        let stored = store.content(object as u64);
        assert!(content[..stored.len()] == stored && content[stored.len()..].iter().all(|byte| *byte == 0));
    }
    assert_eq!(cache.usage().dirty, 0);
    file.invalidate().await.expect("nothing is dirty");
    drop(file);
    // Reading ahead in progress ends a little later.
    while cache.usage().used > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(cache.usage().held, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_file_is_an_array(steps in vec(step(), 1..120)) {
        run(execute(steps, small()));
    }

    #[test]
    fn also_written_through(steps in vec(step(), 1..60)) {
        run(execute(steps, Options { mode: Mode::WriteThrough, ..small() }));
    }

    #[test]
    fn also_in_larger_blocks(steps in vec(step(), 1..60)) {
        run(execute(steps, Options { block_bytes: 16384, ..small() }));
    }
}

/// Each task owns every 16th range of 512 bytes of each object, so neighbours in a block belong to
/// different tasks.
#[test]
fn sixteen_threads_beside_arrays() {
    const TASKS: usize = 16;
    let ops: usize = std::env::var("LOLIGO_CACHE_OPS").map_or(60_000, |n| n.parse().expect("a number"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(TASKS).enable_time().build().unwrap();
    runtime.block_on(async {
        let store = Store::default();
        store.delay_us_max.store(200, Ordering::SeqCst);
        let cache = Cache::new(small());
        let file = Arc::new(cache.open("f", store.clone()));
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                tokio::spawn(work(task, ops / TASKS, Arc::clone(&file), store.clone(), cache.clone()))
            })
            .collect();
        let mut oracles = Vec::new();
        for task in tasks {
            oracles.push(task.await.expect("no panic"));
        }
        let mut failed = 0;
        while file.flush().await.is_err() {
            failed += 1;
            assert!(failed < 20, "it works again");
        }
        for (task, oracle) in oracles.iter().enumerate() {
            for (object, ranges) in oracle.iter().enumerate() {
                let stored = store.content(object as u64);
                for (n, fill) in ranges.iter().enumerate().filter(|(_, fill)| **fill != 0) {
                    let at = (n * TASKS + task) * CELL;
                    assert!(stored[at..at + CELL].iter().all(|byte| byte == fill), "task {task} at {at}");
                }
            }
        }
    });
}

const CELL: usize = 512;
const CELLS: usize = 120;

async fn work(
    task: usize,
    ops: usize,
    file: Arc<CachedFile<Store>>,
    store: Store,
    cache: Cache<Store>,
) -> Vec<Vec<u8>> {
    let mut oracle = vec![vec![0u8; CELLS]; 6];
    let mut random = fastrand::Rng::with_seed(task as u64);
    for op in 0..ops {
        let (object, cell) = (random.usize(0..6), random.usize(0..CELLS));
        let at = ((cell * 16 + task) * CELL) as u64;
        match random.u32(0..100) {
            0..45 => loop {
                let fill = random.u8(1..);
                match file.write(object as u64, at, &[fill; CELL]).await {
                    Ok(()) => break oracle[object][cell] = fill,
                    Err(Error::WriteBack(_) | Error::Read(_)) => {
                        oracle[object][cell] = unknown(&file, object, at).await
                    }
                    Err(e) => panic!("{e}"),
                }
            },
            45..95 => {
                let fill = unknown(&file, object, at).await;
                assert_eq!(
                    fill, oracle[object][cell],
                    "task {task}, operation {op}, object {object} at {at}"
                );
            }
            95..97 => drop(file.flush_object(object as u64).await),
            97 => drop(file.flush().await),
            98 => file.read_ahead(object as u64, at & !4095, 65536, false),
            _ => store.fails_after.store(random.u64(1..50), Ordering::SeqCst),
        }
        assert!(cache.usage().used <= cache.options().size);
    }
    oracle
}

/// Returns the content of a cell, which must be that of a single write.
async fn unknown(file: &CachedFile<Store>, object: usize, at: u64) -> u8 {
    let mut buf = [0; CELL];
    while let Err(e) = file.read(object as u64, at, &mut buf).await {
        assert!(matches!(e, Error::Read(Failure(_))), "{e}");
    }
    assert!(buf.iter().all(|byte| *byte == buf[0]), "of one write");
    buf[0]
}
