//! Goal: a read of up to 16 blocks sees each write to them as a whole or not at all, and sees all that ended
//! before it began. Method: one task writes numbers to a range, one after the other, and several read it,
//! while blocks are evicted and written back.

mod place;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use loligo_cache::{Cache, CachedFile, Options};
use place::Store;
use proptest::prelude::*;

const BLOCK: usize = 4096;
/// The smallest cache.
const SMALL: u64 = 256 * BLOCK as u64;
/// The bytes of a number.
const NUMBER: usize = 8;
const WRITES: u64 = 200;
const READERS: usize = 3;

/// The range, and how far the writer is.
struct Range {
    file: CachedFile<Store>,
    offset: u64,
    len: usize,
    begun: AtomicU64,
    ended: AtomicU64,
    is_over: AtomicBool,
}

/// Tells the others to stop, also if the writer panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Range {
    async fn write(&self) {
        let _over = Over(&self.is_over);
        for number in 1..=WRITES {
            self.begun.store(number, Ordering::SeqCst);
            self.file.write(0, self.offset, &number.to_le_bytes().repeat(self.len / NUMBER)).await.unwrap();
            self.ended.store(number, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    }

    async fn read(&self) {
        let mut buf = vec![0; self.len];
        while !self.is_over.load(Ordering::SeqCst) {
            let least = self.ended.load(Ordering::SeqCst);
            self.file.read(0, self.offset, &mut buf).await.unwrap();
            let most = self.begun.load(Ordering::SeqCst);
            let (first, rest) = buf.split_first_chunk::<NUMBER>().expect("a number");
            let number = u64::from_le_bytes(*first);
            assert!((least..=most).contains(&number), "{number} is not from {least} to {most}");
            let mixed = rest.chunks(NUMBER).position(|other| other != first);
            assert_eq!(mixed, None, "not all of write {number}");
            tokio::task::yield_now().await;
        }
    }

    /// Has blocks evicted, and dirty ones written back.
    async fn disturb(&self) {
        let mut random = fastrand::Rng::with_seed(1);
        let mut buf = [0; 8 * BLOCK];
        while !self.is_over.load(Ordering::SeqCst) {
            self.file.read(1, random.u64(0..100) * buf.len() as u64, &mut buf).await.unwrap();
            if random.u32(0..10) == 0 {
                self.file.flush().await.unwrap();
            }
        }
    }
}

async fn run(offset: u64, len: usize) {
    let options = Options { dirty_time: Duration::from_millis(2), ..Options::of_size(SMALL) };
    let file = Cache::new(options).open("f", Store::default());
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let range = Arc::new(Range { file, offset, len, begun, ended, is_over: AtomicBool::new(false) });
    let mut tasks: Vec<_> = (0..READERS)
        .map(|_| {
            let range = Arc::clone(&range);
            tokio::spawn(async move { range.read().await })
        })
        .collect();
    tasks.extend([true, false].map(|writes| {
        let range = Arc::clone(&range);
        tokio::spawn(async move { if writes { range.write().await } else { range.disturb().await } })
    }));
    for task in tasks {
        task.await.expect("no panic");
    }
}

/// Whole blocks, parts of one, and what lies across several.
fn range() -> impl Strategy<Value = (u64, usize)> {
    let whole = (0..20u64, 1..=16usize).prop_map(|(at, blocks)| (at * BLOCK as u64, blocks * BLOCK));
    let any = (0..20 * BLOCK / NUMBER, 1..=15 * BLOCK / NUMBER)
        .prop_map(|(at, numbers)| ((at * NUMBER) as u64, numbers * NUMBER));
    let part = (0..BLOCK / NUMBER / 2, 1..=BLOCK / NUMBER / 2)
        .prop_map(|(at, numbers)| ((at * NUMBER) as u64, numbers * NUMBER));
    prop_oneof![Just((0, BLOCK)), whole, any, part]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn writes_are_seen_as_a_whole((offset, len) in range()) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(READERS + 2)
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(run(offset, len));
    }
}
