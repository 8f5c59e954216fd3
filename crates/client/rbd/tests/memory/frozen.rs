//! Goal: an image open for writing, and its header, are not changed any more once another client has
//! demoted, journaled or migrated it. Method: its features are set as stock does, while it is open here,
//! with the lock and without; then changes are tried, and the image is checked.

use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Errno, IoCtx, WriteOp};
use loligo_rbd::diff::Grain;
use loligo_rbd::{Error, Image, Mode, features, rename, trash};
use loligo_wire::Writer;
use loligo_wire::rbd::feature;

use crate::{POOL, connect, place, small};

/// Sets the features of an image, and notifies all clients that have it open.
async fn becomes(io: &IoCtx, image: &Image, features: u64) {
    let header = format!("rbd_header.{}", image.id());
    // Directly, as stored: the class refuses some features that librbd sets by other calls.
    let features = Bytes::from(features.to_le_bytes().to_vec());
    let op = WriteOp::new().set_omap([(&b"features"[..], features)]);
    io.operate(&*header, op).await.expect("set");
    let mut w = Writer::new();
    // The notification `HeaderUpdate`.
    w.versioned(6, 1, |w| w.u32(3));
    io.notify(&*header, w.into_bytes(), Duration::from_secs(5)).await.expect("told");
}

/// Every change of the image fails, as on a read-only file system.
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
        assert_eq!(refused.expect_err("refused").errno(), Errno::EROFS, "{n}");
    }
}

/// The errnos of stock for a demoted image: 30 for renaming, 22 for removal, 0 for users' locks.
async fn is_kept(io: &IoCtx) {
    assert_eq!(rename(io, "a", "b").await.expect_err("refused").errno(), Errno::EROFS);
    let removed = [trash::put(io, "a", Duration::ZERO).await, loligo_rbd::remove(io, "a", |_, _| {}).await];
    for refused in removed {
        assert_eq!(refused.expect_err("refused").errno(), Errno::EINVAL);
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
            // The header can still be read.
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
