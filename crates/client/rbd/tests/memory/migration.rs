//! Goal: a migrated image keeps all its data in every state, before, during and after the copy, for any
//! layout and after interruptions; an aborted migration keeps writes made meanwhile. Method: random I/O
//! on images and clones and on arrays, before and during migrations that are dropped after each of their
//! steps.

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;

use loligo_rados::{Errno, IoCtx};
use loligo_rbd::migration::{self, State};
use loligo_rbd::{
    Ancestry, CloneFormat, Error, Image, Mode, NewClone, NewCopy, clone, create_old, features, group,
    namespaces, trash,
};
use loligo_wire::rbd::feature;

use crate::{check_all, connect, more_changes, place, random_changes, small};

type Snaps = BTreeMap<String, Vec<u8>>;

async fn opened(io: &IoCtx, name: &str) -> Image {
    Image::open(io, name, Mode::ReadWrite).await.expect("opens")
}

/// The pool belongs to the same client: other clients would blocklist the owner of a lock that a dropped
/// acquisition left.
async fn second_pool(io: &IoCtx) -> IoCtx {
    io.rados().create_pool("others").await.expect("a pool");
    io.rados().ioctx("others").await.expect("the pool")
}

fn other_layout() -> NewCopy {
    NewCopy {
        order: Some(14),
        striping: Some((4 << 10, 3)),
        features: Some(features::DEFAULT),
        ..NewCopy::default()
    }
}

async fn check(io: &IoCtx, name: &str, model: &[u8], snaps: &Snaps) {
    let image = opened(io, name).await;
    assert_eq!(image.view().snapshots.len(), snaps.len());
    check_all(io, &image, model, snaps).await;
    let copied = image.copy(io, "copy", NewCopy::default(), |_, _| {}).await;
    copied.expect("copied");
    let copy = opened(io, "copy").await;
    assert!(copy.read(0, 2 << 20).await.expect("read") == model, "the copy of {name}");
    copy.close().await.expect("closes");
    loligo_rbd::remove(io, "copy", |_, _| {}).await.expect("removed");
    image.close().await.expect("closes");
}

async fn state(io: &IoCtx, name: &str) -> Option<State> {
    migration::status(io, name).await.expect("a status").map(|status| status.state)
}

/// No objects of images remain in a pool, only the directories.
async fn is_empty(io: &IoCtx) {
    let mut left = io.objects();
    while let Some(object) = left.next().await.expect("a listing") {
        let name = String::from_utf8_lossy(&object.oid).into_owned();
        let is_list = ["rbd_directory", "rbd_trash", "rbd_children", "rbd_info", "rbd_group_directory"]
            .contains(&&*name);
        // An interrupted creation of a snapshot leaves a map of a snapshot that does not exist.
        let is_map = name.starts_with("rbd_object_map.") && name.matches('.').count() == 2;
        assert!(is_list || is_map, "{name}");
    }
    assert!(loligo_rbd::list(io).await.expect("a list").is_empty());
    assert!(trash::list(io).await.expect("a list").is_empty());
}

async fn remove_all(io: &IoCtx, name: &str) {
    loligo_rbd::remove_with_snapshots(io, name).await.expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migrated_image_has_all_it_had() {
    let (_server, io) = place().await;
    let to = second_pool(&io).await;
    let kinds = [
        (features::DEFAULT, None, NewCopy::default()),
        (feature::LAYERING, Some((8 << 10, 4)), other_layout()),
        (
            features::DEFAULT,
            Some((8 << 10, 4)),
            NewCopy { features: Some(feature::LAYERING), ..NewCopy::default() },
        ),
        (
            feature::LAYERING | feature::EXCLUSIVE_LOCK,
            None,
            NewCopy { order: Some(18), ..NewCopy::default() },
        ),
    ];
    for (seed, (features, striping, new)) in kinds.into_iter().enumerate() {
        let seed = 700 + 10 * seed as u64;
        loligo_rbd::create(&io, "a", small(features, striping)).await.expect("made");
        let image = opened(&io, "a").await;
        image.set_metadata("key", "value".into()).await.expect("set");
        let mut model = vec![0; 1 << 20];
        let mut snaps = random_changes(&image, &mut model, seed).await;
        image.close().await.expect("closes");
        migration::prepare(&io, "a", &to, "b", new, Ancestry::Kept).await.expect("prepared");
        assert_eq!(state(&to, "b").await, Some(State::Prepared));
        assert_eq!(state(&io, "a").await, Some(State::Prepared));
        check(&to, "b", &model, &snaps).await;
        let image = opened(&to, "b").await;
        assert_eq!(image.metadata().await.expect("pairs")[&b"key"[..]], "value");
        more_changes(&image, &mut model, &mut snaps, seed + 1).await;
        image.close().await.expect("closes");
        check(&to, "b", &model, &snaps).await;
        // A client has the image open during the copy, and writes to it.
        let image = opened(&to, "b").await;
        image.write(0, vec![9; 1000].into()).await.expect("written");
        model[..1000].fill(9);
        let mut told = (0, 0);
        migration::execute(&to, "b", |done, all| told = (done, all)).await.expect("executed");
        assert_eq!(told.0, told.1);
        more_changes(&image, &mut model, &mut snaps, seed + 2).await;
        image.close().await.expect("closes");
        assert_eq!(state(&to, "b").await, Some(State::Executed));
        check(&to, "b", &model, &snaps).await;
        migration::commit(&to, "b", |_, _| {}).await.expect("committed");
        assert_eq!(state(&to, "b").await, None);
        check(&to, "b", &model, &snaps).await;
        is_empty(&io).await;
        remove_all(&to, "b").await;
        is_empty(&to).await;
    }
}

/// A source of format 1 becomes an image with all current features. If the destination has another name,
/// the migration is also found by the source's name.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_image_becomes_a_new_one() {
    let (_server, io) = place().await;
    for to in ["a", "b"] {
        create_old(&io, "a", 1 << 20, 16).await.expect("made");
        let image = opened(&io, "a").await;
        let mut model = vec![0; 1 << 20];
        let mut snaps = Snaps::new();
        for (n, name) in ["one", "two"].into_iter().enumerate() {
            image.write(n as u64 * 70_000, vec![n as u8 + 1; 100_000].into()).await.expect("written");
            model[n * 70_000..][..100_000].fill(n as u8 + 1);
            image.create_snapshot(name).await.expect("made");
            snaps.insert(name.to_owned(), model.clone());
        }
        image.close().await.expect("closes");
        let new = NewCopy { features: Some(features::DEFAULT), ..other_layout() };
        migration::prepare(&io, "a", &io, to, new, Ancestry::Kept).await.expect("prepared");
        let listed = loligo_rbd::list(&io).await.expect("a list");
        assert_eq!(listed.keys().collect::<Vec<_>>(), [to]);
        check(&io, to, &model, &snaps).await;
        let (image, before) = (opened(&io, to).await, snaps.clone());
        more_changes(&image, &mut model, &mut snaps, 740).await;
        image.close().await.expect("closes");
        if to == "a" {
            migration::abort(&io, "a", |_, _| {}).await.expect("aborted");
            snaps = before;
            check(&io, "a", &model, &snaps).await;
            migration::prepare(&io, "a", &io, to, other_layout(), Ancestry::Kept).await.expect("prepared");
        }
        migration::execute(&io, "a", |_, _| {}).await.expect("executed");
        migration::commit(&io, "a", |_, _| {}).await.expect("committed");
        check(&io, to, &model, &snaps).await;
        remove_all(&io, to).await;
        is_empty(&io).await;
    }
}

async fn writes(image: &Image, model: &mut [u8], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..20 {
        let (at, byte) = (random.usize(0..model.len() - 9000), random.u8(..));
        image.write(at as u64, vec![byte; 9000].into()).await.expect("written");
        model[at..at + 9000].fill(byte);
    }
}

/// A clone stays a clone, or gets the parent's data; its own clones, group and namespace are moved too.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_image_has_to_do_with_goes_with_it() {
    let (_server, io) = place().await;
    let to = second_pool(&io).await;
    loligo_rbd::create(&io, "base", small(features::DEFAULT, None)).await.expect("made");
    let base = opened(&io, "base").await;
    base.write(0, vec![7; 700_000].into()).await.expect("written");
    base.create_snapshot("s").await.expect("made");
    base.protect_snapshot("s").await.expect("protected");
    let kinds = [
        (CloneFormat::Second, Ancestry::Kept),
        (CloneFormat::First, Ancestry::Kept),
        (CloneFormat::Second, Ancestry::Flattened),
    ];
    for (seed, (format, ancestry)) in kinds.into_iter().enumerate() {
        let new = NewClone { format, ..NewClone::default() };
        clone(&io, "base", "s", &io, "a", new.clone()).await.expect("cloned");
        let image = opened(&io, "a").await;
        let mut model = vec![7; 700_000];
        model.resize(1 << 20, 0);
        image.write(300_000, vec![1; 50_000].into()).await.expect("written");
        model[300_000..350_000].fill(1);
        image.create_snapshot("t").await.expect("made");
        let mut snaps = Snaps::from([("t".to_owned(), model.clone())]);
        image.protect_snapshot("t").await.expect("protected");
        clone(&io, "a", "t", &io, "grandchild", new).await.expect("cloned");
        group::create(&io, "g").await.expect("made");
        group::add_image(&io, "g", &io, "a").await.expect("added");
        image.close().await.expect("closes");
        migration::prepare(&io, "a", &to, "b", other_layout(), ancestry).await.expect("prepared");
        let members = group::members(&io, "g").await.expect("a group");
        assert_eq!((members[0].pool, members[0].name.as_text()), (to.pool(), Some("b")));
        let grandchild = Image::open(&io, "grandchild", Mode::ReadOnly).await.expect("opens");
        assert_eq!(grandchild.parent().await.expect("a parent").expect("one").pool, to.pool());
        assert!(grandchild.read(0, 1 << 20).await.expect("read") == snaps["t"]);
        let image = opened(&to, "b").await;
        assert_eq!(image.parent().await.expect("a header").is_some(), ancestry == Ancestry::Kept);
        writes(&image, &mut model, 750 + seed as u64).await;
        image.create_snapshot("u").await.expect("made");
        snaps.insert("u".to_owned(), model.clone());
        writes(&image, &mut model, 760 + seed as u64).await;
        image.close().await.expect("closes");
        migration::execute(&to, "b", |_, _| {}).await.expect("executed");
        check(&to, "b", &model, &snaps).await;
        if seed == 1 {
            migration::abort(&to, "b", |_, _| {}).await.expect("aborted");
            assert_eq!(group::members(&io, "g").await.expect("a group")[0].name, "a");
            snaps.retain(|name, _| name == "t");
            check(&io, "a", &model, &snaps).await;
            // A client that has it open for reading is not notified, and must not read zeros.
            grandchild.read(700_000, 1000).await.expect_err("its parent is gone");
            let again = Image::open(&io, "grandchild", Mode::ReadOnly).await.expect("opens");
            assert!(again.read(0, 1 << 20).await.expect("read") == snaps["t"]);
            assert_eq!(again.parent().await.expect("a parent").expect("one").image, "a");
            migration::prepare(&io, "a", &to, "b", NewCopy::default(), ancestry).await.expect("prepared");
            migration::execute(&io, "a", |_, _| {}).await.expect("executed");
        }
        migration::commit(&io, "a", |_, _| {}).await.expect("committed");
        check(&to, "b", &model, &snaps).await;
        let grandchild = opened(&io, "grandchild").await;
        grandchild.flatten(|_, _| {}).await.expect("flattened");
        assert!(grandchild.read(0, 1 << 20).await.expect("read") == snaps["t"]);
        grandchild.close().await.expect("closes");
        loligo_rbd::remove(&io, "grandchild", |_, _| {}).await.expect("removed");
        group::remove(&io, "g").await.expect("removed");
        remove_all(&to, "b").await;
    }
    namespaces::create(&to, "n").await.expect("made");
    let inside = to.with_namespace("n");
    base.close().await.expect("closes");
    migration::prepare(&io, "base", &inside, "base", NewCopy::default(), Ancestry::Kept)
        .await
        .expect("prepared");
    migration::execute(&inside, "base", |_, _| {}).await.expect("executed");
    migration::commit(&inside, "base", |_, _| {}).await.expect("committed");
    assert_eq!(opened(&inside, "base").await.read(0, 700_000).await.expect("read"), vec![7; 700_000]);
    is_empty(&io).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_migration_can_do_is_refused() {
    let (server, io) = place().await;
    let others = connect(&server).await.ioctx(crate::POOL).await.expect("the pool");
    let prepare = || migration::prepare(&io, "a", &io, "b", NewCopy::default(), Ancestry::Kept);
    let errno = |done: Result<(), Error>| done.expect_err("refused").errno();
    assert_eq!(errno(prepare().await), Errno::ENOENT);
    for name in ["a", "b"] {
        loligo_rbd::create(&io, name, small(features::DEFAULT, None)).await.expect("made");
    }
    assert_eq!(errno(prepare().await), Errno::EEXIST);
    loligo_rbd::remove(&io, "b", |_, _| {}).await.expect("removed");
    let user = opened(&others, "a").await;
    user.write(0, vec![1; 100].into()).await.expect("written");
    assert_eq!(errno(prepare().await), Errno::EBUSY);
    for step in [migration::execute(&io, "a", |_, _| {}).await, migration::commit(&io, "a", |_, _| {}).await]
    {
        assert_eq!(errno(step), Errno::EINVAL);
    }
    assert_eq!(errno(migration::abort(&io, "a", |_, _| {}).await), Errno::EINVAL);
    user.close().await.expect("closes");
    // A failed preparation leaves the image as it was.
    let features = Some(feature::LAYERING | feature::OBJECT_MAP);
    let impossible = NewCopy { features, ..NewCopy::default() };
    let failed = migration::prepare(&io, "a", &io, "b", impossible, Ancestry::Kept).await;
    assert!(matches!(failed, Err(Error::Features(_))), "{failed:?}");
    assert_eq!(state(&io, "a").await, None);
    assert!(trash::list(&io).await.expect("a list").is_empty());
    opened(&io, "a").await.write(100, vec![1; 1].into()).await.expect("written");
    let reader = Image::open(&others, "a", Mode::ReadOnly).await.expect("opens");
    again(prepare).await.expect("prepared");
    // A reader can still read the old data.
    assert_eq!(reader.read(0, 100).await.expect("read"), [1; 100].as_slice());
    assert_eq!(errno(prepare().await), Errno::ENOENT);
    let id = trash::list(&io).await.expect("a list")[0].id.clone();
    let by_id = Image::open_by_id(&io, &id, Mode::ReadWrite).await.map(drop);
    assert_eq!(errno(by_id), Errno::EROFS);
    Image::open_by_id(&io, &id, Mode::ReadOnly).await.expect("opens");
    assert_eq!(errno(trash::remove(&io, &id, true, |_, _| {}).await), Errno::EROFS);
    assert_eq!(errno(trash::restore(&io, &id, None).await), Errno::EINVAL);
    assert_eq!(errno(loligo_rbd::remove(&io, "b", |_, _| {}).await), Errno::EBUSY);
    assert_eq!(errno(trash::put(&io, "b", std::time::Duration::ZERO).await), Errno::EBUSY);
    assert_eq!(errno(migration::commit(&io, "b", |_, _| {}).await), Errno::EINVAL);
    let user = opened(&others, "b").await;
    user.write(0, vec![2; 50].into()).await.expect("written");
    assert_eq!(errno(migration::abort(&io, "b", |_, _| {}).await), Errno::EBUSY);
    migration::execute(&io, "b", |_, _| {}).await.expect("executed");
    assert_eq!(errno(migration::execute(&io, "b", |_, _| {}).await), Errno::EINVAL);
    user.close().await.expect("closes");
    migration::commit(&io, "b", |_, _| {}).await.expect("committed");
    assert_eq!(opened(&io, "b").await.read(0, 100).await.expect("read"), [[2; 50], [1; 50]].concat());
}

/// Runs a step until it has waited `waits` times. Returns its result if it completed.
async fn some_of<T>(step: impl Future<Output = T>, waits: u32) -> Option<T> {
    let mut step = pin!(step);
    let mut left = waits;
    std::future::poll_fn(|cx| match step.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// Repeats an interrupted step, after the images of the dropped one are closed.
async fn again<F: Future<Output = Result<(), Error>>>(step: impl Fn() -> F) -> Result<(), Error> {
    loop {
        match step().await {
            Err(Error::InUse) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            done => return done,
        }
    }
}

/// Each step is dropped after an increasing number of waits, as by a killed program, and repeated.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_migration_goes_on() {
    let (_server, io) = place().await;
    let to = second_pool(&io).await;
    let mut model = vec![0; 1 << 20];
    let mut snaps = Snaps::new();
    loligo_rbd::create(&io, "a", small(features::DEFAULT, None)).await.expect("made");
    let image = opened(&io, "a").await;
    for n in 0..3u64 {
        let range = n as usize * 40_000..n as usize * 40_000 + 500_000;
        image.write(n * 40_000, vec![n as u8 + 1; 500_000].into()).await.expect("written");
        model[range].fill(n as u8 + 1);
        image.create_snapshot(&format!("s{n}")).await.expect("made");
        snaps.insert(format!("s{n}"), model.clone());
    }
    // The image is shorter than its snapshots.
    image.resize(700_000, loligo_rbd::Shrink::Allowed).await.expect("resized");
    model.truncate(700_000);
    image.close().await.expect("closes");
    let (mut waits, mut interrupted) = (1, [0; 4]);
    loop {
        let prepare = || migration::prepare(&io, "a", &to, "b", other_layout(), Ancestry::Kept);
        if some_of(prepare(), waits).await.is_none() {
            interrupted[0] += 1;
            match state(&io, "a").await {
                // Done, except for the notification.
                Some(State::Prepared) => {}
                Some(_) if waits % 2 == 1 => {
                    again(|| migration::abort(&io, "a", |_, _| {})).await.expect("aborted");
                    check(&io, "a", &model, &snaps).await;
                    again(prepare).await.expect("prepared");
                }
                _ => again(prepare).await.expect("prepared"),
            }
        }
        let written = waits as usize * 3000 % 600_000;
        let image = opened(&to, "b").await;
        image.write(written as u64, vec![99; 5000].into()).await.expect("written");
        model[written..written + 5000].fill(99);
        image.close().await.expect("closes");
        if some_of(migration::execute(&to, "b", |_, _| {}), waits).await.is_none() {
            interrupted[1] += 1;
            check(&to, "b", &model, &snaps).await;
        }
        if waits % 3 == 0 {
            let abort = || migration::abort(&io, "a", |_, _| {});
            if some_of(again(abort), waits).await.is_none() {
                interrupted[2] += 1;
                match again(abort).await {
                    Err(Error::NotMigrating) => {}
                    done => done.expect("aborted"),
                }
            }
            check(&io, "a", &model, &snaps).await;
            is_empty(&to).await;
            waits += 1 + waits / 8;
            continue;
        }
        if state(&to, "b").await != Some(State::Executed) {
            again(|| migration::execute(&to, "b", |_, _| {})).await.expect("executed");
        }
        let commit = || migration::commit(&to, "b", |_, _| {});
        if some_of(again(commit), waits).await.is_none() {
            interrupted[3] += 1;
            match again(commit).await {
                Err(Error::NotMigrating) => {}
                done => done.expect("committed"),
            }
        }
        check(&to, "b", &model, &snaps).await;
        is_empty(&io).await;
        if waits > 400 {
            break;
        }
        migration::prepare(&to, "b", &io, "a", NewCopy::default(), Ancestry::Kept).await.expect("prepared");
        migration::execute(&io, "a", |_, _| {}).await.expect("executed");
        migration::commit(&io, "a", |_, _| {}).await.expect("committed");
        waits += 1 + waits / 8;
    }
    assert!(interrupted.iter().all(|times| *times > 3), "{interrupted:?}");
}
