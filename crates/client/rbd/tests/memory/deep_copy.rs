//! Goal: a deep copy has the data of each snapshot, for any layout; the copy of a clone is a clone, or
//! is flattened. Method: random I/O on images and clones, which are then copied.

use std::collections::BTreeMap;

use loligo_rados::IoCtx;
use loligo_rbd::{Ancestry, CloneFormat, Error, Image, Mode, Name, NewClone, NewCopy, clone, features};
use loligo_wire::rbd::feature;

use crate::{check_all, place, random_io, small};

async fn opened(io: &IoCtx, name: &str) -> Image {
    Image::open(io, name, Mode::ReadWrite).await.expect("opens")
}

/// Checks that the copy has the same states, and removes it. Returns whether it is a clone.
async fn check_copy(io: &IoCtx, model: &[u8], snaps: &BTreeMap<String, Vec<u8>>) -> bool {
    let copy = opened(io, "copy").await;
    check_all(io, &copy, model, snaps).await;
    let text = |name: &Name| name.as_text().expect("text").to_owned();
    let names: Vec<String> = copy.view().snapshots.iter().map(|snap| text(&snap.info.name)).collect();
    assert_eq!(names.len(), snaps.len());
    let is_clone = copy.parent().await.expect("a header").is_some();
    for name in names {
        copy.remove_snapshot(&name).await.expect("removed");
    }
    copy.close().await.expect("closes");
    loligo_rbd::remove(io, "copy", |_, _| {}).await.expect("removed");
    is_clone
}

#[tokio::test(flavor = "multi_thread")]
async fn deep_copies_have_all_states() {
    let (_server, io) = place().await;
    let kinds = [
        (features::DEFAULT, None, NewCopy::default()),
        (
            feature::LAYERING,
            Some((8 << 10, 4)),
            NewCopy {
                order: Some(14),
                striping: Some((4 << 10, 3)),
                features: Some(features::DEFAULT),
                ..NewCopy::default()
            },
        ),
    ];
    for (seed, (features, striping, new)) in kinds.into_iter().enumerate() {
        let seed = 400 + 10 * seed as u64;
        loligo_rbd::create(&io, "a", small(features, striping)).await.expect("made");
        let (model, snaps) = random_io(&io, opened(&io, "a").await, vec![0; 1 << 20], seed).await;
        let image = opened(&io, "a").await;
        image.set_metadata("key", "value".into()).await.expect("set");
        let deep = image.deep_copy(&io, "copy", new.clone(), Ancestry::Kept, |_, _| {});
        deep.await.expect("copied");
        assert_eq!(opened(&io, "copy").await.metadata().await.expect("pairs")[&b"key"[..]], "value");
        assert!(!check_copy(&io, &model, &snaps).await);
        image.create_snapshot("base").await.expect("made");
        let new_clone = NewClone { format: CloneFormat::Second, ..NewClone::default() };
        clone(&io, "a", "base", &io, "b", new_clone).await.expect("cloned");
        let (model, snaps) = random_io(&io, opened(&io, "b").await, model, seed + 1).await;
        let child = opened(&io, "b").await;
        for ancestry in [Ancestry::Kept, Ancestry::Flattened] {
            child.deep_copy(&io, "copy", new.clone(), ancestry, |_, _| {}).await.expect("copied");
            let is_clone = check_copy(&io, &model, &snaps).await;
            assert_eq!(is_clone, ancestry == Ancestry::Kept && child.parent().await.expect("one").is_some());
        }
        // A copy of a snapshot has the snapshots up to it.
        let (name, then) = snaps.iter().next_back().expect("a snapshot");
        let at = Image::open_snapshot(&io, "b", name).await.expect("opens");
        let id = at.view().snapshot(name).expect("it").info.id;
        at.deep_copy(&io, "copy", new.clone(), Ancestry::Kept, |_, _| {}).await.expect("copied");
        let older = at.view().snapshots.iter().filter(|snap| snap.info.id <= id).count();
        assert_eq!(opened(&io, "copy").await.view().snapshots.len(), older);
        let until = snaps.iter().filter(|(name, _)| at.view().snapshot(name).expect("it").info.id <= id);
        let until = until.map(|(name, bytes)| (name.clone(), bytes.clone())).collect();
        check_copy(&io, then, &until).await;
        let again = child.deep_copy(&io, "a", new.clone(), Ancestry::Kept, |_, _| {}).await;
        assert!(matches!(again, Err(Error::ImageExists(_))));
        for image in [child, image] {
            for snap in &image.view().snapshots {
                image.remove_snapshot(&snap.info.name).await.expect("removed");
            }
            let name = image.name().to_owned();
            image.close().await.expect("closes");
            loligo_rbd::remove(&io, &name, |_, _| {}).await.expect("removed");
        }
    }
}
