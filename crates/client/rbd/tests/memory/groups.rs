//! Goal: the snapshots of a group's images are of the same moment, are created and removed together, and
//! are independent of users' snapshots. Method: a client writes to one image after the other while
//! snapshots are created; failures in one image; operations dropped after each of their steps.

use std::sync::atomic::{AtomicBool, Ordering};

use loligo_rados::IoCtx;
use loligo_rbd::{Error, Image, Mode, Name, NewImage, SnapKind, group, namespaces, trash};
use loligo_server::{Handle, Server};

use crate::{POLLS_MAX, POOL, connect, ends_within, small};

const OTHER_POOL: &str = "others";

/// Starts a server with two pools.
async fn places() -> (Handle, IoCtx, IoCtx) {
    let server = Server::memory().pool(POOL).pool(OTHER_POOL).start().expect("the server starts");
    let rados = connect(&server).await;
    let io = rados.ioctx(POOL).await.expect("the pool");
    let other = rados.ioctx(OTHER_POOL).await.expect("the pool");
    (server, io, other)
}

/// Creates the group `g` of image `a` and, in the other pool, image `b`.
async fn make_group(io: &IoCtx, other: &IoCtx, image: NewImage) {
    make_group_of(io, "g", [(io, "a"), (other, "b")], image).await;
}

async fn make_group_of(io: &IoCtx, name: &str, images: [(&IoCtx, &str); 2], image: NewImage) {
    group::create(io, name).await.expect("made");
    for (io_of, image_of) in images {
        loligo_rbd::create(io_of, image_of, image.clone()).await.expect("made");
        group::add_image(io, name, io_of, image_of).await.expect("added");
    }
}

async fn opened(io: &IoCtx, name: &str) -> Image {
    Image::open(io, name, Mode::ReadWrite).await.expect("opens")
}

async fn names(io: &IoCtx, group: &str) -> Vec<(Name, bool)> {
    let snaps = group::snapshots(io, group).await.expect("a list");
    snaps.into_iter().map(|snap| (snap.name, snap.complete)).collect()
}

/// Counts the images' snapshots that belong to groups.
async fn count(images: [(&IoCtx, &str); 2]) -> [usize; 2] {
    let mut counts = [0; 2];
    for (count, (io, name)) in counts.iter_mut().zip(images) {
        let image = Image::open(io, name, Mode::ReadOnly).await.expect("opens");
        let of_groups = |snap: &&loligo_rbd::Snapshot| matches!(snap.info.kind, SnapKind::Group { .. });
        *count = image.view().snapshots.iter().filter(of_groups).count();
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_and_their_images_come_and_go() {
    let (_server, io, other) = places().await;
    assert!(matches!(group::snapshots(&io, "g").await, Err(Error::NoGroup(_))));
    make_group(&io, &other, small(loligo_rbd::features::DEFAULT, None)).await;
    assert!(matches!(group::create(&io, "g").await, Err(Error::GroupExists(_))));
    assert!(group::create(&io, "a/b").await.is_err());
    group::create(&io, "h").await.expect("made");
    assert_eq!(group::list(&io).await.expect("a list"), ["g", "h"]);
    assert!(matches!(group::rename(&io, "h", "g").await, Err(Error::GroupExists(_))));
    assert!(matches!(group::rename(&io, "none", "x").await, Err(Error::NoGroup(_))));
    group::rename(&io, "h", "i").await.expect("renamed");

    group::add_image(&io, "g", &io, "a").await.expect("it is there");
    assert!(matches!(group::add_image(&io, "i", &io, "a").await, Err(Error::OtherGroup)));
    assert!(matches!(group::remove_image(&io, "i", &io, "a").await, Err(Error::OtherGroup)));
    assert!(matches!(group::add_image(&io, "i", &io, "none").await, Err(Error::NoImage(_))));
    assert!(group::members(&io, "i").await.expect("a list").is_empty());
    let members = group::members(&io, "g").await.expect("a list");
    let named: Vec<_> = members.iter().map(|of| (of.pool, of.name.as_text(), of.attached)).collect();
    assert_eq!(named, [(io.pool(), Some("a"), true), (other.pool(), Some("b"), true)]);
    let of = opened(&other, "b").await.group().await.expect("read").expect("one");
    assert_eq!((of.pool, of.name.as_text()), (io.pool(), Some("g")));
    assert!(matches!(loligo_rbd::remove(&io, "a", |_, _| {}).await, Err(Error::InGroup)));
    assert!(matches!(trash::put(&io, "a", std::time::Duration::ZERO).await, Err(Error::InGroup)));

    namespaces::create(&io, "ns").await.expect("made");
    let inside = io.with_namespace("ns");
    loligo_rbd::create(&inside, "c", NewImage::of_size(1 << 20)).await.expect("made");
    assert!(matches!(group::add_image(&io, "g", &inside, "c").await, Err(Error::GroupNamespace)));
    group::create(&inside, "g").await.expect("made");
    group::add_image(&inside, "g", &inside, "c").await.expect("added");
    group::create_snapshot(&inside, "g", "s").await.expect("made");
    assert_eq!(group::members(&inside, "g").await.expect("a list")[0].name, "c");
    group::remove(&inside, "g").await.expect("removed");
    assert!(opened(&inside, "c").await.view().snapshots.is_empty());
    let nowhere = group::create(&io.with_namespace("none"), "g").await;
    assert!(matches!(nowhere, Err(Error::NoNamespace(_))), "{nowhere:?}");

    // By its id, and an image that is not in the group.
    group::remove_image_by_id(&io, "g", &other, &members[1].id).await.expect("removed");
    group::remove_image(&io, "g", &other, "b").await.expect("nothing to do");
    assert_eq!(opened(&other, "b").await.group().await.expect("read"), None);
    group::remove(&io, "g").await.expect("removed");
    assert!(matches!(group::remove(&io, "g").await, Err(Error::NoGroup(_))));
    loligo_rbd::remove(&io, "a", |_, _| {}).await.expect("it is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_of_groups_and_of_users_do_not_meet() {
    let (_server, io, other) = places().await;
    make_group(&io, &other, small(loligo_rbd::features::DEFAULT, None)).await;
    let images = [(&io, "a"), (&other, "b")];
    let write = async |value: u8| {
        for (io, name) in images {
            let image = opened(io, name).await;
            image.write(0, vec![value; 200_000].into()).await.expect("written");
            image.write(700_000, vec![value; 10].into()).await.expect("written");
            image.close().await.expect("closes");
        }
    };
    let read = async |io: &IoCtx, name: &str| {
        let image = Image::open(io, name, Mode::ReadOnly).await.expect("opens");
        (image.read(0, 1 << 20).await.expect("read"), image.size())
    };
    write(1).await;
    group::create_snapshot(&io, "g", "s").await.expect("made");
    assert!(matches!(group::create_snapshot(&io, "g", "s").await, Err(Error::SnapshotExists(_))));
    let then = [read(&io, "a").await, read(&other, "b").await];
    let image = opened(&io, "a").await;
    image.create_snapshot("s").await.expect("another's name does not matter");
    let info = &image.view().snapshots[0].info;
    let of = image.group_snapshot(&info.kind).await.expect("read").expect("one");
    assert_eq!((of.pool, of.group.as_text(), of.snapshot.as_text()), (io.pool(), Some("g"), Some("s")));
    assert!(info.name.starts_with(b".group."), "{}", info.name);
    let by_name = image.remove_snapshot(&info.name).await;
    assert!(matches!(by_name, Err(Error::NoSnapshot(_))), "{by_name:?}");
    assert_eq!(image.usage().await.expect("maps").len(), 2, "of users only");
    write(2).await;
    image.resize(300_000, loligo_rbd::Shrink::Allowed).await.expect("resized");
    image.close().await.expect("closes");
    group::create_snapshot(&io, "g", "t").await.expect("made");
    assert!(matches!(group::rename_snapshot(&io, "g", "t", "s").await, Err(Error::SnapshotExists(_))));
    group::rename_snapshot(&io, "g", "t", "u").await.expect("renamed");
    let mut there = names(&io, "g").await;
    there.sort();
    assert_eq!(there, [("s".into(), true), ("u".into(), true)]);

    let mut told = (0, 0);
    group::roll_back(&io, "g", "s", |done, all| told = (done, all)).await.expect("rolled back");
    assert_eq!(told, (32, 32), "16 objects each");
    assert!([read(&io, "a").await, read(&other, "b").await] == then);
    group::remove_image(&io, "g", &other, "b").await.expect("removed");
    let of_others = group::roll_back(&io, "g", "s", |_, _| {}).await;
    assert!(matches!(of_others, Err(Error::OtherMembers(_))), "{of_others:?}");
    // The image keeps its snapshot until the group's is removed.
    assert_eq!(count(images).await, [2, 2]);
    group::remove_snapshot(&io, "g", "s").await.expect("removed");
    assert!(matches!(group::remove_snapshot(&io, "g", "s").await, Err(Error::NoSnapshot(_))));
    assert_eq!(count(images).await, [1, 1]);
    group::remove(&io, "g").await.expect("removed");
    assert_eq!(count(images).await, [0, 0]);
    let image = opened(&io, "a").await;
    assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
    image.roll_back("s", |_, _| {}).await.expect("the user's is still there");
    assert!((image.read(0, 1 << 20).await.expect("read"), image.size()) == then[0]);
    image.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_group_is_of_one_moment() {
    let (server, io, other) = places().await;
    make_group(&io, &other, NewImage::of_size(8 << 20)).await;
    let writer = connect(&server).await;
    let a = opened(&writer.ioctx(POOL).await.expect("the pool"), "a").await;
    let b = opened(&writer.ioctx(OTHER_POOL).await.expect("the pool"), "b").await;
    let stop = AtomicBool::new(false);
    // Each value is written to `a` before `b`.
    let writing = async {
        let mut n = 0u64;
        while !stop.load(Ordering::Acquire) {
            n += 1;
            a.write(0, n.to_le_bytes().to_vec().into()).await.expect("written");
            b.write(0, n.to_le_bytes().to_vec().into()).await.expect("written");
        }
        n
    };
    let taking = async {
        for n in 0..5 {
            group::create_snapshot(&io, "g", &format!("s{n}")).await.expect("made");
        }
        stop.store(true, Ordering::Release);
    };
    let (written, ()) = tokio::join!(writing, taking);
    let value = async |image: &Image| {
        let bytes = image.read(0, 8).await.expect("read");
        u64::from_le_bytes(bytes[..].try_into().expect("eight"))
    };
    let mut last = 0;
    for n in 0..5 {
        // The owners of the locks are asked to release them.
        let name = format!("s{n}");
        group::roll_back(&io, "g", &name, |_, _| {}).await.expect("rolled back");
        let (in_a, in_b) = (value(&a).await, value(&b).await);
        assert!(in_b <= in_a && in_a <= in_b + 1, "{name}: {in_a} and {in_b}");
        assert!(last <= in_a && in_a <= written, "{name}: {in_a} behind {last}");
        last = in_a;
    }
    for image in [&a, &b] {
        image.acquire_lock().await.expect("taken");
    }
    group::remove(&io, "g").await.expect("removed");
    assert!(a.is_lock_owner() && b.is_lock_owner());
    assert_eq!(count([(&io, "a"), (&other, "b")]).await, [0, 0]);
    for image in [a, b] {
        image.close().await.expect("closes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_fails_in_one_image_is_in_none() {
    let (_server, io, other) = places().await;
    make_group(&io, &other, small(loligo_rbd::features::DEFAULT, None)).await;
    let image = opened(&other, "b").await;
    image.lock_by_hand("mine", None).await.expect("locked");
    let locked = group::create_snapshot(&io, "g", "s").await;
    assert!(matches!(locked, Err(Error::Locked(_))), "{locked:?}");
    assert!(names(&io, "g").await.is_empty());
    image.unlock_by_hand("mine").await.expect("unlocked");
    let header = format!("rbd_header.{}", image.id());
    let limit = async |limit: u64| {
        other.exec_write(&*header, "rbd", "snapshot_set_limit", &limit.to_le_bytes()).await
    };
    limit(0).await.expect("set");
    let refused = group::create_snapshot(&io, "g", "s").await.expect_err("no more");
    assert_eq!(refused.errno().0, 122, "{refused}");
    assert!(names(&io, "g").await.is_empty());
    assert_eq!(count([(&io, "a"), (&other, "b")]).await, [0, 0]);
    limit(u64::MAX).await.expect("set");
    group::create_snapshot(&io, "g", "s").await.expect("made");
    assert_eq!(count([(&io, "a"), (&other, "b")]).await, [1, 1]);
    image.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_group_that_is_cut_off_can_be_removed() {
    let (_server, io, other) = places().await;
    let (mut incomplete, mut halves) = (0, 0);
    for polls in 1..=POLLS_MAX {
        // New names: a watch dropped during its registration does not answer until it times out after
        // 30 s.
        let [g, a, b] = ["g", "a", "b"].map(|name| format!("{name}{polls}"));
        make_group_of(&io, &g, [(&io, &a), (&other, &b)], small(loligo_rbd::features::DEFAULT, None)).await;
        let images = [(&io, &*a), (&other, &*b)];
        let ended = ends_within(polls, group::create_snapshot(&io, &g, "s")).await;
        let there = names(&io, &g).await;
        incomplete += usize::from(there == [("s".into(), false)]);
        let made = count(images).await;
        halves += usize::from(made.contains(&1) && !ended);
        assert!(!ended || there == [("s".into(), true)] && made == [1, 1]);
        if there.is_empty() {
            assert_eq!(made, [0, 0], "after {polls} polls");
            continue;
        }
        if there[0].1 {
            group::roll_back(&io, &g, "s", |_, _| {}).await.expect("rolled back");
        } else {
            let refused = group::roll_back(&io, &g, "s", |_, _| {}).await;
            assert!(matches!(refused, Err(Error::OtherMembers(_))), "{refused:?}");
        }
        group::remove_snapshot(&io, &g, "s").await.expect("removed");
        assert_eq!(count(images).await, [0, 0], "after {polls} polls");
        if ended {
            assert!(
                incomplete > 0 && halves > 0,
                "{incomplete} and {halves}: it was never cut off in the middle"
            );
            return;
        }
    }
    panic!("a snapshot that does not end");
}
