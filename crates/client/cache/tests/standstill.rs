//! Goal: no writer waits forever because dirty data cannot be written back. Method: back ends that fail.

mod place;

use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_cache::{Cache, CachedFile, Error, Options};
use place::{Failure, Store};

const BLOCK: usize = 4096;
const DIRTY_BLOCKS: u64 = 64;

/// Options under which data is written back only when necessary.
fn small() -> Options {
    let dirty_max = DIRTY_BLOCKS * BLOCK as u64;
    Options { dirty_max, dirty_time: Duration::from_secs(3600), ..Options::of_size(8 << 20) }
}

async fn fill(file: &CachedFile<Store>) {
    for n in 0..DIRTY_BLOCKS {
        file.write(0, n * BLOCK as u64, &[1; BLOCK]).await.unwrap();
    }
}

/// Writes a block. Fails the test if the write waits for ever.
async fn write(file: &CachedFile<Store>) -> Result<(), Error<Failure>> {
    let written = file.write(9, 0, &[2; BLOCK]);
    tokio::time::timeout(Duration::from_secs(20), written).await.expect("it is told")
}

#[tokio::test(start_paused = true)]
async fn who_waits_since_another_file_cannot_be_written_back_is_told() {
    let (broken, well) = (Store::default(), Store::default());
    let cache = Cache::new(small());
    let (one, other) = (cache.open("one", broken.clone()), cache.open("other", well.clone()));
    broken.is_broken.store(true, Ordering::SeqCst);
    fill(&one).await;
    assert!(matches!(write(&other).await, Err(Error::Full(_))));
    assert!(other.flush().await.is_ok(), "nothing of it is lost");
    broken.is_broken.store(false, Ordering::SeqCst);
    assert!(one.flush().await.is_err(), "it was not told yet");
    write(&other).await.unwrap();
    other.flush().await.unwrap();
    assert_eq!(well.content(9), [2; BLOCK]);
    assert_eq!(broken.content(0), [1; DIRTY_BLOCKS as usize * BLOCK]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_back_end_that_panics_is_told() {
    let store = Store::default();
    let file = Cache::new(small()).open("f", store.clone());
    store.panics.store(true, Ordering::SeqCst);
    fill(&file).await;
    assert!(matches!(write(&file).await, Err(Error::GivenUp)));
    assert!(matches!(file.flush().await, Err(Error::GivenUp)));
    store.panics.store(false, Ordering::SeqCst);
    file.flush().await.unwrap();
    assert_eq!(store.content(0), [1; DIRTY_BLOCKS as usize * BLOCK]);
}

/// The file's write-back task gave up after the last opener was gone. A hanging read keeps the file
/// alive.
#[tokio::test(start_paused = true)]
async fn a_file_that_was_given_up_is_written_back_for_its_next_opener() {
    let store = Store::default();
    let cache = Cache::new(Options { dirty_time: Duration::from_millis(1), ..small() });
    let file = cache.open("f", store.clone());
    store.reads_hang.store(true, Ordering::SeqCst);
    file.read_ahead(5, 0, BLOCK as u64, false);
    store.is_broken.store(true, Ordering::SeqCst);
    file.write(0, 0, &[1; BLOCK]).await.unwrap();
    drop(file);
    // Time is simulated: it goes on only while all tasks wait. An hour later the write-back task has given
    // up, and in the next hour it does not try again.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let failures = store.failures();
    assert!(failures > 0, "it was tried");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(store.failures(), failures, "it is given up");
    store.is_broken.store(false, Ordering::SeqCst);
    let file = cache.open("f", store.clone());
    file.write(1, 0, &[2; BLOCK]).await.unwrap();
    let written = async {
        while cache.usage().dirty > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), written).await.expect("somebody writes back");
    assert_eq!((store.content(0), store.content(1)), (vec![1; BLOCK], vec![2; BLOCK]));
}
