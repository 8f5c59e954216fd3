//! The client with managers that fail over or stop replying.
//!
//! Goal: the active manager, whichever it is, replies to a command, and each one learns of a service's
//! daemon. Method: a fake monitor and fake managers (`fake/mgr.rs`) over loopback.

mod fake;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use loligo_rados::{Builder, Errno, Error, Rados};
use loligo_wire::message::mgr::{MMgrClose, MMgrReport};

use fake::mgr::{Heard, Mgr};
use fake::{Fake, until};

/// Returns a client configuration with a short interval between two attempts to connect.
fn eager(fake: &Fake) -> Builder {
    let text = format!(
        "[global]\nmon host = v2:{}\nauth client required = none\nmgr connect retry interval = 0.01\n\
         rados mon op timeout = 20\n",
        fake.mon_addr()
    );
    let conf = loligo_rados::Conf::parse(&text, loligo_wire::EntityName::client("admin"), Default::default());
    Builder::new().conf(conf.expect("a conf"))
}

async fn ask(rados: &Rados, command: &str) -> String {
    let (output, status) = rados.mgr_command(command, Bytes::new()).await.expect("answered");
    assert_eq!(status, "done");
    String::from_utf8(output.to_vec()).expect("a name")
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_go_to_whoever_is_active() {
    let fake = Fake::start(1, 1).await;
    let (x, y) = (Mgr::start("x", 1).await, Mgr::start("y", 2).await);
    let rados = eager(&fake).connect().await.expect("connects");
    let early = tokio::spawn({
        let rados = rados.clone();
        async move { ask(&rados, "early").await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!early.is_finished(), "there is no manager");
    fake.set_active_mgr(Some(&x));
    assert_eq!(early.await.expect("asked"), "x");
    assert_eq!(ask(&rados, "second").await, "x");
    fake.set_active_mgr(Some(&y));
    // The map may arrive after a command was sent.
    let moved = async { while ask(&rados, "third").await != "y" {} };
    tokio::time::timeout(Duration::from_secs(30), moved).await.expect("y is asked");
    assert_eq!(ask(&rados, "fourth").await, "y");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_survives_its_session() {
    let fake = Fake::start(1, 1).await;
    let (x, y) = (Mgr::start("x", 1).await, Mgr::start("y", 2).await);
    let rados = eager(&fake).connect().await.expect("connects");
    fake.set_active_mgr(Some(&x));
    x.keep_still(true);
    let asked = tokio::spawn({
        let rados = rados.clone();
        async move { ask(&rados, "patience").await }
    });
    let times =
        |mgr: &Mgr| mgr.heard().iter().filter(|heard| **heard == Heard::Command("patience".into())).count();
    until("it is sent", || times(&x) == 1).await;
    x.reset_connections();
    until("it is sent again", || times(&x) == 2).await;
    fake.set_active_mgr(None);
    fake.set_active_mgr(Some(&y));
    assert_eq!(asked.await.expect("asked"), "y");
    assert_eq!((times(&x), times(&y)), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_is_told_what_is_for_it_alone() {
    let fake = Fake::start(1, 1).await;
    let (x, y) = (Mgr::start("x", 1).await, Mgr::start("y", 2).await);
    fake.set_active_mgr(Some(&x));
    let rados = eager(&fake).connect().await.expect("connects");
    let (output, _) = rados.tell_mgr(None, "whoever", Bytes::new()).await.expect("answered");
    assert_eq!(output, "x");
    let for_y = tokio::spawn({
        let rados = rados.clone();
        async move { rados.tell_mgr(Some("y"), "only you", Bytes::new()).await }
    });
    // Commands are ordered: the one for y would have been sent earlier.
    assert_eq!(ask(&rados, "all").await, "x");
    fake.set_active_mgr(Some(&y));
    assert_eq!(for_y.await.expect("asked").expect("answered").0, "y");
    assert_eq!(x.heard(), [Heard::Tell("whoever".into()), Heard::Command("all".into())]);
    assert_eq!(y.heard(), [Heard::Tell("only you".into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_in_vain_is_told() {
    let fake = Fake::start(1, 1).await;
    let x = Mgr::start("x", 1).await;
    x.keep_still(true);
    fake.set_active_mgr(Some(&x));
    let text = format!(
        "[global]\nmon host = v2:{}\nauth client required = none\nrados mon op timeout = 0.1\n",
        fake.mon_addr()
    );
    let conf = loligo_rados::Conf::parse(&text, loligo_wire::EntityName::client("admin"), Default::default());
    let rados = Builder::new().conf(conf.expect("a conf")).connect().await.expect("connects");
    let failed = rados.mgr_command("late", Bytes::new()).await.expect_err("nobody answers");
    assert_eq!(failed.errno(), Errno::ETIMEDOUT);

    let rados = eager(&fake).connect().await.expect("connects");
    let asked = tokio::spawn({
        let rados = rados.clone();
        async move { rados.mgr_command("ends", Bytes::new()).await }
    });
    until("it is sent", || x.heard().contains(&Heard::Command("ends".into()))).await;
    rados.shutdown().await;
    assert!(matches!(asked.await.expect("asked"), Err(Error::Shutdown)));
    assert!(matches!(rados.mgr_command("late", Bytes::new()).await, Err(Error::Shutdown)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_is_known_to_each_manager() {
    let fake = Fake::start(1, 1).await;
    let (x, y) = (Mgr::start("x", 1).await, Mgr::start("y", 2).await);
    fake.set_active_mgr(Some(&x));
    let rados = eager(&fake).connect().await.expect("connects");
    let pairs = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    assert_eq!(rados.update_service_status(pairs("a", "1")).expect_err("no service").errno(), Errno::ENOENT);
    assert_eq!(
        rados.register_service("osd", "0", BTreeMap::new()).expect_err("reserved").errno(),
        Errno::EINVAL
    );
    rados.register_service("art", "painter", pairs("colour", "blue")).expect("registered");
    assert_eq!(
        rados.register_service("art", "b", BTreeMap::new()).expect_err("again").errno(),
        Errno::EEXIST
    );
    let reported = |mgr: &Mgr, status: &BTreeMap<String, String>| {
        let report =
            MMgrReport { daemon: "painter".into(), service: "art".into(), status: Some(status.clone()) };
        mgr.heard().contains(&Heard::Report(report))
    };
    until("x is told", || reported(&x, &BTreeMap::new())).await;
    let Heard::Open(open) = &x.heard()[0] else { panic!("{:?}", x.heard()) };
    assert_eq!((&open.service[..], &open.daemon[..]), ("art", "painter"));
    assert_eq!(open.metadata.as_ref().expect("a service's")["colour"], "blue");
    rados.update_service_status(pairs("mood", "good")).expect("registered");
    until("x hears the status", || reported(&x, &pairs("mood", "good"))).await;
    fake.set_active_mgr(Some(&y));
    until("y hears it as well", || reported(&y, &pairs("mood", "good"))).await;
    assert!(matches!(y.heard()[0], Heard::Open(_)));
    rados.shutdown().await;
    let close = MMgrClose { daemon: "painter".into(), service: "art".into() };
    assert_eq!(y.heard().last(), Some(&Heard::Close(close)));
    assert!(!x.heard().iter().any(|heard| matches!(heard, Heard::Close(_))));
}
