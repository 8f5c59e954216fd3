//! Goal: the time for which a lock is held does not grow with the amount of cached data. Method: count
//! acquisitions; work on many blocks or objects takes many.

mod place;

use loligo_cache::{Cache, Options};
use place::Store;

const BLOCK: u64 = 4096;
/// The most blocks or objects that are visited under one acquisition.
const BATCH: u64 = 16;

fn acquisitions(class: &str) -> u64 {
    loligo_lockstat::report().class(class).map_or(0, |class| class.acquisitions)
}

#[tokio::test]
async fn many_blocks_and_objects_are_forgotten_a_few_at_a_time() {
    loligo_lockstat::set_mode(loligo_lockstat::Mode::Full);
    let cache = Cache::new(Options::of_size(32 << 20));
    let file = cache.open("f", Store::default());
    let mut buf = vec![0; 1 << 20];
    for at in 0..4 {
        file.read(0, at << 20, &mut buf).await.unwrap();
    }
    let before = acquisitions("cache.object");
    file.discard(0, 0, u64::MAX).await.unwrap();
    let taken = acquisitions("cache.object") - before;
    assert!(taken >= 1024 / BATCH, "{taken} acquisitions for 1,024 blocks");
    assert_eq!(cache.usage().used, 0);

    for object in 0..1000 {
        file.write(object, 0, &buf[..BLOCK as usize]).await.unwrap();
    }
    let before = acquisitions("cache.table");
    file.flush().await.unwrap();
    let listed = acquisitions("cache.table") - before;
    // The end of each object's busy state takes one too.
    assert!(listed >= 1000 + 1000 / BATCH, "{listed} acquisitions for 1,000 dirty objects");
    let before = acquisitions("cache.table");
    drop(file);
    while cache.usage().used > 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let dropped = acquisitions("cache.table") - before;
    assert!(dropped >= 1000 / BATCH, "{dropped} acquisitions for 1,000 objects");
}
