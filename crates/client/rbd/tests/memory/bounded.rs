//! Goal: an I/O over very many objects has a bounded number of requests in flight, and I/O on other
//! images proceeds. Method: images with objects of 4 KiB; the client's count of operations in flight is
//! polled, also while the cluster is paused, so that none is answered, and while another image of the
//! same client is written.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::Rados;
use loligo_rbd::{Image, Mode, NewImage};
use loligo_wire::rbd::feature;

use crate::place;

/// The bounds for one I/O, and for an image, without the one request of each I/O (`src/io/room.rs`).
const OF_ONE: u64 = 64;
const OF_IMAGE: u64 = 128;

/// The most other requests of the client: its watches, and those of the other image.
const OTHERS: u64 = 6;

/// Returns the most operations in flight while `io` is polled, until it or `until` completes, and
/// whether `io` completed.
async fn most<T>(rados: &Rados, io: impl Future<Output = T>, until: impl Future<Output = ()>) -> (u64, bool) {
    let (mut io, mut until, mut most) = (pin!(io), pin!(until), 0);
    poll_fn(|cx| {
        if until.as_mut().poll(cx).is_ready() {
            return Poll::Ready((most, false));
        }
        if io.as_mut().poll(cx).is_ready() {
            return Poll::Ready((most, true));
        }
        most = most.max(rados.in_flight().0);
        // Polled again at once: the numbers between the polls count too.
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

/// Returns the most operations in flight while `io` is polled and nothing is answered, once there are
/// `expected` ones.
async fn most_unanswered<T>(rados: &Rados, io: impl Future<Output = T>, expected: u64) -> u64 {
    pause(rados, "osd set").await;
    let polls = async {
        while rados.in_flight().0 < expected {
            tokio::task::yield_now().await;
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
    };
    let counted = tokio::time::timeout(Duration::from_secs(60), most(rados, io, polls)).await;
    let (most, ended) = counted.expect("requests in flight");
    assert!(!ended, "nothing is answered");
    pause(rados, "osd unset").await;
    most
}

async fn pause(rados: &Rados, prefix: &str) {
    let command = format!(r#"{{"prefix": "{prefix}", "key": "pause"}}"#);
    rados.mon_command(&command, Bytes::new()).await.expect("set");
    rados.wait_for_latest_osdmap().await.expect("a map");
}

async fn opened(io: &loligo_rados::IoCtx, name: &str, size: u64, features: u64) -> Image {
    let new = NewImage { order: 12, features, ..NewImage::of_size(size) };
    loligo_rbd::create(io, name, new).await.expect("made");
    Image::open(io, name, Mode::ReadWrite).await.expect("opens")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_discard_of_many_objects_leaves_room_for_others() {
    let (_server, io) = place().await;
    let large = opened(&io, "large", 1 << 30, feature::LAYERING).await;
    let other = opened(&io, "other", 1 << 20, feature::LAYERING).await;
    let writes = async {
        for n in 0..200u64 {
            other.write(n * 5000, vec![1; 100].into()).await.expect("written");
        }
    };
    large.write(0, vec![1; 100].into()).await.expect("written, and its header is read");
    // Dropped long before its end: it has 262,144 requests.
    let mut discard = pin!(large.discard(0, 1 << 30));
    let unanswered = most_unanswered(io.rados(), discard.as_mut(), OF_ONE).await;
    assert!(unanswered <= OF_ONE + OTHERS, "{unanswered}");
    let (most, _) = most(io.rados(), discard, writes).await;
    assert!(most <= OF_ONE + OTHERS, "{most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn io_to_many_objects_is_bounded() {
    let (_server, io) = place().await;
    let len = 4u64 << 20;
    for features in [feature::LAYERING, loligo_rbd::features::DEFAULT] {
        let image = opened(&io, &format!("image{features}"), 4 * len, features).await;
        let data: Vec<u8> = (0..len).map(|n| (n / 4096) as u8 | 1).collect();
        let rados = io.rados();
        let never = std::future::pending::<()>;
        let written = most(rados, image.write(100, data.clone().into()), never()).await;
        let repeated = most(rados, image.write_same(2 * len, len, vec![7; 4096].into()), never()).await;
        let read = most(rados, image.read(100, len), never()).await;
        assert_eq!(image.read(100, len).await.expect("read"), data);
        assert_eq!(image.read(2 * len, len).await.expect("read"), vec![7; len as usize]);
        let mut three = Box::pin(join_all((0..3).map(|n| image.read(n * 100, len))));
        let unanswered = most_unanswered(rados, three.as_mut(), OF_IMAGE).await;
        assert!(unanswered <= OF_IMAGE + 3 + OTHERS, "{unanswered}");
        let (reads, ended) = most(rados, three, never()).await;
        assert!(ended && reads <= OF_IMAGE + 3 + OTHERS, "{reads}");
        let discarded = most(rados, image.discard(0, 3 * len), never()).await;
        assert_eq!(image.read(0, 4 * len).await.expect("read"), vec![0; 4 * len as usize]);
        for (what, (most, ended)) in
            [("write", written), ("write same", repeated), ("read", read), ("discard", discarded)]
        {
            assert!(ended && most <= OF_ONE + OTHERS, "{what}: {most}");
        }
        image.close().await.expect("closes");
    }
}
