//! Goal: the owner of an image's lock changes the image as a whole for other clients, and keeps writing
//! and keeps the lock. Method: one client writes continuously, with a cache and without, and another one
//! sends each kind of request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use loligo_rados::IoCtx;
use loligo_rbd::{
    CacheOptions, CloneFormat, Error, Image, ImageCache, Mode, NewClone, NewImage, Shrink, clone, features,
};
use loligo_wire::Writer;
use loligo_wire::rbd::{SnapKind, feature};

use crate::{POOL, connect, place};

/// Writes to the first 4 MiB until `stop` is set. Each byte of block `n` is `n`.
async fn load(image: &Image, stop: &AtomicBool) {
    let mut n = 0u64;
    while !stop.load(Ordering::Acquire) {
        image.write((n % 64) << 16, vec![(n % 64) as u8; 65536].into()).await.expect("written");
        n += 1;
    }
}

async fn ask_for_all(image: &Image, owner: &Image) {
    image.create_snapshot("a").await.expect("made");
    assert!(matches!(image.create_snapshot("a").await, Err(Error::SnapshotExists(_))));
    image.create_snapshot("b").await.expect("made");
    assert!(matches!(image.rename_snapshot("a", "b").await, Err(Error::SnapshotExists(_))));
    image.rename_snapshot("a", "c").await.expect("renamed");
    image.protect_snapshot("c").await.expect("protected");
    assert!(matches!(image.remove_snapshot("c").await, Err(Error::SnapshotBusy(_))));
    image.unprotect_snapshot("c").await.expect("unprotected");
    image.remove_snapshot("c").await.expect("removed");
    assert!(matches!(image.remove_snapshot("c").await, Err(Error::NoSnapshot(_))));
    image.resize(100 << 20, Shrink::Refused).await.expect("resized");
    assert_eq!((image.size(), owner.size()), (100 << 20, 100 << 20));
    assert!(matches!(image.resize(1 << 20, Shrink::Refused).await, Err(Error::WouldShrink { .. })));
    image.resize(64 << 20, Shrink::Allowed).await.expect("resized");
    image.disable_features(feature::OBJECT_MAP).await.expect("off");
    image.enable_features(feature::OBJECT_MAP).await.expect("on");
    image.rebuild_object_map(|_, _| {}).await.expect("made");
    image.sparsify(4096, |_, _| {}).await.expect("given back");
    if image.view().parent.is_some() {
        image.flatten(|_, _| {}).await.expect("flattened");
        assert!(
            image.view().parent.is_none() && matches!(image.flatten(|_, _| {}).await, Err(Error::NoParent))
        );
    }
    assert!(owner.is_lock_owner() && !image.is_lock_owner());
    // Operations that the owner cannot do for others are done with the lock.
    image.roll_back("b", |_, _| {}).await.expect("rolled back");
}

async fn opened(io: &IoCtx) -> Image {
    Image::open(io, "disk", Mode::ReadWrite).await.expect("opens")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_does_for_others_what_they_ask_for() {
    let (server, io) = place().await;
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    for is_cached in [false, true] {
        loligo_rbd::create(&io, "base", NewImage::of_size(64 << 20)).await.expect("made");
        let base = Image::open(&io, "base", Mode::ReadWrite).await.expect("opens");
        base.write(32 << 20, vec![77; 5 << 20].into()).await.expect("written");
        base.create_snapshot("s").await.expect("made");
        base.close().await.expect("closes");
        let new = NewClone {
            format: CloneFormat::Second,
            features: Some(features::DEFAULT),
            ..NewClone::default()
        };
        clone(&io, "base", "s", &io, "disk", new).await.expect("cloned");
        let (mut owner, other) = (opened(&io).await, opened(&others).await);
        if is_cached {
            owner = owner.cached(&ImageCache::new(CacheOptions::of_size(16 << 20))).expect("a cache");
        }
        owner.acquire_lock().await.expect("taken");
        let stop = AtomicBool::new(false);
        let asking = async {
            ask_for_all(&other, &owner).await;
            stop.store(true, Ordering::Release);
        };
        tokio::join!(load(&owner, &stop), asking);
        owner.write(1 << 16, vec![1; 65536].into()).await.expect("written");
        assert_eq!(owner.check_object_map().await.expect("a map"), Vec::<u64>::new());
        assert!(owner.read(32 << 20, 5 << 20).await.expect("read") == vec![77; 5 << 20]);
        for n in 0..64u64 {
            let found = owner.read(n << 16, 65536).await.expect("read");
            assert!(found.iter().all(|byte| [0, n as u8].contains(byte)), "block {n}");
        }
        owner.remove_snapshot("b").await.expect("removed");
        other.close().await.expect("closes");
        owner.close().await.expect("closes");
        loligo_rbd::remove(&io, "disk", |_, _| {}).await.expect("removed");
        let base = Image::open(&io, "base", Mode::ReadWrite).await.expect("opens");
        base.remove_snapshot("s").await.expect("removed");
        base.close().await.expect("closes");
        loligo_rbd::remove(&io, "base", |_, _| {}).await.expect("removed");
    }
}

/// A request to create a snapshot as older releases send it, without a number.
fn nameless(name: &str) -> bytes::Bytes {
    let mut w = Writer::new();
    w.versioned(6, 1, |w| {
        w.u32(8);
        w.put(name);
        w.put(&SnapKind::User);
    });
    w.into_bytes()
}

/// Requests beyond the owner's limit are not answered; answered requests are done.
#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_number_are_bounded() {
    let (server, io) = place().await;
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    loligo_rbd::create(&io, "disk", NewImage::of_size(64 << 20)).await.expect("made");
    let owner = opened(&io).await;
    owner.acquire_lock().await.expect("taken");
    let header = format!("rbd_header.{}", owner.id());
    let asked = (0..300).map(|n| {
        let (others, header) = (&others, &header);
        async move { others.notify(&**header, nameless(&format!("s{n}")), Duration::from_secs(30)).await }
    });
    let answered = |told: &loligo_rados::Notified| told.answers.values().any(|answer| !answer.is_empty());
    let told = join_all(asked).await;
    let count = told.iter().filter(|told| told.as_ref().is_ok_and(answered)).count();
    assert!((64..300).contains(&count), "{count} were answered");
    owner.refresh().await.expect("a header");
    assert_eq!(owner.view().snapshots.len(), count);
    // There is a free permit again.
    let last = others.notify(&*header, nameless("last"), Duration::from_secs(30)).await;
    assert!(answered(&last.expect("told")));
    owner.close().await.expect("closes");
}
