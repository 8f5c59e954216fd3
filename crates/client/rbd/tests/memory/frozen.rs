//! Goal: an image that is open for writing is written to no more once it is demoted, journaled, or migrated
//! by another client, and neither is its header. Method: its features are set as stock does, while we have it
//! open, with the lock and without; what we change then, and what is there afterwards.

use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Errno, IoCtx, WriteOp};
use loligo_rbd::diff::Grain;
use loligo_rbd::{Error, Image, Mode, features, rename, trash};
use loligo_wire::Writer;
use loligo_wire::rbd::feature;

use crate::{POOL, connect, place, small};

/// Sets the features of an image, and tells all who have it open.
async fn becomes(io: &IoCtx, image: &Image, features: u64) {
    let header = format!("rbd_header.{}", image.id());
    // As it is stored: the class refuses some that librbd sets by other calls.
    let features = Bytes::from(features.to_le_bytes().to_vec());
    let op = WriteOp::new().set_omap([(&b"features"[..], features)]);
    io.operate(&*header, op).await.expect("set");
    let mut w = Writer::new();
    // The header has changed.
    w.versioned(6, 1, |w| w.u32(3));
    io.notify(&*header, w.into_bytes(), Duration::from_secs(5)).await.expect("told");
}

/// Everything that would change the image fails, as a read-only file system does.
async fn is_frozen(image: &Image) {
    let mut refused = vec![
        image.write(0, vec![2; 100].into()).await,
        image.write(0, vec![2; 200 << 10].into()).await,
        image.discard(0, 1 << 20).await,
        image.write_same(0, 100, vec![2].into()).await,
        image.compare_and_write(0, vec![1].into(), vec![2].into()).await,
        image.set_metadata("key", "other".into()).await,
        image.remove_metadata("key").await,
        image.create_snapshot("late").await,
        image.remove_snapshot("s").await,
        image.protect_snapshot("s").await,
        image.limit_snapshots(Some(3)).await,
        image.disable_features(feature::DEEP_FLATTEN).await,
        image.enable_features(feature::EXCLUSIVE_LOCK).await,
        image.rename_snapshot("s", "t").await,
        image.roll_back("s", |_, _| {}).await,
        image.flatten(|_, _| {}).await,
        image.sparsify(4096, |_, _| {}).await,
        image.rebuild_object_map(|_, _| {}).await,
    ];
    refused.push(image.resize(2 << 20, loligo_rbd::Shrink::Refused).await);
    for (n, refused) in refused.into_iter().enumerate() {
        assert_eq!(refused.expect_err("refused").errno(), Errno(30), "{n}");
    }
}

/// What stock answers of an image that was demoted: 30 to the rename, 22 to what would remove it, 0 to locks
/// by hand.
async fn is_kept(io: &IoCtx) {
    assert_eq!(rename(io, "a", "b").await.expect_err("refused").errno(), Errno(30));
    let removed = [trash::put(io, "a", Duration::ZERO).await, loligo_rbd::remove(io, "a", |_, _| {}).await];
    for refused in removed {
        assert_eq!(refused.expect_err("refused").errno(), Errno(22));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_froze_is_not_written_to() {
    let (server, io) = place().await;
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    for before in [feature::LAYERING | feature::DEEP_FLATTEN, features::DEFAULT] {
        for added in [feature::NON_PRIMARY, feature::JOURNALING, feature::MIGRATING, 1 << 40] {
            loligo_rbd::create(&io, "a", small(before, None)).await.expect("made");
            let image = Image::open(&io, "a", Mode::ReadWrite).await.expect("opens");
            image.write(0, vec![1; 100].into()).await.expect("written");
            image.set_metadata("key", "value".into()).await.expect("set");
            image.create_snapshot("s").await.expect("made");
            becomes(&others, &image, before | added).await;
            is_frozen(&image).await;
            Image::open(&io, "a", Mode::ReadWrite).await.map(drop).expect_err("refused");
            // What it is can be seen all the same.
            let seen = Image::open(&io, "a", Mode::Header).await.expect("opens");
            assert_eq!(seen.view().snapshots.len(), 1);
            seen.close().await.expect("closes");
            rename(&io, "a", "b").await.expect_err("refused");
            if added == feature::NON_PRIMARY {
                is_kept(&io).await;
                if before & feature::EXCLUSIVE_LOCK == 0 {
                    image.lock_by_hand("by hand", None).await.expect("locked");
                    image.unlock_by_hand("by hand").await.expect("unlocked");
                }
            }
            let is_readable = added & (feature::NON_PRIMARY | feature::JOURNALING) != 0;
            let read = image.read(0, 200).await;
            assert_eq!(read.is_ok(), is_readable);
            assert_eq!(image.usage().await.is_ok(), is_readable);
            assert_eq!(image.diff(None, Grain::Bytes).await.is_ok(), is_readable);
            if let Err(e) = read {
                assert!(matches!(e, Error::Features(_)), "{e}");
            }
            becomes(&others, &image, before).await;
            assert_eq!(image.metadata().await.expect("pairs")[&b"key"[..]], "value");
            image.write(100, vec![3; 100].into()).await.expect("it is ours again");
            assert_eq!(image.read(0, 200).await.expect("read"), [[1; 100], [3; 100]].concat());
            image.remove_snapshot("s").await.expect("removed");
            image.close().await.expect("closes");
            loligo_rbd::remove(&io, "a", |_, _| {}).await.expect("removed");
        }
    }
}
