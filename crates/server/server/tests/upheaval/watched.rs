//! Watches through broken connections and a restarted server, and their end.

use std::time::Duration;

use bytes::Bytes;
use loligo_msgr::testing::FaultProxy;
use loligo_rados::{Errno, IoCtx, Watch, WatchNews};
use loligo_server::Server;
use loligo_wire::EntityType;

use crate::common::{Scratch, builder, connect, soon};

/// Sends a notification, which the watch answers with its payload. Returns the other notifications that
/// the watch received, with `None` where some may have been missed.
async fn pass(pool: &IoCtx, watch: &mut Watch, payload: &str) -> Vec<Option<Bytes>> {
    let notify = pool.notify("o", Bytes::from(payload.to_owned()), Duration::from_secs(20));
    tokio::pin!(notify);
    let (mut heard_it, mut others) = (false, Vec::new());
    let exchange = async {
        loop {
            // The connection may break after all have answered; then the notification is delivered once
            // more.
            tokio::select! {
                notified = &mut notify => return notified,
                news = watch.next() => match news.expect("the watch is there") {
                    WatchNews::Missed => others.push(None),
                    WatchNews::Notified(heard) if heard.payload == payload => {
                        heard_it = true;
                        let answer = heard.payload.clone();
                        heard.answer(answer);
                    }
                    WatchNews::Notified(heard) => others.push(Some(heard.payload.clone())),
                },
            }
        }
    };
    let notified = soon("answers", exchange).await.expect("notified");
    assert!(heard_it && notified.missing.is_empty(), "{heard_it} {notified:?}");
    let answers: Vec<_> = notified.answers.into_iter().collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert_eq!((answers[0].0.cookie, &answers[0].1[..]), (watch.cookie(), payload.as_bytes()));
    others
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_outlive_broken_connections() {
    let server = Server::memory().pool("data").start().expect("the server starts");
    let mon = FaultProxy::start(server.mon_addr(), 1, u64::MAX, 0).expect("a proxy");
    let osd = FaultProxy::start(server.osd_addr(), 2, u64::MAX, 0).expect("a proxy");
    let (to_mon, to_osd) = (mon.addr(), osd.addr());
    let through = move |kind, _| if kind == EntityType::MON { to_mon } else { to_osd };
    let rados = builder(server.conf()).reroute(through).connect().await.expect("connects");
    let pool = rados.ioctx("data").await.expect("the pool");
    let (_direct, direct) = connect(server.conf()).await;
    direct.create("o", false).await.expect("made");
    let mut watch = pool.watch("o", Duration::ZERO).await.expect("watched");
    assert_eq!(pass(&direct, &mut watch, "first").await, []);
    for n in 0..5 {
        let connections = osd.connections();
        osd.reset_all();
        // The object keeps its watchers: notifications sent meanwhile reach them after they have
        // reconnected.
        assert_eq!(pass(&direct, &mut watch, &format!("n{n}")).await, [], "after reset {n}");
        let again = async {
            // A connection in progress cannot be reset yet.
            while osd.connections() == connections {
                osd.reset_all();
                tokio::task::yield_now().await;
            }
        };
        soon("a connection", again).await;
    }
    let watchers = direct.watchers("o").await.expect("listed");
    assert_eq!(watchers.iter().map(|w| w.cookie).collect::<Vec<_>>(), [watch.cookie()]);
    soon("the end", watch.unwatch()).await.expect("told");
    assert!(direct.watchers("o").await.expect("listed").is_empty());
    assert_eq!(direct.notify("o", Bytes::new(), Duration::ZERO).await.expect("nobody").answers.len(), 0);
    // A dropped watch ends too.
    drop(pool.watch("o", Duration::ZERO).await.expect("watched"));
    let gone = async {
        while !direct.watchers("o").await.expect("listed").is_empty() {
            tokio::task::yield_now().await;
        }
    };
    soon("no watchers", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_outlive_a_restart() {
    let scratch = Scratch::new("watched");
    let start = || Server::disk(&scratch.0).pool("data").start().expect("the server starts");
    let server = start();
    let (_rados, pool) = connect(server.conf()).await;
    let (_other, other) = connect(server.conf()).await;
    pool.create("o", false).await.expect("made");
    let mut watch = pool.watch("o", Duration::from_secs(30)).await.expect("watched");
    assert_eq!(pass(&other, &mut watch, "before").await, []);
    drop(server);
    let server = start();
    // The watch is stored in the object's metadata: no notification was missed.
    assert_eq!(pass(&other, &mut watch, "after").await, []);
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_end_with_their_object_and_on_the_blocklist() {
    let server = Server::memory().pool("data").start().expect("the server starts");
    let (_rados, pool) = connect(server.conf()).await;
    let (admin, other) = connect(server.conf()).await;
    assert_eq!(pool.watch("none", Duration::ZERO).await.expect_err("no object").errno(), Errno::ENOENT);
    assert_eq!(
        pool.notify("none", Bytes::new(), Duration::ZERO).await.expect_err("no object").errno(),
        Errno::ENOENT
    );
    other.create("o", false).await.expect("made");
    let mut watch = pool.watch("o", Duration::ZERO).await.expect("watched");
    other.remove("o").await.expect("removed");
    assert_eq!(soon("the end", watch.next()).await.expect_err("ended").errno(), Errno::ENOENT);
    assert_eq!(soon("again", watch.next()).await.expect_err("ended").errno(), Errno::ENOTCONN);

    other.create("o", false).await.expect("made");
    let mut watch = pool.watch("o", Duration::ZERO).await.expect("watched");
    let addr = other.watchers("o").await.expect("listed")[0].addr;
    let (sock, nonce) = (addr.sock.expect("an address"), addr.nonce);
    let command = format!(r#"{{"prefix": "osd blocklist", "blocklistop": "add", "addr": "{sock}/{nonce}"}}"#);
    admin.mon_command(&command, Bytes::new()).await.expect("listed");
    assert_eq!(soon("the end", watch.next()).await.expect_err("ended").errno(), Errno::EBLOCKLISTED);
}
