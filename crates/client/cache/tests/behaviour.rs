//! Goal: the cache sends the documented requests to the back end, and reports failures. Method: a
//! counting back end.

mod place;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use loligo_cache::{Backend, Cache, Error, Mode, Options, Target};
use place::{Failure, Store};

const BLOCK: usize = 4096;

/// Options under which data is written back only by a flush.
fn idle() -> Options {
    Options { dirty_time: Duration::from_secs(3600), ..Options::of_size(8 << 20) }
}

#[tokio::test]
async fn neighbours_are_one_extent_and_only_what_was_written_is_sent() {
    let store = Store::default();
    let file = Cache::new(idle()).open("f", store.clone());
    for at in [5 * BLOCK, 4 * BLOCK, 6 * BLOCK] {
        file.write(1, at as u64, &[1; BLOCK]).await.unwrap();
    }
    file.write(1, 7 * BLOCK as u64, &[2; 10]).await.unwrap();
    file.write(1, 9 * BLOCK as u64 + 100, &[3; 10]).await.unwrap();
    file.write(1, 9 * BLOCK as u64 + 110, &[3; 10]).await.unwrap();
    assert!(store.writes.lock().unwrap().is_empty(), "not yet");
    file.flush().await.unwrap();
    assert_eq!(
        *store.writes.lock().unwrap(),
        [[(4 * BLOCK as u64, 3 * BLOCK + 10), (9 * BLOCK as u64 + 100, 20)]]
    );
    assert_eq!(store.content(1).len(), 9 * BLOCK + 120);
    file.flush().await.unwrap();
    assert_eq!(store.writes.lock().unwrap().len(), 1, "nothing is dirty");
    assert_eq!(store.reads.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn what_lies_between_writes_to_a_block_is_neither_read_nor_written() {
    let store = Store::default();
    store.put(0, vec![9; 64 << 10]);
    let options = Options { block_bytes: 64 << 10, ..idle() };
    let file = Cache::new(options).open("f", store.clone());
    for at in [0, 40, 10, 20].map(|kib| kib << 10) {
        file.write(0, at, &[1; 1000]).await.unwrap();
    }
    // Adjoins the part before it.
    file.write(0, (10 << 10) + 1000, &[2; 24]).await.unwrap();
    file.flush().await.unwrap();
    let extents = [(0, 1000), (10 << 10, 1024), (20 << 10, 1000), (40 << 10, 1000)];
    assert_eq!(*store.writes.lock().unwrap(), [extents]);
    assert_eq!(store.reads.load(Ordering::SeqCst), 0);
    // A fifth part has the block read first.
    file.write(0, 50 << 10, &[1; 1000]).await.unwrap();
    assert_eq!(store.reads.load(Ordering::SeqCst), 1);
    file.flush().await.unwrap();
    assert_eq!(store.writes.lock().unwrap()[1..], [[(50 << 10, 1000)]]);
    let mut all = vec![0; 64 << 10];
    file.read(0, 0, &mut all).await.unwrap();
    assert!(all == store.content(0));
    assert_eq!(all.iter().filter(|byte| **byte == 1).count(), 5000);
    assert_eq!(all.iter().filter(|byte| **byte == 2).count(), 24);
}

#[tokio::test(start_paused = true)]
async fn one_request_for_many_readers() {
    let store = Store::default();
    store.put(0, vec![7; 64 * BLOCK]);
    let file = Arc::new(Cache::new(idle()).open("f", store.clone()));
    store.cut_off(true);
    let readers: Vec<_> = (0..20)
        .map(|n| {
            let file = Arc::clone(&file);
            tokio::spawn(async move {
                let mut buf = [0; 100];
                file.read(0, n * 100, &mut buf).await.unwrap();
                assert_eq!(buf, [7; 100]);
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(20)).await;
    store.cut_off(false);
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(store.reads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_failure_is_told_once_to_each_opener() {
    let store = Store::default();
    let cache = Cache::new(idle());
    let (one, two) = (cache.open("f", store.clone()), cache.open("f", store.clone()));
    let other = cache.open("g", store.clone());
    one.write(0, 0, &[1; BLOCK]).await.unwrap();
    store.is_broken.store(true, Ordering::SeqCst);
    assert!(matches!(one.flush().await, Err(Error::WriteBack(e)) if *e == Failure(1)));
    // Each call retries, so each one fails.
    assert!(matches!(one.flush().await, Err(Error::WriteBack(e)) if *e == Failure(2)));
    store.is_broken.store(false, Ordering::SeqCst);
    one.flush().await.expect("told already");
    assert_eq!(store.content(0), [1; BLOCK], "it was kept");
    assert!(matches!(two.flush().await, Err(Error::WriteBack(e)) if *e == Failure(2)));
    two.flush().await.expect("once");
    other.flush().await.expect("another file");
    cache.open("f", store.clone()).flush().await.expect("before its time");
}

#[tokio::test]
async fn a_failure_that_nobody_was_told_of_is_the_next_opener_s() {
    let store = Store::default();
    let cache = Cache::new(Options { dirty_time: Duration::from_millis(1), ..idle() });
    let one = cache.open("f", store.clone());
    store.is_broken.store(true, Ordering::SeqCst);
    one.write(0, 0, &[1; BLOCK]).await.unwrap();
    while store.failures() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store.is_broken.store(false, Ordering::SeqCst);
    while cache.usage().dirty > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let late = cache.open("f", store.clone());
    assert!(matches!(late.flush().await, Err(Error::WriteBack(_))), "nobody knew");
    assert!(matches!(one.flush().await, Err(Error::WriteBack(_))), "though all is written by now");
    one.flush().await.unwrap();
    assert_eq!(store.content(0), [1; BLOCK]);
}

#[tokio::test(start_paused = true)]
async fn who_writes_too_much_waits_until_the_back_end_is_back() {
    let store = Store::default();
    let cache = Cache::new(Options { dirty_max: 64 * BLOCK as u64, ..idle() });
    let file = Arc::new(cache.open("f", store.clone()));
    store.cut_off(true);
    let writer = {
        let file = Arc::clone(&file);
        tokio::spawn(async move {
            for n in 0..500 {
                file.write(n % 7, n / 7 * BLOCK as u64, &[n as u8; BLOCK]).await.unwrap();
            }
        })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!writer.is_finished());
    assert_eq!(cache.usage().dirty, 64 * BLOCK as u64);
    let mut buf = [1; BLOCK];
    assert!(file.try_read(0, 0, &mut buf).is_some(), "readers go on");
    store.cut_off(false);
    writer.await.unwrap();
    file.flush().await.unwrap();
    for n in 0..500usize {
        let at = n / 7 * BLOCK;
        assert_eq!(store.content(n as u64 % 7)[at..at + BLOCK], [n as u8; BLOCK]);
    }
}

#[tokio::test]
async fn who_writes_too_much_to_a_broken_back_end_is_told() {
    let store = Store::default();
    let cache = Cache::new(Options { dirty_max: 64 * BLOCK as u64, ..idle() });
    let file = cache.open("f", store.clone());
    store.is_broken.store(true, Ordering::SeqCst);
    for n in 0..64 {
        file.write(0, n * BLOCK as u64, &[1; BLOCK]).await.unwrap();
    }
    assert!(matches!(file.write(0, 64 * BLOCK as u64, &[1; BLOCK]).await, Err(Error::WriteBack(_))));
}

#[tokio::test]
async fn written_through_it_is_there() {
    let store = Store::default();
    let file = Cache::new(Options { mode: Mode::WriteThrough, ..idle() }).open("f", store.clone());
    file.write(3, 5, b"abc").await.unwrap();
    assert_eq!(store.content(3), b"\0\0\0\0\0abc");
    store.is_broken.store(true, Ordering::SeqCst);
    assert!(matches!(file.write(3, 5, b"def").await, Err(Error::WriteBack(_))));
}

/// `write_back` leaves failures unreported for the next `flush`.
#[tokio::test]
async fn who_writes_back_is_told_of_what_is_still_dirty_only() {
    let store = Store::default();
    let file = Cache::new(idle()).open("f", store.clone());
    file.write(0, 0, &[1; BLOCK]).await.unwrap();
    store.is_broken.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert!(matches!(file.write_back().await, Err(Error::WriteBack(_))));
    }
    store.is_broken.store(false, Ordering::SeqCst);
    file.write_back().await.unwrap();
    assert_eq!(store.content(0), [1; BLOCK]);
    assert!(matches!(file.flush().await, Err(Error::WriteBack(_))));
    file.flush().await.unwrap();
}

/// A write abandoned by its caller while in progress completes nevertheless, and the next one waits for
/// it.
#[tokio::test(start_paused = true)]
async fn who_gives_up_a_flush_does_not_give_up_the_writes() {
    let store = Store::default();
    let file = Cache::new(idle()).open("f", store.clone());
    file.write(0, 0, &[1; BLOCK]).await.unwrap();
    store.cut_off(true);
    assert!(tokio::time::timeout(Duration::from_millis(10), file.flush()).await.is_err());
    file.write(0, 0, &[2; BLOCK]).await.unwrap();
    store.cut_off(false);
    file.flush().await.unwrap();
    assert_eq!(store.content(0), [2; BLOCK]);
    assert_eq!(store.writes.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn dropped_it_is_written_back() {
    let store = Store::default();
    let cache = Cache::new(idle());
    let file = cache.open("f", store.clone());
    file.write(0, 0, &[1; BLOCK]).await.unwrap();
    drop(file);
    while cache.usage().used > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(store.content(0), [1; BLOCK]);
}

/// A back end whose only object is this long one.
struct Long(Bytes);

impl Backend for Long {
    type Error = Failure;

    async fn read(&self, _: u64, offset: u64, len: u64) -> Result<Bytes, Failure> {
        let end = self.0.len() as u64;
        Ok(self.0.slice(end.min(offset) as usize..end.min(offset + len) as usize))
    }

    async fn write(&self, _: u64, _: Vec<(u64, Vec<Bytes>)>) -> Result<(), Failure> {
        Ok(())
    }
}

#[tokio::test]
async fn a_long_answer_is_cached_without_a_copy_and_written_over_beside_it() {
    let mut expected: Vec<u8> = (0..256 * BLOCK + 100).map(|at| (at / 1000) as u8).collect();
    let answer = Bytes::from(expected.clone());
    let cache = Cache::new(Options { read_ahead_max: 0, ..Options::of_size(16 << 20) });
    let file = cache.open("f", Long(answer.clone()));
    let mut pieces = Vec::new();
    file.read_to(0, (0, expected.len()), Target::Pieces(&mut pieces)).await.unwrap();
    assert_eq!(pieces.concat(), expected);
    let is_shared = |piece: &Bytes| answer.as_ptr_range().contains(&piece.as_ptr());
    let shared = pieces.iter().filter(|piece| is_shared(piece)).count();
    assert_eq!((shared, pieces.len()), (256, 257), "the last block is not whole");
    assert_eq!(cache.usage().held, (answer.len() + BLOCK) as u64);

    for at in [10, BLOCK, 3 * BLOCK - 1, 200 * BLOCK] {
        file.write(0, at as u64, &[255; BLOCK]).await.unwrap();
        expected[at..at + BLOCK].fill(255);
    }
    let mut read = vec![0; expected.len()];
    assert!(file.try_read(0, 0, &mut read).is_some());
    assert!(read == expected, "written over, without a further read");
    assert!(pieces.concat() == answer, "a piece stays as it was");
    file.discard_all().await;
    assert!(cache.usage().held > 0, "pieces are held");
    drop(pieces);
    assert_eq!(cache.usage().held, 0);
}

#[tokio::test]
async fn what_is_read_again_survives_a_scan() {
    let store = Store::default();
    let cache = Cache::new(Options::of_size(1000 * BLOCK as u64));
    let file = cache.open("f", store.clone());
    let mut buf = [0; BLOCK];
    for n in (0..200).cycle().take(600) {
        file.read(0, n * BLOCK as u64, &mut buf).await.unwrap();
    }
    // Most of what is read comes ahead of its reader.
    for n in 0..10_000 {
        if n % 16 == 0 {
            file.fetch(1, n * BLOCK as u64, 16 * BLOCK as u64).await.unwrap();
        }
        file.read(1, n * BLOCK as u64, &mut buf).await.unwrap();
    }
    let kept = (0..200).filter(|n| file.try_read(0, n * BLOCK as u64, &mut buf).is_some()).count();
    assert!(kept > 180, "{kept} of 200");
    assert!(cache.usage().held > 790 * BLOCK as u64, "the rest is used: {:?}", cache.usage());
}

/// A loop of reads slightly larger than the capacity (by a tenth of it here): a cache that evicts the
/// least recently used block would never have a hit.
#[tokio::test]
async fn of_what_is_read_in_circles_most_is_found() {
    let store = Store::default();
    let cache = Cache::new(Options { read_ahead_max: 0, ..Options::of_size(2000 * BLOCK as u64) });
    let file = cache.open("f", store.clone());
    let mut buf = [0; BLOCK];
    let mut found = 0;
    for step in 0..21_000 {
        // The blocks of the first rounds are not cached yet.
        found +=
            usize::from(step >= 4200 && file.try_read(0, step % 2100 * BLOCK as u64, &mut buf).is_some());
        file.read(0, step % 2100 * BLOCK as u64, &mut buf).await.unwrap();
    }
    assert!(found > 16_800 / 2, "{found} of 16800");
}
