//! The life of a mount: shut out and back again, what is given back, and what is counted.

use std::time::Duration;

use loligo_fs::{Errno, Error, FileSystem, OpenOptions};
use loligo_rados::Rados;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{
    ClientCapRelease, ClientMetric, ClientMetrics, ClientRequest, ClientSession, RequestOp, SessionOp,
};
use loligo_wire::{EntityAddr, Ino, UTime};

use crate::cluster::{Toy, ends, options, until};

/// Puts a client on the blocklist.
fn block(toy: &Toy, rados: &Rados) {
    let nonce = rados.cluster().nonce();
    let addr = EntityAddr::msgr2(([127, 0, 0, 1], 0).into()).with_nonce(nonce);
    toy.change_osd_map(|_, inc| {
        inc.new_blocklist.insert(addr, UTime { sec: u32::MAX, nsec: 0 });
    });
}

/// Goal: every call of a client that is shut out says so, and none waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_shut_out_says_so_in_every_call() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    let file = fs.open("f", OpenOptions::new().read().write().create()).await.expect("made");
    fs.create_dir("d", 0o755).await.expect("made");
    block(&toy, &rados);
    ends("the news", async {
        while fs.stat("d").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let failed = [
        ends("stat", fs.stat("d")).await.err(),
        ends("create", fs.create_dir("e", 0o755)).await.err(),
        ends("list", async { fs.read_dir("/").await?.all().await }).await.err(),
        ends("open", fs.open("f", OpenOptions::new().read())).await.err(),
        ends("read", file.read_at(0, 10)).await.err(),
        ends("write", file.write_at(0, "x")).await.err(),
        ends("truncate", file.truncate(5)).await.err(),
        ends("rename", fs.rename("d", "e")).await.err(),
    ];
    for (at, failed) in failed.into_iter().enumerate() {
        let failed = failed.unwrap_or_else(|| panic!("call {at} succeeds"));
        assert_eq!(failed.errno(), Errno::EBLOCKLISTED, "call {at}: {failed}");
        assert!(failed.to_string().contains("evicted this client"), "call {at}: {failed}");
    }
    let _ = ends("close", file.close()).await;
    let _ = ends("unmount", fs.unmount()).await;
}

/// Goal: a file that must be new is made with one request: the server looks whether the name is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_file_costs_one_request() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    let new = OpenOptions::new().write().create_new();
    for expected in [None, Some(Errno::EEXIST)] {
        toy.forget_heard();
        let made = ends("make", fs.open("f", new)).await;
        assert_eq!(made.err().map(|e| e.errno()), expected);
        let asked: Vec<RequestOp> =
            toy.heard::<ClientRequest>().into_iter().map(|(_, asked)| asked.op).collect();
        assert!(matches!(asked[..], [RequestOp::Create(_)]), "{asked:?}");
    }
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a mount that recovers goes on with a new identity; what had not reached the servers is reported
/// once, where it belongs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_that_recovers_goes_on_and_reports_what_is_lost() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = FileSystem::mount(&rados, options().recovers(true)).await.expect("mounted");
    let clean = fs.open("clean", OpenOptions::new().read().write().create()).await.expect("made");
    clean.sync().await.expect("durable");
    toy.tree(|tree| tree.is_unsafe = true);
    let dirty = fs.open("dirty", OpenOptions::new().read().write().create()).await.expect("made");
    toy.tree(|tree| tree.is_unsafe = false);
    toy.forget_heard();
    for round in 0..2 {
        let old = fs.rados().clone();
        block(&toy, &old);
        until("it is shut out", || old.is_blocklisted()).await;
        ends("a name", fs.create_dir(format!("d{round}"), 0o755)).await.expect("made");
        assert!(!fs.rados().is_blocklisted(), "round {round}");
    }
    assert!(rados.is_blocklisted());
    assert!(fs.stat("dirty").await.expect("there").is_file());
    let _ = ends("a new look at the open file", clean.stat()).await.expect("there");
    clean.sync().await.expect("nothing of it was lost");
    assert_eq!(dirty.close().await.expect_err("its making was not durable").errno(), Errno::EIO);
    let unmounted = ends("unmount", fs.unmount()).await;
    assert_eq!(unmounted.expect_err("nor was its name in the directory").errno(), Errno::EIO);
}

fn released(toy: &Toy) -> Vec<Ino> {
    let heard = toy.heard::<ClientCapRelease>();
    heard.iter().flat_map(|(_, said)| said.caps.iter().map(|cap| cap.ino)).collect()
}

/// Goal: a server that wants capabilities back gets those that were used longest ago, and no more than it
/// asks for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_used_longest_ago_goes_back_first() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    for at in 0..100 {
        fs.make_node(format!("f{at}"), 0o644, 0).await.expect("made");
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let mut used = Vec::new();
    for at in (0..100).step_by(5) {
        used.push(fs.stat(format!("f{at}")).await.expect("there").ino);
    }
    let recall = ClientSession { max_caps: 40, ..ClientSession::new(SessionOp::RecallState, 0) };
    toy.say(0, Msg::new(&recall));
    until("enough is given back", || released(&toy).len() >= 61).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let released = released(&toy);
    // A hundred files and the root are held; the root stays.
    assert_eq!(released.len(), 61);
    assert!(used.iter().all(|ino| !released.contains(ino)), "what was used last was given back");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a mount keeps no more inodes than it was told to, however many it lists.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_inodes_is_bounded() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let dir = toy.tree(|tree| {
        let dir = tree.make(Ino::ROOT, b"d", 0o040_755);
        for at in 0..5000 {
            tree.make(dir, format!("f{at}").as_bytes(), 0o100_644);
        }
        dir
    });
    let fs = FileSystem::mount(&rados, options().inodes_max(200)).await.expect("mounted");
    let mut listing = fs.read_dir("d").await.expect("a directory");
    let mut count = 0;
    while listing.next().await.expect("listed").is_some() {
        count += 1;
    }
    drop(listing);
    assert_eq!(count, 5000);
    until("they go back", || released(&toy).len() >= 4700).await;
    let held = || {
        last_metric(&toy, |metric| match metric {
            ClientMetric::OpenedInodes(of) => Some(of.total),
            _ => None,
        })
    };
    until("they are forgotten", || held().is_some_and(|total| total <= 220)).await;
    assert!(!released(&toy).contains(&dir) || fs.stat("d").await.is_ok());
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Returns a number of the last report.
fn last_metric(toy: &Toy, of: impl Fn(&ClientMetric) -> Option<u64>) -> Option<u64> {
    let heard = toy.heard::<ClientMetrics>();
    heard.last().and_then(|(_, said)| said.metrics.iter().find_map(of))
}

/// Goal: the metrics count what happened. Method: so many requests, so many looks that need none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_count_what_happened() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    let asked = toy.heard::<ClientSession>();
    let (_, open) = asked.iter().find(|(_, said)| said.op == SessionOp::RequestOpen).expect("a session");
    assert!((0..10).all(|kind| open.metric_spec.contains(kind)), "{:?}", open.metric_spec);
    let file = fs.open("f", OpenOptions::new().read().create().write()).await.expect("made");
    for _ in 0..50 {
        fs.stat("f").await.expect("there");
    }
    let requests = toy.tids_heard().len() as u64;
    let calls = || {
        last_metric(&toy, |metric| match metric {
            ClientMetric::MetadataLatency(latency) => latency.spread.map(|spread| spread.count),
            _ => None,
        })
    };
    until("a report", || calls() == Some(requests)).await;
    // The report with the last request may be from before the looks.
    let hits = || {
        last_metric(&toy, |metric| match metric {
            ClientMetric::CapInfo { hits, .. } => Some(*hits),
            _ => None,
        })
    };
    until("looks that asked nobody", || hits().is_some_and(|hits| hits >= 50)).await;
    let names = || {
        last_metric(&toy, |metric| match metric {
            ClientMetric::DentryLease { hits, .. } => Some(*hits),
            _ => None,
        })
    };
    until("names that nobody was asked for", || names().is_some_and(|hits| hits >= 50)).await;
    let open = || {
        last_metric(&toy, |metric| match metric {
            ClientMetric::OpenedFiles(of) => Some(of.part),
            _ => None,
        })
    };
    assert_eq!(open(), Some(1));
    file.close().await.expect("closed");
    until("the file is closed", || open() == Some(0)).await;
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: nothing but an answer keeps a call waiting at the end of a mount.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_in_flight_end_with_the_mount() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    toy.script(|heard| match heard.request() {
        Some(_) => crate::cluster::Verdict::Drop,
        None => crate::cluster::Verdict::Serve,
    });
    let call = tokio::spawn({
        let fs = fs.clone();
        async move { fs.create_dir("d", 0o755).await }
    });
    until("it is heard", || !toy.tids_heard().is_empty()).await;
    let _ = ends("unmount", fs.unmount()).await;
    let failed = ends("the call", call).await.expect("no panic").expect_err("unmounted");
    assert!(matches!(failed, Error::Unmounted), "{failed}");
}
