//! Goal: an image is an array of bytes with snapshots, for any layout and any writer. Method: random I/O
//! on an embedded server and on arrays, also on clones (`clones.rs`); two clients that take the lock
//! from each other; a client that is gone without releasing it; operations that are dropped after each
//! of their steps, or stopped where they report (`stopped.rs`).

mod blocking;
mod bounded;
mod cached;
mod clones;
mod deep_copy;
mod diff;
mod frozen;
mod groups;
mod many;
mod metadata;
mod migration;
mod owner;
mod sparsify;
mod stopped;
mod switch;
mod trash;

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Builder, IoCtx, LockMode, LockOptions, Rados, Waits};
use loligo_rbd::{Error, Image, Mode, Name, NewImage, Shrink, namespaces};
use loligo_server::{Handle, Server};
use loligo_wire::rbd::object_map::{EXISTS, NONEXISTENT};
use loligo_wire::rbd::{Migration, ObjectMap, feature};
use loligo_wire::{Reader, Writer};

const POOL: &str = "images";

async fn connect(server: &Handle) -> Rados {
    Builder::new().conf_file(server.conf().to_str().expect("UTF-8")).connect().await.expect("connects")
}

async fn place() -> (Handle, IoCtx) {
    let server = Server::memory().pool(POOL).start().expect("the server starts");
    let io = connect(&server).await.ioctx(POOL).await.expect("the pool");
    (server, io)
}

fn small(features: u64, striping: Option<(u64, u64)>) -> NewImage {
    NewImage { order: 16, features, striping, ..NewImage::of_size(1 << 20) }
}

/// Whether an object remains in a pool after its images are removed.
fn is_pool_s(oid: &[u8]) -> bool {
    [&b"rbd_directory"[..], b"rbd_info"].contains(&oid)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_an_array_of_bytes() {
    let (_server, io) = place().await;
    let kinds = [
        (feature::LAYERING, None),
        (loligo_rbd::features::DEFAULT, None),
        (loligo_rbd::features::DEFAULT, Some((8 << 10, 4))),
    ];
    for (seed, (features, striping)) in kinds.into_iter().enumerate() {
        let name = format!("image{seed}");
        loligo_rbd::create(&io, &name, small(features, striping)).await.expect("made");
        let image = Image::open(&io, &name, Mode::ReadWrite).await.expect("opens");
        random_io(&io, image, vec![0; 1 << 20], seed as u64).await;
        let image = Image::open(&io, &name, Mode::ReadWrite).await.expect("opens");
        for snap in image.view().snapshots.iter() {
            image.remove_snapshot(&snap.info.name).await.expect("removed");
        }
        image.close().await.expect("closes");
        loligo_rbd::remove(&io, &name, |_, _| {}).await.expect("removed");
    }
    assert!(loligo_rbd::list(&io).await.expect("a list").is_empty());
    let mut left = io.objects();
    while let Some(object) = left.next().await.expect("a listing") {
        assert!(is_pool_s(&object.oid), "{}", String::from_utf8_lossy(&object.oid));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_snapshots_are_kept() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "a", small(feature::LAYERING, None)).await.expect("made");
    // More snapshots than fit in one request, with four operations each.
    many::are_kept(&io, "a", 17_000).await;
}

/// Runs random I/O on an image with the data of `model` and no snapshots, and closes it. Returns the
/// data of the image and of its snapshots.
async fn random_io(
    io: &IoCtx,
    image: Image,
    mut model: Vec<u8>,
    seed: u64,
) -> (Vec<u8>, BTreeMap<String, Vec<u8>>) {
    let snaps = random_changes(&image, &mut model, seed).await;
    check_all(io, &image, &model, &snaps).await;
    image.close().await.expect("closes");
    (model, snaps)
}

async fn random_changes(image: &Image, model: &mut Vec<u8>, seed: u64) -> BTreeMap<String, Vec<u8>> {
    let mut snaps = BTreeMap::new();
    more_changes(image, model, &mut snaps, seed).await;
    snaps
}

/// As `random_io`, on an image that may have snapshots.
async fn more_changes(image: &Image, model: &mut Vec<u8>, snaps: &mut BTreeMap<String, Vec<u8>>, seed: u64) {
    let name = image.name();
    let mut random = fastrand::Rng::with_seed(seed);
    for step in 0..300 {
        let offset = random.u64(0..model.len() as u64);
        let len = random.u64(0..(model.len() as u64 - offset).min(300 << 10) + 1);
        let range = offset as usize..(offset + len) as usize;
        match random.u32(0..20) {
            0..8 => {
                let data: Vec<u8> = (0..len).map(|_| random.u8(..)).collect();
                image.write(offset, data.clone().into()).await.expect("written");
                model[range].copy_from_slice(&data);
            }
            8..11 => {
                image.discard(offset, len).await.expect("discarded");
                model[range].fill(0);
            }
            11 => {
                let len = len / 512 * 512;
                let pattern: Vec<u8> = (0..512).map(|_| random.u8(..)).collect();
                image.write_same(offset, len, pattern.clone().into()).await.expect("written");
                model[offset as usize..][..len as usize]
                    .chunks_mut(512)
                    .for_each(|part| part.copy_from_slice(&pattern));
            }
            12 => compare(image, model, offset).await,
            13 => {
                let size = random.u64(300 << 10..1200 << 10);
                let resized = image.resize(size, Shrink::Allowed).await;
                if migrates(image) && size < model.len() as u64 {
                    assert!(matches!(resized, Err(Error::Migrating(_))), "{resized:?}");
                } else {
                    resized.expect("resized");
                    model.resize(size as usize, 0);
                }
            }
            14 => {
                let snap = format!("s{seed}-{step}");
                image.create_snapshot(&snap).await.expect("made");
                snaps.insert(snap, model.clone());
            }
            15 if !snaps.is_empty() => {
                let snap = random.choice(snaps.keys().cloned().collect::<Vec<_>>()).expect("one");
                if random.bool() {
                    image.remove_snapshot(&snap).await.expect("removed");
                    snaps.remove(&snap);
                } else if migrates(image) {
                    let refused = image.roll_back(&snap, |_, _| {}).await;
                    assert!(matches!(refused, Err(Error::Migrating(_))), "{refused:?}");
                } else {
                    image.roll_back(&snap, |_, _| {}).await.expect("rolled back");
                    model.clone_from(&snaps[&snap]);
                }
            }
            16 => {
                image.write(offset, vec![0; len as usize].into()).await.expect("written");
                model[range].fill(0);
                image.sparsify(4096, |_, _| {}).await.expect("given back");
            }
            _ => {
                let got = image.read(offset, len).await.expect("read");
                assert!(got == model[range], "{name}, step {step}: {offset}~{len}");
                holes_are_zeros(image, model).await;
            }
        }
    }
}

/// Whether the image may lack data of its migration's source.
fn migrates(image: &Image) -> bool {
    image
        .view()
        .migration
        .as_ref()
        .is_some_and(|spec| [Migration::PREPARED, Migration::EXECUTING].contains(&spec.state))
}

async fn check_all(io: &IoCtx, image: &Image, model: &[u8], snaps: &BTreeMap<String, Vec<u8>>) {
    let name = image.name();
    assert_eq!(image.size(), model.len() as u64);
    assert!(image.read(0, u64::from(u32::MAX >> 2)).await.expect("read") == model);
    for (snap, bytes) in snaps {
        let at = Image::open_snapshot(io, name, snap).await.expect("opens");
        let got = at.read(0, 2 << 20).await.expect("read");
        let differs = got.iter().zip(bytes).position(|(a, b)| a != b);
        assert_eq!((got.len(), differs), (bytes.len(), None), "{name}@{snap}");
        holes_are_zeros(&at, bytes).await;
    }
    if image.view().features & feature::OBJECT_MAP != 0 {
        assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
        let usage = image.usage().await.expect("a map");
        assert_eq!(usage.len(), snaps.len() + 1);
    }
}

/// Ranges without objects in the map read as zeros. If there is a map, ranges never written have no
/// objects.
async fn holes_are_zeros(image: &Image, model: &[u8]) {
    let parts = image.allocation(0, model.len() as u64).await.expect("the map");
    assert_eq!(parts.iter().map(|part| part.len).sum::<u64>(), model.len() as u64);
    assert!(parts.windows(2).all(|two| two[0].exists != two[1].exists), "{parts:?}");
    let mut at = 0;
    for part in parts {
        let these = &model[at..at + part.len as usize];
        assert!(part.exists || these.iter().all(|byte| *byte == 0), "a hole at {at}");
        at += these.len();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_never_written_is_a_hole_where_there_is_a_map() {
    let (_server, io) = place().await;
    for (features, exists) in [(feature::LAYERING, true), (loligo_rbd::features::DEFAULT, false)] {
        let name = format!("image{exists}");
        loligo_rbd::create(&io, &name, small(features, None)).await.expect("made");
        let image = Image::open(&io, &name, Mode::ReadWrite).await.expect("opens");
        let part = |len, exists| loligo_rbd::Allocation { len, exists };
        assert_eq!(image.allocation(0, 1 << 20).await.expect("the map"), [part(1 << 20, exists)]);
        image.write(64 << 10, vec![1; 4096].into()).await.expect("written");
        let parts = image.allocation(32 << 10, 128 << 10).await.expect("the map");
        if exists {
            assert_eq!(parts, [part(128 << 10, true)]);
        } else {
            assert_eq!(parts, [part(32 << 10, false), part(64 << 10, true), part(32 << 10, false)]);
        }
        image.close().await.expect("closes");
    }
}

async fn compare(image: &Image, model: &mut [u8], offset: u64) {
    let offset = offset / 512 * 512;
    if offset + 512 > model.len() as u64 {
        return;
    }
    let here = offset as usize..offset as usize + 512;
    let expected = Bytes::copy_from_slice(&model[here.clone()]);
    let mut other = expected.to_vec();
    other[77] ^= 1;
    match image.compare_and_write(offset, other.into(), vec![1; 512].into()).await {
        Err(Error::Mismatch(at)) => assert_eq!(at, offset + 77),
        done => panic!("{done:?}"),
    }
    image.compare_and_write(offset, expected, vec![5; 512].into()).await.expect("equal");
    model[here].fill(5);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_goes_from_client_to_client() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "shared", NewImage::of_size(64 << 20)).await.expect("made");
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    let one = Image::open(&io, "shared", Mode::ReadWrite).await.expect("opens");
    let two = Image::open(&others, "shared", Mode::ReadWrite).await.expect("opens");
    for round in 0..10u64 {
        let (writer, idle) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        writer.write(round << 22, vec![round as u8 + 1; 100].into()).await.expect("written");
        assert!(writer.is_lock_owner() && !idle.is_lock_owner(), "round {round}");
    }
    // Both write at once, and one creates a snapshot.
    let (a, b, c) = tokio::join!(
        one.write(0, vec![1; 5000].into()),
        two.write(8192, vec![2; 5000].into()),
        one.create_snapshot("s"),
    );
    assert!(a.is_ok() && b.is_ok() && c.is_ok(), "{a:?} {b:?} {c:?}");
    two.close().await.expect("closes");
    assert_eq!(one.check_object_map().await.expect("a map"), Vec::<u64>::new());
    match loligo_rbd::remove(&others, "shared", |_, _| {}).await {
        Err(Error::InUse) => {}
        done => panic!("{done:?}"),
    }
    one.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_owner_is_put_out() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "left", NewImage::of_size(64 << 20)).await.expect("made");
    let dead = connect(&server).await;
    let dead_io = dead.ioctx(POOL).await.expect("the pool");
    let id = loligo_rbd::list(&io).await.expect("a list")[&b"left"[..]].clone();
    // The owner is gone; only its lock remains.
    let lock = LockOptions { cookie: "auto 94000".into(), tag: "internal".into(), ..LockOptions::default() };
    let header = format!("rbd_header.{id}");
    dead_io.lock(header, "rbd_lock", LockMode::Exclusive, &lock).await.expect("locked");
    let image = Image::open(&io, "left", Mode::ReadWrite).await.expect("opens");
    image.write(0, vec![2; 4096].into()).await.expect("written");
    let refused = dead_io.write("any", 0, vec![1].into()).await.expect_err("it is on the blocklist");
    assert_eq!(refused.errno(), loligo_rados::Errno::EBLOCKLISTED);
    assert_eq!(image.read(0, 4096).await.expect("read"), vec![2; 4096]);
    image.close().await.expect("closes");
}

/// The owner is alive, as its watch shows, and does not release the lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_the_lock_names_its_owner() {
    let (server, io) = place().await;
    loligo_rbd::create(&io, "busy", NewImage::of_size(64 << 20)).await.expect("made");
    let id = loligo_rbd::list(&io).await.expect("a list")[&b"busy"[..]].clone();
    let header = format!("rbd_header.{id}");
    let owner = connect(&server).await;
    let owner_io = owner.ioctx(POOL).await.expect("the pool");
    let mut watch = owner_io.watch(&*header, Duration::ZERO).await.expect("watched");
    let cookie = format!("auto {}", watch.cookie());
    let lock = LockOptions { cookie: Name::from(&cookie), tag: "internal".into(), ..LockOptions::default() };
    owner_io.lock(&*header, "rbd_lock", LockMode::Exclusive, &lock).await.expect("locked");
    let answering = tokio::spawn(async move {
        while let Ok(news) = watch.next().await {
            drop(news)
        }
    });
    let waits = Waits::default();
    let builder = Builder::new().conf_file(server.conf().to_str().expect("UTF-8")).waits(&waits);
    let waiter = builder.connect().await.expect("connects").ioctx(POOL).await.expect("the pool");
    let image = Image::open(&waiter, "busy", Mode::ReadWrite).await.expect("opens");
    let write = async { image.write(0, vec![2; 4096].into()).await };
    let told = format!("image 'busy' is locked by client.{}", owner.instance_id());
    let freed = async {
        let lines = || waits.all(Duration::ZERO).iter().map(ToString::to_string).collect::<Vec<_>>();
        while !lines().iter().any(|line| line.contains(&told)) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        owner_io.unlock(&*header, "rbd_lock", &cookie).await.expect("unlocked");
    };
    let both = async { tokio::join!(write, freed) };
    let (written, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.expect("it is told");
    written.expect("written");
    // A notification that requests the lock may still be in flight; no wait for the lock remains.
    let left = waits.all(Duration::ZERO);
    assert!(!left.iter().any(|wait| wait.to_string().contains(&told)), "{left:?}");
    image.close().await.expect("closes");
    answering.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_image_is_refused() {
    let (_server, io) = place().await;
    let journaled = NewImage { features: 125, ..NewImage::of_size(1 << 20) };
    let refused = loligo_rbd::create(&io, "a", journaled).await.expect_err("journaling");
    assert!(refused.to_string().contains("journaling"), "{refused}");
    let odd = NewImage { striping: Some((5000, 2)), ..NewImage::of_size(1 << 20) };
    assert!(matches!(loligo_rbd::create(&io, "a", odd).await, Err(Error::Layout { .. })));
    assert!(matches!(Image::open(&io, "a", Mode::ReadOnly).await, Err(Error::NoImage(_))));
    loligo_rbd::create(&io, "a", NewImage::of_size(1 << 20)).await.expect("made");
    let again = loligo_rbd::create(&io, "a", NewImage::of_size(1 << 20)).await;
    assert!(matches!(again, Err(Error::ImageExists(_))));
    let image = Image::open(&io, "a", Mode::ReadWrite).await.expect("opens");
    assert!(matches!(image.write(1 << 20, vec![1].into()).await, Err(Error::Range { .. })));
    assert!(matches!(image.resize(5, Shrink::Refused).await, Err(Error::WouldShrink { .. })));
    image.create_snapshot("s").await.expect("made");
    image.protect_snapshot("s").await.expect("protected");
    assert!(matches!(image.remove_snapshot("s").await, Err(Error::SnapshotBusy(_))));
    image.unprotect_snapshot("s").await.expect("unprotected");
    image.close().await.expect("closes");
    assert!(matches!(loligo_rbd::remove(&io, "a", |_, _| {}).await, Err(Error::HasSnapshots(1))));
    loligo_rbd::rename(&io, "a", "b").await.expect("renamed");
    let names: Vec<Name> = loligo_rbd::list(&io).await.expect("a list").into_keys().collect();
    assert_eq!(names, ["b"]);
}

/// Polls a future at most `polls_max` times, and then drops it. Returns whether it completed.
async fn ends_within(polls_max: usize, future: impl Future) -> bool {
    let mut future = pin!(future);
    let mut polls = 0;
    std::future::poll_fn(move |cx| {
        polls += 1;
        if polls > polls_max { Poll::Ready(false) } else { future.as_mut().poll(cx).map(|_| true) }
    })
    .await
}

/// The most polls of an interrupted operation below; it needs about ten.
const POLLS_MAX: usize = 500;

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_has_its_map_wherever_its_making_ends() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "disk", NewImage::of_size(64 << 20)).await.expect("made");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    image.write(0, vec![1; 100].into()).await.expect("written");
    let mut cut_off = 0;
    for polls in 1..=POLLS_MAX {
        let ended = ends_within(polls, image.create_snapshot(&format!("s{polls}"))).await;
        image.refresh().await.expect("a header");
        for snap in &image.view().snapshots {
            let map = format!("rbd_object_map.{}.{:016x}", image.id(), snap.info.id.0);
            let there = io.stat(map).await;
            assert!(there.is_ok(), "snapshot '{}', after {polls} polls: {there:?}", snap.info.name);
        }
        if ended {
            break;
        }
        cut_off = image.view().snapshots.len();
    }
    assert!(cut_off > 0, "no snapshot was entered before it was done");
    image.create_snapshot("last").await.expect("made");
    image.write(5 << 20, vec![1; 100].into()).await.expect("written");
    assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
    assert_eq!(image.usage().await.expect("maps").len(), cut_off + 3);
    // The map also exists while the snapshot is being removed.
    for polls in 1..=POLLS_MAX {
        let ended = ends_within(polls, image.remove_snapshot("last")).await;
        let usage = image.usage().await;
        assert!(usage.is_ok(), "after {polls} polls: {usage:?}");
        if ended || image.view().snapshot("last").is_err() {
            break;
        }
    }
    assert!(image.view().snapshot("last").is_err());
    image.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_after_a_discard_that_was_cut_off_is_in_the_map() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "disk", small(loligo_rbd::features::DEFAULT, None)).await.expect("made");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    let map = format!("rbd_object_map.{}", image.id());
    for polls in 1..=POLLS_MAX {
        image.write(0, vec![1; 100].into()).await.expect("written");
        let ended = ends_within(polls, image.discard(0, 64 << 10)).await;
        image.write(0, vec![2; 10].into()).await.expect("written");
        let stored = io.exec(&*map, "rbd", "object_map_load", b"").await.expect("a map");
        let stored: ObjectMap = Reader::new(&stored).get().expect("a map");
        assert_eq!(stored.get(0), EXISTS, "after {polls} polls");
        assert_eq!(image.read(0, 10).await.expect("read"), vec![2; 10]);
        if ended {
            image.close().await.expect("closes");
            return;
        }
    }
    panic!("a discard that does not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_back_that_is_cut_off_leaves_a_map_that_misses_nothing() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "disk", small(loligo_rbd::features::DEFAULT, None)).await.expect("made");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    image.write(0, vec![1; 1 << 20].into()).await.expect("written");
    image.create_snapshot("s").await.expect("made");
    let map = format!("rbd_object_map.{}", image.id());
    let mut half_done = 0;
    for polls in 1..=POLLS_MAX {
        image.resize(500_000, Shrink::Allowed).await.expect("resized");
        image.discard(0, 500_000).await.expect("discarded");
        let ended = ends_within(polls, image.roll_back("s", |_, _| {})).await;
        let stored = io.exec(&*map, "rbd", "object_map_load", b"").await.expect("a map");
        let stored: ObjectMap = Reader::new(&stored).get().expect("a map");
        let mut there = 0;
        for n in 0..16 {
            if io.stat(format!("{}.{n:016x}", image.block_name_prefix())).await.is_ok() {
                there += 1;
                let known = n < stored.count() && stored.get(n) != NONEXISTENT;
                assert!(known, "after {polls} polls object {n} is missing in the map");
            }
        }
        half_done += u32::from(there > 0 && !ended);
        if ended {
            assert!(half_done > 0, "it was never cut off in the middle");
            assert!(image.read(0, 1 << 20).await.expect("read") == vec![1; 1 << 20]);
            image.close().await.expect("closes");
            return;
        }
    }
    panic!("a roll-back that does not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_image_whose_header_or_name_is_lost_nothing_stays() {
    let (_server, io) = place().await;
    for lost in ["rbd_header.ID", "rbd_id.disk", "rbd_object_map.ID"] {
        loligo_rbd::create(&io, "disk", NewImage::of_size(64 << 20)).await.expect("made");
        let id = loligo_rbd::list(&io).await.expect("a list")[&b"disk"[..]].clone();
        io.remove(lost.replace("ID", &id)).await.expect("removed");
        loligo_rbd::remove(&io, "disk", |_, _| {}).await.expect(lost);
        let again = loligo_rbd::remove(&io, "disk", |_, _| {}).await;
        assert!(matches!(again, Err(Error::NoImage(_))), "{again:?}");
        let mut left = io.objects();
        while let Some(object) = left.next().await.expect("a listing") {
            assert!(is_pool_s(&object.oid), "{lost}: {}", String::from_utf8_lossy(&object.oid));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flush_tells_that_the_watch_has_ended() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "disk", NewImage::of_size(1 << 20)).await.expect("made");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    image.flush().await.expect("flushed");
    io.remove(format!("rbd_header.{}", image.id())).await.expect("removed");
    let told = async {
        while image.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told).await.expect("it is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_of_the_first_version_in_namespaces_are_found() {
    let (_server, io) = place().await;
    namespaces::create(&io, "ns").await.expect("made");
    assert!(matches!(namespaces::create(&io, "ns").await, Err(Error::NamespaceExists(_))));
    assert_eq!(namespaces::list(&io).await.expect("a list"), ["ns"]);
    let inside = io.with_namespace("ns");
    loligo_rbd::create(&io, "parent", NewImage::of_size(1 << 20)).await.expect("made");
    let image = Image::open(&io, "parent", Mode::ReadWrite).await.expect("opens");
    image.create_snapshot("s").await.expect("made");
    image.protect_snapshot("s").await.expect("protected");
    let mut child = Writer::new();
    child.i64(io.pool().0);
    child.put(image.id());
    child.u64(image.view().snapshot("s").expect("one").info.id.0);
    child.put("clone");
    let child = child.into_bytes();
    inside.exec_write("rbd_children", "rbd", "add_child", &child).await.expect("entered");
    assert!(matches!(image.unprotect_snapshot("s").await, Err(Error::SnapshotBusy(_))));
    inside.exec_write("rbd_children", "rbd", "remove_child", &child).await.expect("struck out");
    image.unprotect_snapshot("s").await.expect("unprotected");
    image.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_images_stays() {
    let (_server, io) = place().await;
    namespaces::create(&io, "ns").await.expect("made");
    let inside = io.with_namespace("ns");
    loligo_rbd::create(&inside, "a", NewImage::of_size(1 << 20)).await.expect("made");
    assert!(matches!(namespaces::remove(&io, "ns").await, Err(Error::NamespaceBusy(_))));
    loligo_rbd::remove(&inside, "a", |_, _| {}).await.expect("removed");
    namespaces::remove(&io, "ns").await.expect("removed");
    let made = loligo_rbd::create(&inside, "b", NewImage::of_size(1 << 20)).await;
    assert!(matches!(made, Err(Error::NoNamespace(_))), "{made:?}");
    assert!(namespaces::remove(&io, "").await.is_err());
    assert!(matches!(namespaces::remove(&io, "ns").await, Err(Error::NoNamespace(_))));
    assert!(namespaces::list(&io).await.expect("a list").is_empty());
}
