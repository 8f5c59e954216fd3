//! Goal: features can be switched while other clients have the image open, and users' locks keep writers
//! out. Method: two clients, and their writes.

use loligo_rbd::{Error, Evicted, Image, Mode};
use loligo_wire::rbd::feature;

use crate::{POOL, connect, place, small};

const MAPS: u64 = feature::OBJECT_MAP | feature::FAST_DIFF;

#[tokio::test(flavor = "multi_thread")]
async fn features_are_switched_while_others_write() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "a", small(feature::LAYERING, None)).await.expect("made");
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    let one = Image::open(&io, "a", Mode::ReadWrite).await.expect("opens");
    let two = Image::open(&others, "a", Mode::ReadWrite).await.expect("opens");
    one.write(0, vec![1; 100].into()).await.expect("written");
    two.create_snapshot("s").await.expect("made");
    let refused = one.enable_features(MAPS).await.expect_err("it needs the lock");
    assert!(matches!(refused, Error::Switch { .. }), "{refused}");
    one.enable_features(feature::EXCLUSIVE_LOCK | MAPS).await.expect("switched on");
    // A client that opened the image before takes the lock too.
    two.write(70 << 10, vec![2; 100].into()).await.expect("written");
    assert!(two.is_lock_owner() && !one.is_lock_owner());
    assert!(matches!(two.check_object_map().await, Err(Error::NoObjectMap)));
    one.rebuild_object_map(|_, _| {}).await.expect("made anew");
    two.write(140 << 10, vec![3; 100].into()).await.expect("written");
    for image in [&one, &two] {
        assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
    }
    let used: Vec<u64> = one.usage().await.expect("maps").into_iter().map(|usage| usage.used).collect();
    assert_eq!(used, [64 << 10, 192 << 10], "until the next snapshot all has changed");
    let needed = one.disable_features(feature::EXCLUSIVE_LOCK).await.expect_err("the maps need it");
    assert!(needed.to_string().contains("is needed by"), "{needed}");
    one.disable_features(feature::OBJECT_MAP).await.expect("switched off");
    assert_eq!(one.view().features, feature::LAYERING | feature::EXCLUSIVE_LOCK);
    two.write(0, vec![4; 100].into()).await.expect("written");
    one.disable_features(feature::EXCLUSIVE_LOCK).await.expect("switched off");
    assert!(one.lock_info().await.expect("a lock").holders.is_empty());
    two.write(0, vec![5; 100].into()).await.expect("written");
    one.write(100, vec![6; 100].into()).await.expect("written");
    assert_eq!(two.read(0, 200).await.expect("read"), [[5; 100], [6; 100]].concat());
    assert!(!one.is_lock_owner() && !two.is_lock_owner());
    let maps = io.stat(format!("rbd_object_map.{}", one.id())).await;
    assert_eq!(maps.expect_err("removed").errno(), loligo_rados::Errno::ENOENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_by_hand_keep_writers_out() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "a", small(loligo_rbd::features::DEFAULT, None)).await.expect("made");
    let others = connect(&server).await;
    let other_io = others.ioctx(POOL).await.expect("the pool");
    let one = Image::open(&io, "a", Mode::ReadWrite).await.expect("opens");
    let two = Image::open(&other_io, "a", Mode::ReadOnly).await.expect("opens");
    assert!(one.watchers().await.expect("a list").is_empty());
    assert_eq!(two.watchers().await.expect("a list").len(), 1);
    two.lock_by_hand("work", None).await.expect("locked");
    assert!(matches!(one.write(0, vec![1].into()).await, Err(Error::Locked(_))));
    let taken = one.lock_by_hand("more", None).await.expect_err("it is taken");
    assert_eq!(taken.errno(), loligo_rados::Errno::EBUSY, "{taken}");
    let again = two.lock_by_hand("work", None).await.expect_err("it is taken");
    assert_eq!(again.errno(), loligo_rados::Errno::EEXIST, "{again}");
    assert!(matches!(two.unlock_by_hand("play").await, Err(Error::NoLock(_))));
    two.unlock_by_hand("work").await.expect("given up");
    one.write(0, vec![1].into()).await.expect("written");
    two.lock_by_hand("work", None).await.expect_err("its writer has it");
    one.close().await.expect("closes");
    two.lock_by_hand("work", Some(&"tag".into())).await.expect("locked");
    let one = Image::open(&io, "a", Mode::ReadWrite).await.expect("opens");
    one.lock_by_hand("too", Some(&"tag".into())).await.expect("locked");
    let holders = one.lock_info().await.expect("a lock").holders;
    assert_eq!(holders.len(), 2);
    let other = holders.iter().find(|holder| holder.cookie == "work").expect("theirs");
    let none = one.break_lock(other.client, "play", Evicted::Yes).await;
    assert!(matches!(none, Err(Error::NoLock(_))));
    one.break_lock(other.client, "work", Evicted::Yes).await.expect("broken");
    let refused = other_io.write("any", 0, vec![1].into()).await.expect_err("it is on the blocklist");
    assert_eq!(refused.errno(), loligo_rados::Errno::EBLOCKLISTED);
    one.unlock_by_hand("too").await.expect("given up");
    one.write(0, vec![1].into()).await.expect("written");
    one.close().await.expect("closes");
}
