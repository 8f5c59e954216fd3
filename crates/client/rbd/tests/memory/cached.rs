//! Goal: an image with a cache is an array of bytes too; no client reads stale data or overwrites
//! another client's changes; failed write-backs are reported. Method: the random I/O of other images;
//! two clients that take the lock from each other; a blocklisted client.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use loligo_rados::{Errno, IoCtx};
use loligo_rbd::{
    CacheMode, CacheOptions, CloneFormat, Error, Image, ImageCache, Mode, NewClone, NewImage, Shrink, clone,
    features,
};

use crate::{POLLS_MAX, POOL, check_all, connect, place, random_changes, small};

/// A cache that writes back only when it must.
fn lazy() -> ImageCache {
    ImageCache::new(CacheOptions { dirty_time: Duration::from_secs(3600), ..CacheOptions::of_size(8 << 20) })
}

async fn opened(io: &IoCtx, name: &str, cache: &ImageCache) -> Image {
    let image = Image::open(io, name, Mode::ReadWrite).await.expect("opens");
    image.cached(cache).expect("it has the lock's feature")
}

/// Reads an image's data from the cluster.
async fn stored(io: &IoCtx, name: &str) -> Vec<u8> {
    let image = Image::open(io, name, Mode::ReadOnly).await.expect("opens");
    image.read(0, 1 << 30).await.expect("read").to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_image_is_an_array_of_bytes() {
    let (_server, io) = place().await;
    let small_cache = CacheOptions { dirty_time: Duration::from_millis(5), ..CacheOptions::of_size(1 << 20) };
    let kinds = [
        (lazy(), None),
        (ImageCache::new(small_cache), Some((8 << 10, 4))),
        (ImageCache::new(CacheOptions { mode: CacheMode::WriteThrough, ..small_cache }), None),
    ];
    for (seed, (cache, striping)) in kinds.into_iter().enumerate() {
        let (name, copy) = (format!("image{seed}"), format!("clone{seed}"));
        loligo_rbd::create(&io, &name, small(features::DEFAULT, striping)).await.expect("made");
        let mut model = vec![0; 1 << 20];
        let image = opened(&io, &name, &cache).await;
        let snaps = random_changes(&image, &mut model, 100 + seed as u64).await;
        check_all(&io, &image, &model, &snaps).await;
        image.create_snapshot("base").await.expect("made");
        image.close().await.expect("closes");
        assert!(stored(&io, &name).await == model, "{name}");

        let new = NewClone { format: CloneFormat::Second, ..NewClone::default() };
        clone(&io, &name, "base", &io, &copy, new).await.expect("cloned");
        let image = opened(&io, &copy, &cache).await;
        let snaps = random_changes(&image, &mut model, 200 + seed as u64).await;
        check_all(&io, &image, &model, &snaps).await;
        // The names are reused below.
        for snap in snaps.keys() {
            image.remove_snapshot(snap).await.expect("removed");
        }
        if image.parent().await.expect("a header").is_some() {
            let mut others = model.clone();
            let (flattened, _) =
                tokio::join!(image.flatten(|_, _| {}), random_changes(&image, &mut others, 300));
            flattened.expect("flattened");
            model = others;
        }
        image.close().await.expect("closes");
        assert!(stored(&io, &copy).await == model, "{copy}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_kept_back_until_it_is_flushed() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "disk", small(features::DEFAULT, None)).await.expect("made");
    let image = opened(&io, "disk", &lazy()).await;
    let object = |n: u64| format!("{}.{n:016x}", image.block_name_prefix());
    for n in 0..3u64 {
        image.write((n << 16) + 100, vec![1 + n as u8; 4096].into()).await.expect("written");
        assert!(io.stat(object(n)).await.is_err(), "object {n}");
    }
    image.flush_range(1 << 16, 10).await.expect("flushed");
    assert!(io.stat(object(1)).await.is_ok() && io.stat(object(0)).await.is_err());
    // The allocation includes objects that are only in the cache.
    let parts = image.allocation(0, 1 << 20).await.expect("the map");
    assert_eq!(parts.iter().map(|part| (part.len, part.exists)).next(), Some((3 << 16, true)));
    image.write(0, vec![7; 100].into()).await.expect("written");
    image.create_snapshot("s").await.expect("made");
    image.write(0, vec![8; 100].into()).await.expect("written");
    let at = Image::open_snapshot(&io, "disk", "s").await.expect("opens");
    let at = at.cached(&lazy()).expect("nobody changes a snapshot");
    for _ in 0..2 {
        assert_eq!(at.read(0, 100).await.expect("read"), vec![7; 100]);
    }
    at.close().await.expect("closes");
    assert_eq!(stored(&io, "disk").await[0], 7);
    image.flush().await.expect("flushed");
    assert_eq!(stored(&io, "disk").await[0], 8);
    image.write(0, vec![9; 100].into()).await.expect("written");
    // Dropping the image writes it back in the background.
    drop(image);
    let released = async {
        while stored(&io, "disk").await[0] != 9 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), released).await.expect("written back");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_could_change_has_no_cache() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "a", small(features::DEFAULT, None)).await.expect("made");
    loligo_rbd::create(&io, "b", small(loligo_wire::rbd::feature::LAYERING, None)).await.expect("made");
    for (name, mode) in [("a", Mode::ReadOnly), ("b", Mode::ReadWrite)] {
        let image = Image::open(&io, name, mode).await.expect("opens");
        assert!(matches!(image.cached(&lazy()), Err(Error::NoCache)), "{name}");
    }
}

/// One client works on an image while the other requests the lock.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_goes_and_comes_back_with_what_was_written() {
    let (server, io) = place().await;
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    loligo_rbd::create(&io, "shared", small(features::DEFAULT, None)).await.expect("made");
    let images = [opened(&io, "shared", &lazy()).await, opened(&others, "shared", &lazy()).await];
    let mut model = vec![0; 1 << 20];
    let mut random = fastrand::Rng::with_seed(17);
    let mut writer = 0;
    for step in 0..300 {
        let is_turn = random.u32(0..5) == 0;
        writer = if is_turn { 1 - writer } else { writer };
        let image = &images[writer];
        image.acquire_lock().await.expect("taken");
        let offset = random.u64(0..model.len() as u64);
        let len = random.u64(0..(model.len() as u64 - offset).min(100 << 10) + 1);
        let range = offset as usize..(offset + len) as usize;
        match random.u32(0..10) {
            0..5 => {
                let data = vec![random.u8(..); len as usize];
                image.write(offset, data.clone().into()).await.expect("written");
                model[range].copy_from_slice(&data);
            }
            5 => {
                image.discard(offset, len).await.expect("discarded");
                model[range].fill(0);
            }
            6 => {
                let size = random.u64(300 << 10..1200 << 10);
                image.resize(size, Shrink::Allowed).await.expect("resized");
                model.resize(size as usize, 0);
            }
            _ => assert!(image.read(offset, len).await.expect("read") == model[range], "step {step}"),
        }
    }
    // Both write at once, each to its own objects.
    let [one, two] = &images;
    one.acquire_lock().await.expect("taken");
    one.resize(1 << 20, Shrink::Allowed).await.expect("resized");
    let write = async |image: &Image, half: u64| {
        for n in 0..40 {
            let at = (2 * n % 16 + half) << 16;
            image.write(at + 64 * n, vec![half as u8 + 1; 5000].into()).await.expect("written");
            assert_eq!(image.read(at + 64 * n, 5000).await.expect("read").len(), 5000);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(write(one, 0), write(two, 1));
    one.acquire_lock().await.expect("taken");
    for (n, half) in (0..40u64).flat_map(|n| [(n, 0), (n, 1)]) {
        let at = ((2 * n % 16 + half) << 16) + 64 * n;
        let last = one.read(at, 5000).await.expect("read");
        assert!(last == vec![half as u8 + 1; 5000], "{n}, {half}");
    }
    assert_eq!(one.check_object_map().await.expect("a map"), Vec::<u64>::new());
    for image in images {
        image.close().await.expect("closes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_on_the_blocklist_is_told_what_is_lost() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "disk", small(features::DEFAULT, None)).await.expect("made");
    let dead_io = connect(&server).await.ioctx(POOL).await.expect("the pool");
    let dead = opened(&dead_io, "disk", &lazy()).await;
    dead.write(0, vec![1; 4096].into()).await.expect("written");
    dead.flush().await.expect("flushed");
    dead.write(0, vec![2; 4096].into()).await.expect("written");
    dead.write(500_000, vec![2; 4096].into()).await.expect("written");
    let lock = dead.lock_info().await.expect("a lock");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    let holder = &lock.holders[0];
    let evicted = image.break_lock(holder.client, &holder.cookie, loligo_rbd::Evicted::Yes).await;
    evicted.expect("broken");
    image.write(4096, vec![3; 4096].into()).await.expect("written");
    let lost = dead.flush().await.expect_err("it is on the blocklist");
    assert_eq!(lost.errno(), Errno::EBLOCKLISTED, "{lost}");
    assert!(dead.write(0, vec![4].into()).await.is_err());
    let closed = dead.close().await.expect_err("what it had is lost");
    assert!(matches!(closed, Error::WriteBack(_)), "{closed}");
    let mut model = vec![0; 1 << 20];
    model[..4096].fill(1);
    model[4096..8192].fill(3);
    image.close().await.expect("closes");
    assert!(stored(&io, "disk").await == model);
}

/// No client is blocklisted. Data written before the lock was broken does not overwrite another client's
/// later writes, and is reported as lost.
#[tokio::test(flavor = "multi_thread")]
async fn whose_lock_was_broken_is_told_what_is_lost() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "disk", small(features::DEFAULT, None)).await.expect("made");
    let robbed_io = connect(&server).await.ioctx(POOL).await.expect("the pool");
    let robbed = opened(&robbed_io, "disk", &lazy()).await;
    robbed.write(0, vec![1; 4096].into()).await.expect("written");
    robbed.flush().await.expect("flushed");
    robbed.write(0, vec![2; 4096].into()).await.expect("written");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    let holder = robbed.lock_info().await.expect("a lock").holders.remove(0);
    let broken = image.break_lock(holder.client, &holder.cookie, loligo_rbd::Evicted::No).await;
    broken.expect("broken");
    image.write(0, vec![3; 512].into()).await.expect("written");
    // The lock is free again.
    image.close().await.expect("closes");
    let lost = robbed.lock_lost().await;
    assert!(matches!(lost, Error::LockBroken { .. }), "{lost}");
    let refused = robbed.write(8192, vec![4].into()).await.expect_err("the lock is lost");
    assert!(matches!(refused, Error::LockBroken { .. }), "{refused}");
    assert!(!robbed.is_lock_owner());
    // Reads return the cluster's data.
    assert_eq!(robbed.read(0, 512).await.expect("read"), vec![3; 512]);
    let closed = robbed.close().await.expect_err("what it had is lost");
    assert!(matches!(closed, Error::WriteBack(_)), "{closed}");
    let mut model = vec![0; 1 << 20];
    model[..4096].fill(1);
    model[..512].fill(3);
    assert!(stored(&io, "disk").await == model);
}

/// The lock is not released while a write-back fails: the other client waits.
#[tokio::test(flavor = "multi_thread")]
async fn the_lock_stays_while_something_cannot_be_written_back() {
    let (server, io) = place().await;
    let owner = connect(&server).await.ioctx(POOL).await.expect("the pool");
    loligo_rbd::create(&io, "disk", NewImage::of_size(64 << 20)).await.expect("made");
    let image = opened(&owner, "disk", &lazy()).await;
    image.write(0, vec![1; 4096].into()).await.expect("written");
    // An object map whose lock another client holds cannot be changed, and a new object must be marked
    // in it.
    let map = format!("rbd_object_map.{}", image.id());
    let [holder] = &owner.lock_info(&*map, "rbd_lock").await.expect("a lock").holders[..] else {
        panic!("one holder")
    };
    owner.break_lock(&*map, "rbd_lock", holder.client, &holder.cookie).await.expect("broken");
    let other = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    let waits =
        tokio::time::timeout(Duration::from_millis(1500), other.write(9999, vec![2; 10].into())).await;
    assert!(waits.is_err(), "{waits:?}");
    assert!(
        image.is_lock_owner() && image.flush().await.is_err() && image.create_snapshot("s").await.is_err()
    );
    let options = loligo_rados::LockOptions::default();
    owner.lock(&*map, "rbd_lock", loligo_rados::LockMode::Exclusive, &options).await.expect("locked");
    other.write(9999, vec![2; 10].into()).await.expect("written");
    assert!(!image.is_lock_owner());
    assert_eq!(other.read(0, 4096).await.expect("read"), vec![1; 4096]);
    // The failure is reported once.
    let _ = image.flush().await;
    image.flush().await.expect("all is well");
    other.close().await.expect("closes");
    image.close().await.expect("closes");
}

/// A free lock is taken so that reads can be cached; another client's lock is not requested.
#[tokio::test(flavor = "multi_thread")]
async fn reads_are_cached_once_the_lock_was_free() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "image", small(features::DEFAULT, None)).await.expect("made");
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    let other = Image::open(&others, "image", Mode::ReadWrite).await.expect("opens");
    other.write(0, vec![1; 4096].into()).await.expect("written");
    let image = opened(&io, "image", &lazy()).await;
    assert!(!image.acquire_free_lock().await.expect("asked"));
    other.write(0, vec![2; 4096].into()).await.expect("written");
    assert_eq!(image.read(0, 4096).await.expect("read")[..], [2; 4096]);
    other.close().await.expect("closes");
    assert!(
        image.acquire_free_lock().await.expect("taken") && image.acquire_free_lock().await.expect("ours")
    );
    assert_eq!(image.read(0, 4096).await.expect("read")[..], [2; 4096]);
    // The second read does not come from the cluster.
    let object = format!("rbd_data.{}.{:016x}", image.id(), 0);
    io.write(&*object, 0, vec![3; 4096].into()).await.expect("written");
    assert_eq!(image.read(0, 4096).await.expect("read")[..], [2; 4096]);
    image.close().await.expect("closes");
}

/// Checks that reads return the data that the cluster has after the write-back, and one of the allowed
/// values. Returns the data.
async fn reads_as_stored(io: &IoCtx, image: &Image, allowed: &[u8], what: &str) -> Vec<u8> {
    let seen = image.read(0, 1 << 20).await.expect("read");
    image.flush().await.expect("flushed");
    let stored = stored(io, "disk").await;
    for (at, (seen, stored)) in seen.iter().zip(&stored).enumerate() {
        assert!(seen == stored && allowed.contains(seen), "{what}, byte {at}: {seen}, stored {stored}");
    }
    stored
}

/// The interrupted change took effect or not: reads return no stale data, and the next write is not
/// lost. Another task reads all the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_past_the_cache_that_is_cut_off_leaves_nothing_old() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "disk", small(features::DEFAULT, None)).await.expect("made");
    let image = opened(&io, "disk", &lazy()).await;
    let (from, len) = (10_000, 900_000);
    for kind in ["discard", "write_same", "compare_and_write"] {
        let mut ended = false;
        for polls in 1..=POLLS_MAX {
            let what = format!("{kind}, {polls} polls");
            image.write(0, vec![1; 1 << 20].into()).await.expect("written");
            image.flush().await.expect("flushed");
            // Only in the cache.
            image.write(0, vec![2; 1 << 20].into()).await.expect("written");
            let change = async {
                match kind {
                    "discard" => image.discard(from, len).await,
                    "write_same" => image.write_same(from, len, vec![3; 1000].into()).await,
                    _ => image.compare_and_write(512, vec![2; 512].into(), vec![3; 512].into()).await,
                }
            };
            ended = reading_between(polls, change, async || {
                image.read(0, 1 << 20).await.expect("read");
            })
            .await;
            reads_as_stored(&io, &image, &[0, 2, 3], &what).await;
            image.write(from, vec![4; 1000].into()).await.expect("written");
            let stored = reads_as_stored(&io, &image, &[0, 2, 3, 4], &what).await;
            assert!(stored[from as usize..][..1000] == [4; 1000], "{what}");
            if ended {
                break;
            }
        }
        assert!(ended, "{kind} does not end");
    }
    image.close().await.expect("closes");
}

/// Polls a future at most `polls` times, with `other` run after each, and then drops it. Returns whether
/// it completed.
async fn reading_between(polls: usize, future: impl Future, other: impl AsyncFn()) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready()));
        if polled.await {
            return true;
        }
        other().await;
    }
    false
}
