//! Goal: a hit takes no lock, and a thread that only reads what is cached never waits for one that writes to
//! it. Method: count acquisitions and waits. In a process of its own, since they are counted per process.

mod place;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loligo_cache::{Cache, Options};
use place::Store;

const BLOCK: usize = 4096;
const BLOCKS: u64 = 32;
/// Many: those that were read last are no exception.
const OBJECTS: u64 = 100;
const READERS: u64 = 4;
const READS: u64 = 20_000;

/// Returns how often locks of this crate were taken.
fn acquisitions() -> u64 {
    let report = loligo_lockstat::report();
    let of_cache = report.classes.iter().filter(|class| class.name.starts_with("cache."));
    of_cache.map(|class| class.acquisitions).sum()
}

#[tokio::test]
async fn hits_take_no_lock() {
    loligo_lockstat::set_mode(loligo_lockstat::Mode::Full);
    let cache = Cache::new(Options { dirty_time: Duration::from_secs(3600), ..Options::of_size(32 << 20) });
    let file = Arc::new(cache.open("f", Store::default()));
    for object in 0..OBJECTS {
        file.fetch(object, 0, BLOCKS * BLOCK as u64).await.unwrap();
    }
    file.write(0, 0, &[0xff; BLOCK]).await.unwrap();

    let before = acquisitions();
    assert!(before >= OBJECTS, "they are counted: {before}");
    let mut buf = vec![0; BLOCKS as usize * BLOCK];
    for object in 0..OBJECTS {
        for block in 0..BLOCKS {
            file.try_read(object, block * BLOCK as u64, &mut buf[..BLOCK]).expect("a block");
        }
        file.try_read(object, 0, &mut buf).expect("many blocks");
        file.read(object, 100, &mut buf[..BLOCK]).await.unwrap();
    }
    assert_eq!(acquisitions(), before);

    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..READERS)
        .map(|seed| {
            let (file, is_over) = (Arc::clone(&file), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let (mut random, mut buf) = (fastrand::Rng::with_seed(seed), [0; BLOCK]);
                let before = loligo_lockstat::waited_by_this_thread();
                for _ in 0..READS {
                    file.try_read(0, random.u64(0..BLOCKS) * BLOCK as u64, &mut buf).expect("it is cached");
                    assert!(buf.iter().all(|byte| *byte == buf[0]), "of one write");
                }
                is_over.store(true, Ordering::SeqCst);
                loligo_lockstat::waited_by_this_thread() - before
            })
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(READERS);
    while !is_over.load(Ordering::SeqCst) {
        let fill = random.u8(..);
        file.write(0, random.u64(0..BLOCKS) * BLOCK as u64, &[fill; BLOCK]).await.unwrap();
    }
    for reader in readers {
        assert_eq!(reader.join().expect("no panic"), Duration::ZERO);
    }
}
