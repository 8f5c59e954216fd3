//! Goal: an image in the trash is unchanged and can be restored, and interrupted operations can be
//! repeated. Method: operations are dropped after each of their steps.

use std::time::Duration;

use loligo_rados::IoCtx;
use loligo_rbd::{Error, Image, Mode, NewImage, namespaces, trash};
use loligo_wire::UTime;

use crate::{POLLS_MAX, ends_within, place};

async fn made(io: &IoCtx, name: &str) -> String {
    loligo_rbd::create(io, name, NewImage::of_size(8 << 20)).await.expect("made");
    let image = Image::open(io, name, Mode::ReadWrite).await.expect("opens");
    image.write(100, name.as_bytes().to_vec().into()).await.expect("written");
    let id = image.id().to_owned();
    image.close().await.expect("closes");
    id
}

async fn says(io: &IoCtx, name: &str, what: &str) {
    let image = Image::open(io, name, Mode::ReadOnly).await.expect("opens");
    assert_eq!(image.read(100, what.len() as u64).await.expect("read"), what.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_the_trash_is_kept() {
    let (_server, io) = place().await;
    let id = made(&io, "one").await;
    trash::put(&io, "one", Duration::from_secs(3600)).await.expect("put");
    assert!(loligo_rbd::list(&io).await.expect("a list").is_empty());
    let all = trash::list(&io).await.expect("a list");
    assert_eq!((all.len(), all[0].name.as_text(), &all[0].id), (1, Some("one"), &id));
    let image = Image::open_by_id(&io, &id, Mode::ReadOnly).await.expect("opens");
    assert_eq!((image.name(), &*image.read(100, 3).await.expect("read")), (&"one".into(), &b"one"[..]));
    assert!(matches!(trash::put(&io, "one", Duration::ZERO).await, Err(Error::NoImage(_))));
    assert!(matches!(trash::remove(&io, &id, false, |_, _| {}).await, Err(Error::KeptUntil(_))));
    trash::purge(&io, UTime::now(), |_, _| {}).await.expect("purged");
    made(&io, "one").await;
    assert!(matches!(trash::restore(&io, &id, None).await, Err(Error::ImageExists(_))));
    assert!(matches!(trash::restore(&io, &id, Some(&"a/b".into())).await, Err(Error::Rados(_))));
    trash::restore(&io, &id, Some(&"two".into())).await.expect("restored");
    says(&io, "two", "one").await;
    assert!(matches!(trash::restore(&io, &id, None).await, Err(Error::NotInTrash(_))));
    let open = Image::open(&io, "two", Mode::ReadWrite).await.expect("opens");
    open.create_snapshot("s").await.expect("made");
    trash::put(&io, "two", Duration::ZERO).await.expect("put");
    let (kept, mut told) = (trash::purge(&io, UTime::now(), |_, _| {}).await, Vec::new());
    assert!(matches!(kept, Err(Error::Kept { count: 1, .. })), "{kept:?}");
    open.remove_snapshot("s").await.expect("removed");
    open.close().await.expect("closes");
    trash::purge(&io, UTime::now(), |n, of| told.push((n, of))).await.expect("purged");
    assert_eq!(told, [(1, 1)]);
    assert!(trash::list(&io).await.expect("a list").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_with_trash_stays() {
    let (_server, io) = place().await;
    namespaces::create(&io, "ns").await.expect("made");
    let inside = io.with_namespace("ns");
    let id = made(&inside, "one").await;
    trash::put(&inside, "one", Duration::ZERO).await.expect("put");
    assert!(matches!(namespaces::remove(&io, "ns").await, Err(Error::NamespaceBusy(_))));
    trash::remove(&inside, &id, false, |_, _| {}).await.expect("removed");
    namespaces::remove(&io, "ns").await.expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_in_the_middle_goes_on() {
    let (_server, io) = place().await;
    for polls in (1..=POLLS_MAX).step_by(3) {
        let id = made(&io, "one").await;
        let mut ended = ends_within(polls, trash::put(&io, "one", Duration::ZERO)).await;
        if !ended {
            match trash::put(&io, "one", Duration::ZERO).await {
                // The last step was complete.
                Ok(()) | Err(Error::NoImage(_)) => {}
                put => panic!("{polls} polls: {put:?}"),
            }
        }
        assert!(loligo_rbd::list(&io).await.expect("a list").is_empty(), "{polls} polls");
        ended &= ends_within(polls, trash::restore(&io, &id, None)).await;
        match trash::restore(&io, &id, None).await {
            Ok(()) => {}
            Err(Error::NotInTrash(_)) => {}
            restored => panic!("{polls} polls: {restored:?}"),
        }
        says(&io, "one", "one").await;
        trash::put(&io, "one", Duration::ZERO).await.expect("put");
        ended &= ends_within(polls, trash::remove(&io, &id, false, |_, _| {})).await;
        let mut removed = trash::remove(&io, &id, false, |_, _| {}).await;
        // The dropped operation closes the image in the background.
        while matches!(removed, Err(Error::InUse)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            removed = trash::remove(&io, &id, false, |_, _| {}).await;
        }
        assert!(matches!(removed, Ok(()) | Err(Error::NotInTrash(_))), "{polls} polls: {removed:?}");
        assert!(trash::list(&io).await.expect("a list").is_empty());
        if ended {
            return;
        }
    }
    panic!("something that does not end");
}
