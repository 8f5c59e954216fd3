//! Goal: a change of a whole image can be stopped at each of its reports. Method: changes are polled by
//! hand, with a callback so slow that the replies of all next steps arrive while it runs; each poll must
//! end after one report, before the change does.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use loligo_rbd::{
    Ancestry, Error, Image, Mode, NewClone, NewCopy, NewImage, Shrink, features, migration, trash,
};

use crate::place;

/// Returns the number of reports of a change that is given what to report to.
async fn reports<F: Future<Output = Result<(), Error>>>(
    change: impl FnOnce(Box<dyn FnMut(u64, u64)>) -> F,
) -> usize {
    let count = Rc::new(Cell::new(0));
    let counted = Rc::clone(&count);
    let mut change = pin!(change(Box::new(move |_, _| {
        counted.set(counted.get() + 1);
        std::thread::sleep(Duration::from_millis(2));
    })));
    std::future::poll_fn(|context| {
        let before = count.get();
        let polled = change.as_mut().poll(context);
        let reported = count.get() - before;
        assert!(reported == 0 || (reported == 1 && polled.is_pending()), "{reported} reports, {polled:?}");
        polled
    })
    .await
    .expect("it ends well");
    count.get()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_can_be_stopped_at_each_report() {
    let (_server, io) = place().await;
    let new = NewImage { order: 16, features: features::DEFAULT, ..NewImage::of_size(1 << 20) };
    loligo_rbd::create(&io, "disk", new).await.expect("made");
    let image = Image::open(&io, "disk", Mode::ReadWrite).await.expect("opens");
    image.write(0, vec![7; 1 << 20].into()).await.expect("written");
    image.create_snapshot("s").await.expect("made");
    image.protect_snapshot("s").await.expect("protected");

    assert_eq!(reports(|tell| image.roll_back("s", tell)).await, 16);
    assert_eq!(reports(|tell| image.sparsify(4096, tell)).await, 16);
    assert!(reports(|tell| image.rebuild_object_map(tell)).await >= 16);
    let shrunk = reports(|tell| image.resize_telling(1 << 19, Shrink::Allowed, tell)).await;
    assert_eq!(shrunk, 8);
    image.resize(1 << 20, Shrink::Refused).await.expect("grown");
    let options = NewCopy::default;
    assert!(reports(|tell| image.copy(&io, "copy", options(), tell)).await > 0);
    let deep = reports(|tell| image.deep_copy(&io, "deep", options(), Ancestry::Kept, tell)).await;
    assert!(deep > 0);

    loligo_rbd::clone(&io, "disk", "s", &io, "child", NewClone::default()).await.expect("cloned");
    let child = Image::open(&io, "child", Mode::ReadWrite).await.expect("opens");
    assert_eq!(reports(|tell| child.flatten(tell)).await, 16);
    child.close().await.expect("closes");
    image.close().await.expect("closes");

    migration::prepare(&io, "child", &io, "moved", options(), Ancestry::Kept).await.expect("prepared");
    assert!(reports(|tell| migration::execute(&io, "moved", tell)).await > 0);
    assert!(reports(|tell| migration::commit(&io, "moved", tell)).await > 0);
    assert_eq!(reports(|tell| loligo_rbd::remove(&io, "moved", tell)).await, 16);
    trash::put(&io, "copy", Duration::ZERO).await.expect("put");
    let id = trash::list(&io).await.expect("a list")[0].id.clone();
    assert!(reports(|tell| trash::remove(&io, &id, false, tell)).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stopped_can_be_repeated_at_once() {
    let (_server, io) = place().await;
    for _ in 0..20 {
        let new = NewImage { order: 16, features: features::DEFAULT, ..NewImage::of_size(1 << 20) };
        loligo_rbd::create(&io, "disk", new).await.expect("made");
        let image = Image::open(&io, "disk", Mode::ReadOnly).await.expect("opens");
        let header = format!("rbd_header.{}", image.id());
        image.close().await.expect("closes");
        let reported = Cell::new(false);
        let removal = loligo_rbd::remove(&io, "disk", |_, _| reported.set(true));
        assert!(loligo_rbd::stoppable(removal, || reported.get()).await.is_none());
        assert!(io.watchers(header).await.expect("a list").is_empty());
        loligo_rbd::remove(&io, "disk", |_, _| {}).await.expect("nobody has it open");
    }
}
