//! Goal: a clone is an array of bytes with snapshots too, for any parent, during flattening, and after
//! interrupted operations; parent and clone are linked as long as they need each other. Method: as for
//! other images.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_rados::{Builder, IoCtx, Trace};
use loligo_rbd::{CloneFormat, Error, Image, Mode, NewClone, NewImage, Shrink, clone, features, namespaces};
use loligo_wire::Writer;
use loligo_wire::rbd::{ParentSpec, feature};

use crate::{POLLS_MAX, POOL, check_all, connect, ends_within, place, random_changes, random_io, small};

const SECOND: NewClone = NewClone {
    order: None,
    features: None,
    striping: None,
    data_pool: None,
    pool_unchecked: false,
    format: CloneFormat::Second,
};

async fn opened(io: &IoCtx, name: &str) -> Image {
    Image::open(io, name, Mode::ReadWrite).await.expect("opens")
}

async fn snapshot_of(io: &IoCtx, name: &str, snap: &str) {
    let image = opened(io, name).await;
    image.create_snapshot(snap).await.expect("made");
    image.protect_snapshot(snap).await.expect("protected");
    image.close().await.expect("closes");
}

async fn bytes_at(io: &IoCtx, name: &str, snap: &str) -> Bytes {
    let at = Image::open_snapshot(io, name, snap).await.expect("opens");
    at.read(0, 1 << 30).await.expect("read")
}

/// Creates an image of 1 MiB in objects of 64 KiB, every fourth of them missing, with a protected
/// snapshot.
async fn parent(io: &IoCtx, features: u64) -> Vec<u8> {
    loligo_rbd::create(io, "parent", small(features, None)).await.expect("made");
    let image = opened(io, "parent").await;
    let mut model = vec![0; 1 << 20];
    for (n, part) in model.chunks_mut(64 << 10).enumerate().filter(|(n, _)| n % 4 != 3) {
        part.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8 ^ n as u8);
        image.write((n as u64) << 16, part.to_vec().into()).await.expect("written");
    }
    image.close().await.expect("closes");
    snapshot_of(io, "parent", "s").await;
    model
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_of_clones_are_arrays_of_bytes() {
    let (_server, io) = place().await;
    let default = features::DEFAULT;
    let kinds = [
        (feature::LAYERING, None, CloneFormat::Second),
        (default, None, CloneFormat::First),
        (default, Some((8 << 10, 4)), CloneFormat::Second),
        (default & !feature::DEEP_FLATTEN, None, CloneFormat::Second),
    ];
    for (seed, (features, striping, format)) in kinds.into_iter().enumerate() {
        let seed = 10 * seed as u64;
        loligo_rbd::create(&io, "a", small(features, striping)).await.expect("made");
        let (mut model, mut snaps) = random_io(&io, opened(&io, "a").await, vec![0; 1 << 20], seed).await;
        let clones = [("a", "b", Some(17), None), ("b", "c", Some(15), Some((4 << 10, 3)))];
        let mut kept = Vec::new();
        for (step, (from, to, order, striping)) in clones.into_iter().enumerate() {
            snapshot_of(&io, from, "base").await;
            snaps.insert("base".to_owned(), model.clone());
            kept.push((from, model.clone(), snaps));
            let new = NewClone { order, striping, format, ..NewClone::default() };
            clone(&io, from, "base", &io, to, new).await.expect("cloned");
            (model, snaps) = random_io(&io, opened(&io, to).await, model, seed + step as u64 + 1).await;
        }
        // Changes of clones do not affect their parents.
        for (name, model, snaps) in &kept {
            check_all(&io, &opened(&io, name).await, model, snaps).await;
        }
        flattened_under_load(&io, "c", model, snaps, seed + 5).await;
        let (_, mut model, snaps) = kept.pop().expect("b");
        let image = opened(&io, "b").await;
        image.unprotect_snapshot("base").await.expect("unprotected");
        image.flatten(|_, _| {}).await.expect("flattened");
        assert!(image.view().parent.is_none() || features & feature::DEEP_FLATTEN == 0);
        check_all(&io, &image, &model, &snaps).await;
        random_changes(&image, &mut model, seed + 6).await;
        image.close().await.expect("closes");
        all_gone(&io, &["c", "b", "a"]).await;
    }
}

/// Flattens a clone twice during writes; the first time is interrupted.
async fn flattened_under_load(
    io: &IoCtx,
    name: &str,
    mut model: Vec<u8>,
    mut snaps: BTreeMap<String, Vec<u8>>,
    seed: u64,
) {
    let image = opened(io, name).await;
    // Where the server has the processor first, few polls are enough for all of it.
    let ended = ends_within(3, image.flatten(|_, _| {})).await;
    assert_eq!(image.parent().await.expect("known").is_none(), ended);
    check_all(io, &image, &model, &snaps).await;
    let (flattened, more) =
        tokio::join!(image.flatten(|_, _| {}), random_changes(&image, &mut model, seed + 1000));
    // The interrupted one may have come as far as its last request, which the server carried out.
    assert!(matches!(flattened, Ok(()) | Err(Error::NoParent)), "{flattened:?}");
    // Names are numbered by step and repeat: the new snapshot of a name replaces the one before.
    snaps.retain(|snap, _| image.view().snapshot(snap).is_ok());
    snaps.extend(more);
    assert!(image.parent().await.expect("none").is_none());
    check_all(io, &image, &model, &snaps).await;
    assert!(matches!(image.flatten(|_, _| {}).await, Err(Error::NoParent)));
    image.close().await.expect("closes");
}

/// Removes images and their snapshots, clones first; no object remains.
async fn all_gone(io: &IoCtx, names: &[&str]) {
    for name in names {
        let image = opened(io, name).await;
        for snap in &image.view().snapshots {
            let name = &snap.info.name;
            if snap.protected {
                image.unprotect_snapshot(name).await.expect("unprotected");
            }
            image.remove_snapshot(name).await.expect("removed");
        }
        image.close().await.expect("closes");
        loligo_rbd::remove(io, name, |_, _| {}).await.expect("removed");
    }
    let mut left = io.objects();
    while let Some(object) = left.next().await.expect("a listing") {
        let name = String::from_utf8_lossy(&object.oid).into_owned();
        assert!(["rbd_directory", "rbd_children", "rbd_trash", "rbd_info"].contains(&&*name), "{name}");
    }
    if io.stat("rbd_children").await.is_ok() {
        assert_eq!(io.omap_keys("rbd_children", "", 1).await.expect("a map").keys.len(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_at_the_same_time_copies_up_once() {
    let (server, io) = place().await;
    let model = parent(&io, feature::LAYERING).await;
    clone(&io, "parent", "s", &io, "clone", SECOND).await.expect("cloned");
    let others = connect(&server).await.ioctx(POOL).await.expect("the pool");
    // Without an exclusive lock both write at once.
    let (one, two) = (opened(&io, "clone").await, opened(&others, "clone").await);
    for object in 0..8u64 {
        let at = |n: u64| (object << 16) + n * 1000;
        let writes = (0..60u64).map(|n| {
            let image = if n % 2 == 0 { &one } else { &two };
            image.write(at(n), vec![n as u8; 500].into())
        });
        for written in futures_util::future::join_all(writes).await {
            written.expect("written");
        }
        let got = one.read(object << 16, 64 << 10).await.expect("read");
        let mut want = model[(object as usize) << 16..][..64 << 10].to_vec();
        (0..60usize).for_each(|n| want[n * 1000..][..500].fill(n as u8));
        assert!(got == want, "object {object}");
    }
    one.close().await.expect("closes");
    two.close().await.expect("closes");
}

/// Counts the operations of a client that opens a clone and writes once to each of `objects` objects of
/// which the parent has data. Operations on headers are not counted: their watches are renewed
/// periodically.
async fn operations(server: &loligo_server::Handle, name: &str, objects: u64) -> usize {
    let file = std::env::temp_dir().join(format!("loligo-trace-{}-{name}", std::process::id()));
    let trace = Trace::start(std::fs::File::create(&file).expect("a file")).expect("a thread");
    let conf = server.conf().to_str().expect("UTF-8");
    let rados = Builder::new().conf_file(conf).trace(&trace).connect().await.expect("connects");
    let image = opened(&rados.ioctx(POOL).await.expect("the pool"), name).await;
    let first_of_four = (0..16u64).filter(|n| n % 4 != 3);
    for n in first_of_four.take(objects as usize) {
        image.write((n << 16) + 5000, vec![1; 300].into()).await.expect("written");
    }
    image.close().await.expect("closes");
    rados.shutdown().await;
    trace.finish().expect("the file takes all");
    let events = std::fs::read_to_string(&file).expect("a text");
    std::fs::remove_file(&file).expect("removed");
    let begins = |line: &&str| line.contains(r#""bytes_sent":"#) && !line.contains("rbd_header.");
    events.lines().filter(begins).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_change_of_an_object_takes_few_exchanges() {
    let (server, io) = place().await;
    parent(&io, features::DEFAULT).await;
    // The attempt (or, with an object map, its update), the read of the parent, and copy and change:
    // together, or separate with snapshots.
    let kinds = [(feature::LAYERING, false, 3), (features::DEFAULT, false, 3), (feature::LAYERING, true, 4)];
    for (kind, (features, has_snapshot, each)) in kinds.into_iter().enumerate() {
        let mut counts = Vec::new();
        for objects in [1, 11] {
            let name = format!("clone{kind}-{objects}");
            let new = NewClone { features: Some(features), ..SECOND };
            clone(&io, "parent", "s", &io, &name, new).await.expect("cloned");
            if has_snapshot {
                let image = opened(&io, &name).await;
                image.create_snapshot("then").await.expect("made");
                image.close().await.expect("closes");
            }
            counts.push(operations(&server, &name, objects).await);
        }
        let (ten, what) = (counts[1] - counts[0], format!("features {features}, snapshot: {has_snapshot}"));
        if features & feature::OBJECT_MAP == 0 {
            assert_eq!(ten, 10 * each, "{what}");
        } else {
            // Updates of the object map may be merged with those of another change.
            assert!(ten > 10 * (each - 1) && ten <= 10 * each, "{what}: {ten}");
        }
    }
}

/// Whether all bytes are unchanged except a range, which may have `new` or be unchanged.
fn is_between(got: &[u8], old: &[u8], range: std::ops::Range<usize>, new: u8) -> bool {
    let inside = &got[range.clone()];
    got[..range.start] == old[..range.start]
        && got[range.end..] == old[range.end..]
        && (*inside == old[range] || inside.iter().all(|byte| *byte == new))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_up_that_is_cut_off_leaves_the_image_right() {
    let (_server, io) = place().await;
    let model = parent(&io, features::DEFAULT).await;
    for (name, has_snapshot) in [("clone", false), ("with-snapshot", true)] {
        let mut polls = 0;
        'ends: for round in 0.. {
            let name = format!("{name}{round}");
            clone(&io, "parent", "s", &io, &name, SECOND).await.expect("cloned");
            let image = opened(&io, &name).await;
            if has_snapshot {
                image.create_snapshot("then").await.expect("made");
            }
            for object in 0..16usize {
                polls += 1;
                let (at, old) = ((object as u64) << 16, &model[object << 16..][..64 << 10]);
                // A discard of the whole object, a write, or zeros at the end.
                let (ended, range, new) = match (object + round) % 3 {
                    0 => (ends_within(polls, image.discard(at, 64 << 10)).await, 0..64 << 10, 0),
                    1 => {
                        let written = image.write(at + 5000, vec![9; 300].into());
                        (ends_within(polls, written).await, 5000..5300, 9)
                    }
                    _ => (ends_within(polls, image.discard(at + 9000, 56_536)).await, 9000..64 << 10, 0),
                };
                let got = image.read(at, 64 << 10).await.expect("read");
                assert!(is_between(&got, old, range.clone(), new), "{name}, object {object}, {polls} polls");
                image.write(at + range.start as u64, vec![7; range.len()].into()).await.expect("written");
                let got = image.read(at, 64 << 10).await.expect("read");
                assert!(got[range.clone()].iter().all(|byte| *byte == 7), "{name}, object {object}");
                assert!(is_between(&got, old, range, 7), "{name}, object {object}, {polls} polls");
                if has_snapshot {
                    let then = Image::open_snapshot(&io, &name, "then").await.expect("opens");
                    assert!(then.read(at, 64 << 10).await.expect("read") == old, "{name}, object {object}");
                }
                if ended && polls > 3 && object > 12 {
                    assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
                    image.flatten(|_, _| {}).await.expect("flattened");
                    image.close().await.expect("closes");
                    if has_snapshot {
                        assert!(bytes_at(&io, &name, "then").await == model);
                    }
                    break 'ends;
                }
            }
            assert!(polls < POLLS_MAX, "a change that does not end");
            assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
            image.close().await.expect("closes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clone_that_shrinks_does_not_get_back_what_it_lost() {
    let (_server, io) = place().await;
    let model = parent(&io, features::DEFAULT).await;
    clone(&io, "parent", "s", &io, "clone", SECOND).await.expect("cloned");
    let image = opened(&io, "clone").await;
    image.create_snapshot("then").await.expect("made");
    image.resize(100_000, Shrink::Allowed).await.expect("resized");
    assert_eq!(image.parent().await.expect("a parent").expect("one").overlap, 100_000);
    image.resize(1 << 20, Shrink::Refused).await.expect("resized");
    let mut want = model.clone();
    want[100_000..].fill(0);
    assert!(image.read(0, 1 << 20).await.expect("read") == want);
    assert!(bytes_at(&io, "clone", "then").await == model);
    // The snapshot keeps the parent's data after the parent is gone.
    image.flatten(|_, _| {}).await.expect("flattened");
    assert!(bytes_at(&io, "clone", "then").await == model);
    image.roll_back("then", |_, _| {}).await.expect("rolled back");
    assert!(image.read(0, 1 << 20).await.expect("read") == model);
    assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
    image.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn parents_and_clones_know_of_each_other() {
    let (_server, io) = place().await;
    parent(&io, features::DEFAULT).await;
    namespaces::create(&io, "ns").await.expect("made");
    let inside = io.with_namespace("ns");
    let first = NewClone { format: CloneFormat::First, ..SECOND };
    let elsewhere = clone(&io, "parent", "s", &inside, "x", first.clone()).await;
    assert!(matches!(elsewhere, Err(Error::Unprotected(_))), "{elsewhere:?}");
    clone(&io, "parent", "s", &io, "one", first.clone()).await.expect("cloned");
    clone(&io, "parent", "s", &inside, "two", SECOND).await.expect("cloned");
    let image = opened(&io, "parent").await;
    let names = |children: Vec<loligo_rbd::Child>| {
        children.into_iter().map(|child| format!("{}/{}", child.namespace, child.name)).collect::<Vec<_>>()
    };
    assert_eq!(names(image.children(Some(&"s".into())).await.expect("clones")), ["/one", "ns/two"]);
    assert_eq!(names(image.children(None).await.expect("clones")), ["/one", "ns/two"]);
    assert!(matches!(image.unprotect_snapshot("s").await, Err(Error::SnapshotBusy(_))));
    assert!(matches!(loligo_rbd::remove(&io, "parent", |_, _| {}).await, Err(Error::InUse)));
    loligo_rbd::remove(&io, "one", |_, _| {}).await.expect("removed");
    // Clones of version 2 need no protected snapshot, only an existing one, even in the trash.
    image.unprotect_snapshot("s").await.expect("unprotected");
    assert!(matches!(clone(&io, "parent", "s", &io, "one", first).await, Err(Error::Unprotected(_))));
    image.remove_snapshot("s").await.expect("removed");
    assert!(matches!(image.remove_snapshot("s").await, Err(Error::NoSnapshot(_))));
    assert_eq!(image.view().snapshots.len(), 1);
    assert_eq!(image.usage().await.expect("maps").len(), 1);
    image.create_snapshot("s").await.expect("made");
    image.close().await.expect("closes");
    let two = opened(&inside, "two").await;
    let parent = two.parent().await.expect("a parent").expect("one");
    assert_eq!((parent.image.as_text(), parent.in_trash, parent.overlap), (Some("parent"), false, 1 << 20));
    two.flatten(|_, _| {}).await.expect("flattened");
    two.close().await.expect("closes");
    let image = opened(&io, "parent").await;
    let left: Vec<_> = image.view().snapshots.iter().map(|snap| snap.info.name.clone()).collect();
    assert_eq!(left, ["s"]);
    assert_eq!(image.view().op_features, 0);
    image.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_keeps_its_parent_parts_with_it_in_the_end() {
    let (_server, io) = place().await;
    let model = parent(&io, feature::LAYERING).await;
    clone(&io, "parent", "s", &io, "clone", SECOND).await.expect("cloned");
    let image = opened(&io, "clone").await;
    image.create_snapshot("then").await.expect("made");
    image.write(0, vec![1; 1 << 20].into()).await.expect("written");
    image.flatten(|_, _| {}).await.expect("flattened");
    assert!(image.parent().await.expect("none").is_none());
    assert!(bytes_at(&io, "clone", "then").await == model);
    let of = opened(&io, "parent").await;
    assert_eq!(of.children(None).await.expect("clones").len(), 1);
    image.remove_snapshot("then").await.expect("removed");
    assert_eq!(of.children(None).await.expect("clones").len(), 0);
    assert_eq!(image.view().op_features, 0);
    image.close().await.expect("closes");
    of.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_its_own_ancestor_is_refused() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "a", NewImage::of_size(1 << 20)).await.expect("made");
    let image = opened(&io, "a").await;
    image.create_snapshot("one").await.expect("made");
    let next = image.view().snapshots[0].info.id.0 + 1;
    let spec = ParentSpec {
        pool: io.pool().0,
        nspace: loligo_rbd::Name::new(),
        image: image.id().to_owned(),
        snap: loligo_rados::SnapId(next),
    };
    let mut w = Writer::new();
    w.put(&spec);
    w.u64(1 << 20);
    let header = format!("rbd_header.{}", image.id());
    io.exec_write(header, "rbd", "parent_attach", &w.into_bytes()).await.expect("attached");
    image.create_snapshot("two").await.expect("made");
    assert_eq!(image.view().snapshots[1].info.id.0, next);
    image.close().await.expect("closes");
    assert!(matches!(Image::open(&io, "a", Mode::ReadOnly).await, Err(Error::Ancestors(_))));
}
