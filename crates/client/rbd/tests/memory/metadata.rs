//! Goal: a copy of an image gets users' metadata, and not librbd's own. Method: keys on both sides of
//! the border; each kind of copy.

use loligo_rbd::{Ancestry, Image, Mode, Name, NewClone, NewCopy, clone, features};

use crate::{place, small};

#[tokio::test(flavor = "multi_thread")]
async fn copies_get_the_keys_of_users_only() {
    let (_server, io) = place().await;
    loligo_rbd::create(&io, "a", small(features::DEFAULT, None)).await.expect("made");
    let image = Image::open(&io, "a", Mode::ReadWrite).await.expect("opens");
    let all = [".librbd/x", ".rb", ".rbd", ".rbd_x", ".rbdfoo", "plain", "rbd_y"];
    for key in all {
        image.set_metadata(key, "value".into()).await.expect("set");
    }
    // The keys that stock (16.2.15) copies.
    let copied = [".librbd/x", ".rb", "plain", "rbd_y"];
    image.create_snapshot("s").await.expect("made");
    image.protect_snapshot("s").await.expect("protected");
    clone(&io, "a", "s", &io, "clone", NewClone::default()).await.expect("cloned");
    image.copy(&io, "copy", NewCopy::default(), |_, _| {}).await.expect("copied");
    image.deep_copy(&io, "deep", NewCopy::default(), Ancestry::Kept, |_, _| {}).await.expect("copied");
    let child = Image::open(&io, "clone", Mode::ReadOnly).await.expect("opens");
    child.deep_copy(&io, "deep clone", NewCopy::default(), Ancestry::Kept, |_, _| {}).await.expect("copied");
    for name in ["clone", "copy", "deep", "deep clone"] {
        let copy = Image::open(&io, name, Mode::ReadOnly).await.expect("opens");
        let keys: Vec<Name> = copy.metadata().await.expect("pairs").into_keys().collect();
        assert_eq!(keys, copied, "{name}");
    }
    let keys: Vec<Name> = image.metadata().await.expect("pairs").into_keys().collect();
    assert_eq!(keys, all);
}
