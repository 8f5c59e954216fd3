//! Goal: written zeros use no space after sparsifying, and reads do not change. Method: objects are
//! counted; random I/O beside it is in `main.rs`.

use loligo_rados::IoCtx;
use loligo_rbd::{Error, Image, Mode, NewImage, features};
use loligo_wire::rbd::feature;

use crate::place;

/// Returns the size in bytes of each data object of the image.
async fn objects(io: &IoCtx, image: &Image) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    for number in 0..image.layout().object_count(image.size()) {
        match io.stat(format!("{}.{number:016x}", image.block_name_prefix())).await {
            Ok(stat) => found.push((number, stat.size)),
            Err(e) => assert_eq!(e.errno(), loligo_rados::Errno::ENOENT),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn zeros_take_no_room() {
    let (_server, io) = place().await;
    for features in [features::DEFAULT, feature::LAYERING] {
        let new = NewImage { order: 16, features, ..NewImage::of_size(1 << 20) };
        loligo_rbd::create(&io, "disk", new).await.expect("made");
        let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
        let mut bytes = vec![0; 1 << 20];
        bytes[(3 << 16) + 5000] = 1;
        image.write(0, bytes.clone().into()).await.expect("written");
        assert_eq!(objects(&io, &image).await.len(), 16);
        for block_bytes in [0, 2048, 5000, 128 << 10] {
            let done = image.sparsify(block_bytes, |_, _| {}).await;
            assert!(matches!(done, Err(Error::Block { .. })), "{block_bytes}");
        }
        let mut told = (0, 0);
        image.sparsify(4096, |done, all| told = (done, all)).await.expect("given back");
        assert_eq!(told, (16, 16));
        assert_eq!(objects(&io, &image).await, [(3, 8192)]);
        assert!(image.read(0, 1 << 20).await.expect("read") == bytes);
        if features & feature::OBJECT_MAP != 0 {
            assert_eq!(image.check_object_map().await.expect("a map"), Vec::<u64>::new());
            assert_eq!(image.usage().await.expect("a map")[0].used, 1 << 16);
        }
        // Only the image's head loses its zeros, not the snapshot.
        image.write(0, vec![2; 4096].into()).await.expect("written");
        image.create_snapshot("s").await.expect("made");
        image.write(0, vec![0; 4096].into()).await.expect("written");
        image.sparsify(1 << 16, |_, _| {}).await.expect("given back");
        assert_eq!(objects(&io, &image).await, [(3, 8192)]);
        let at = Image::open_snapshot(&io, "disk", "s").await.expect("opens");
        assert!(at.read(0, 4096).await.expect("read") == vec![2; 4096]);
        assert!(matches!(at.sparsify(4096, |_, _| {}).await, Err(Error::ReadOnly)));
        image.remove_snapshot("s").await.expect("removed");
        image.close().await.expect("closes");
        loligo_rbd::remove(&io, "disk", |_, _| {}).await.expect("removed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_as_many_as_may_be() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "disk", NewImage::of_size(1 << 20)).await.expect("made");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    image.limit_snapshots(Some(1)).await.expect("limited");
    image.create_snapshot("a").await.expect("made");
    let refused = image.create_snapshot("b").await.expect_err("one is enough");
    assert_eq!(refused.errno(), loligo_rados::Errno::EDQUOT);
    let refused = image.limit_snapshots(Some(0)).await.expect_err("there is one");
    assert_eq!(refused.errno(), loligo_rados::Errno::ERANGE);
    image.limit_snapshots(None).await.expect("not limited");
    image.create_snapshot("b").await.expect("made");
    image.close().await.expect("closes");
}
