//! Goal: all differences are reported: applied to a copy of one state they yield the other, whatever
//! happened in between, and ranges reported as zeros are zeros. Method: random I/O with snapshots, on
//! images and clones; all pairs of states.

use std::collections::BTreeMap;

use futures_util::TryStreamExt as _;
use loligo_rados::IoCtx;
use loligo_rbd::diff::{Change, Grain};
use loligo_rbd::{CloneFormat, Error, Image, Mode, Name, NewClone, Shrink, features};
use loligo_wire::rbd::feature;

use crate::{place, random_changes, small};

async fn changes(image: &Image, from: Option<&str>, grain: Grain) -> Vec<Change> {
    let changes = image.diff(from.map(Name::from).as_ref(), grain).await.expect("a diff");
    changes.try_collect().await.expect("a diff")
}

/// Checks every pair of states, by bytes and by objects.
async fn all_pairs(io: &IoCtx, name: &str, head: &[u8], snaps: &BTreeMap<String, Vec<u8>>) {
    let image = Image::open(io, name, Mode::ReadOnly).await.expect("opens");
    let view = image.view();
    let order: Vec<&str> =
        view.snapshots.iter().map(|snap| snap.info.name.as_text().expect("text")).collect();
    for to in 0..=order.len() {
        let (at, after) = match order.get(to) {
            Some(snap) => (Image::open_snapshot(io, name, snap).await.expect("opens"), &snaps[*snap][..]),
            None => (Image::open(io, name, Mode::ReadOnly).await.expect("opens"), head),
        };
        for from in std::iter::once(None).chain(order[..to.min(order.len())].iter().copied().map(Some)) {
            for grain in [Grain::Bytes, Grain::Objects] {
                let told = changes(&at, from, grain).await;
                let mut copy = from.map_or_else(Vec::new, |from| snaps[from].clone());
                copy.resize(after.len(), 0);
                let mut end = 0;
                for Change { offset, len, exists } in told {
                    assert!(offset >= end && len > 0, "{name}: {from:?}: in order");
                    end = offset + len;
                    let range = offset as usize..end as usize;
                    assert!(exists || after[range.clone()].iter().all(|byte| *byte == 0), "{name}: {from:?}");
                    assert!(exists || from.is_some(), "nothing has no zeros");
                    copy[range.clone()].copy_from_slice(&after[range]);
                }
                let same = copy == after;
                let to = order.get(to);
                assert!(same, "{name}: from {from:?} to {to:?} {grain:?} all is told");
            }
        }
    }
    assert!(image.usage().await.expect("asked").len() == order.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_differences_a_copy_becomes_the_next() {
    let (_server, io) = place().await;
    let kinds = [
        (feature::LAYERING, None),
        (features::DEFAULT, None),
        (features::DEFAULT & !feature::FAST_DIFF, Some((8 << 10, 4))),
    ];
    for (seed, (features, striping)) in kinds.into_iter().enumerate() {
        let (name, clone) = (format!("image{seed}"), format!("clone{seed}"));
        loligo_rbd::create(&io, &name, small(features, striping)).await.expect("made");
        let image = Image::open(&io, &name, Mode::ReadWrite).await.expect("opens");
        let mut model = vec![0; 1 << 20];
        let snaps = random_changes(&image, &mut model, 100 + seed as u64).await;
        check_all_but_usage(&image, &model).await;
        all_pairs(&io, &name, &model, &snaps).await;
        image.create_snapshot("base").await.expect("made");
        image.close().await.expect("closes");
        let new = NewClone {
            order: Some(17 - seed as u8),
            striping: Some((4 << 10, 3)).filter(|_| seed == 1),
            format: CloneFormat::Second,
            ..NewClone::default()
        };
        let new =
            if seed == 2 { NewClone { striping: Some((4 << 10, 1)), order: Some(15), ..new } } else { new };
        loligo_rbd::clone(&io, &name, "base", &io, &clone, new).await.expect("cloned");
        let image = Image::open(&io, &clone, Mode::ReadWrite).await.expect("opens");
        let snaps = random_changes(&image, &mut model, 200 + seed as u64).await;
        check_all_but_usage(&image, &model).await;
        all_pairs(&io, &clone, &model, &snaps).await;
        image.close().await.expect("closes");
    }
}

async fn check_all_but_usage(image: &Image, model: &[u8]) {
    assert!(image.read(0, 4 << 20).await.expect("read") == model);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_was_written_to_differs() {
    let (_server, io) = place().await;
    for features in [feature::LAYERING, features::DEFAULT] {
        let name = format!("image{features}");
        loligo_rbd::create(&io, &name, small(features, None)).await.expect("made");
        let image = Image::open(&io, &name, Mode::ReadWrite).await.expect("opens");
        let change = |offset, len, exists| Change { offset, len, exists };
        assert_eq!(changes(&image, None, Grain::Bytes).await, []);
        image.write(0, vec![1; 200 << 10].into()).await.expect("written");
        image.create_snapshot("a").await.expect("made");
        assert_eq!(changes(&image, Some("a"), Grain::Bytes).await, []);
        image.write(70_000, vec![2; 4096].into()).await.expect("written");
        image.discard(128 << 10, 64 << 10).await.expect("discarded");
        let all = changes(&image, Some("a"), Grain::Bytes).await;
        assert_eq!(all, [change(70_000, 4096, true), change(128 << 10, 64 << 10, false)]);
        let whole = changes(&image, Some("a"), Grain::Objects).await;
        assert_eq!(whole, [change(64 << 10, 64 << 10, true), change(128 << 10, 64 << 10, false)]);
        // Data removed by a shrink is gone, even if the image has grown again.
        image.create_snapshot("b").await.expect("made");
        image.resize(64 << 10, Shrink::Allowed).await.expect("resized");
        image.create_snapshot("c").await.expect("made");
        image.resize(1 << 20, Shrink::Refused).await.expect("resized");
        let gone = changes(&image, Some("a"), Grain::Objects).await;
        assert_eq!(
            gone.iter().map(|change| (change.offset, change.exists)).collect::<Vec<_>>()[0],
            (64 << 10, false)
        );
        let used: Vec<u64> = image.usage().await.expect("asked").iter().map(|usage| usage.used).collect();
        assert_eq!(used, [256 << 10, 64 << 10, 0, 0]);
        assert!(matches!(
            image.diff(Some(&"none".into()), Grain::Bytes).await.err(),
            Some(Error::NoSnapshot(_))
        ));
        let at = Image::open_snapshot(&io, &name, "a").await.expect("opens");
        assert!(matches!(at.diff(Some(&"b".into()), Grain::Bytes).await.err(), Some(Error::LaterSnapshot)));
        assert_eq!(changes(&at, Some("a"), Grain::Objects).await, []);
        image.close().await.expect("closes");
    }
}
