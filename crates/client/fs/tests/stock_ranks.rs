//! Goal: a client of a file system that two metadata servers share goes on after an eviction, after a full
//! pool, and when a rank's server fails and another one takes over. Method: a stock cluster with three
//! metadata servers, two of them with a rank.

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/ranks.rs"]
mod ranks;

use std::process::Command;
use std::time::Duration;

use loligo_fs::{Errno, FileSystem, MountOptions, OpenOptions};

use cluster::{rados, stock};
use ranks::{Place, active, ceph, failed, set_ranks, until};

/// Names that are made while a rank fails over.
const NAMES: usize = 60;

/// Goal: when a rank's server fails and the one that stands by takes over, what was answered is there, once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_rank_fails_over_while_names_are_made() {
    let place = Place::new("fails").await;
    for rank in [1, 0] {
        let dir = place.pinned(&format!("dir{rank}"), rank).await;
        let file = place.fs.open(format!("{dir}/open"), OpenOptions::new().read().write().create()).await;
        let file = file.expect("made");
        for at in 0..NAMES {
            // Each of these would fail if a server carried it out twice.
            place.fs.make_node(format!("{dir}/n{at}"), 0o644, 0).await.expect("made once");
            if at % 3 == 0 {
                place.fs.rename(format!("{dir}/n{at}"), format!("{dir}/r{at}")).await.expect("moved once");
            }
            if at % 5 == 0 {
                file.append(format!("{at}\n")).await.expect("appended");
            }
            if at == NAMES / 3 {
                ceph(&["mds", "fail", &format!("fs:{rank}")]);
            }
        }
        file.sync().await.expect("durable");
        place.fs.sync().await.expect("durable");
        let text: String = (0..NAMES).step_by(5).map(|at| format!("{at}\n")).collect();
        let seen = place.seen_by_another(&dir).await;
        assert_eq!(seen.len(), NAMES + 1);
        assert_eq!(seen.iter().find(|(name, _)| name == "open").expect("there").1, text);
        assert!((0..NAMES).all(|at| {
            let name = if at % 3 == 0 { format!("r{at}") } else { format!("n{at}") };
            seen.iter().any(|(there, _)| *there == name)
        }));
        file.close().await.expect("closed");
        until("two ranks", || active() == 2 && ceph(&["mds", "stat"]).contains("1 up:standby")).await;
    }
    place.end().await;
}

/// Goal: the metadata servers show this client with its metadata and metrics, as stock clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn the_servers_show_what_a_client_does() {
    let place = Place::new("metrics").await;
    let path = place.at("file");
    place.put(&path, "text").await;
    for _ in 0..20 {
        place.fs.stat(&path).await.expect("there");
    }
    let id = place.fs.rados().instance_id().0;
    let shown = ceph(&["tell", "mds.0", "session", "ls"]);
    let ours = shown.split("\"id\": ").find(|part| part.starts_with(&id.to_string())).expect("a session");
    assert!(ours.contains("loligo_version") && ours.contains("metric_spec"), "{ours}");
    ceph(&["mgr", "module", "enable", "stats", "--force"]);
    until("the statistics of this client", || {
        let done = Command::new("ceph").args(["fs", "perf", "stats"]).env("CEPH_CONF", stock()).output();
        let text = String::from_utf8_lossy(&done.expect("ceph is installed").stdout).into_owned();
        text.contains(&format!("client.{id}"))
    })
    .await;
    place.end().await;
}

/// Goal: a client that is evicted goes on under a new identity, if it was mounted so; what was not synced is
/// reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn an_evicted_client_recovers() {
    set_ranks(2).await;
    let options = MountOptions::new().recovers(true).cache(0);
    let fs = FileSystem::mount(&rados().await, options).await.expect("mounted");
    let dir = format!("evicted-{}", std::process::id());
    fs.create_dir(&dir, 0o777).await.expect("made");
    let kept =
        fs.open(format!("{dir}/kept"), OpenOptions::new().read().write().create()).await.expect("made");
    kept.write_at(0, "synced").await.expect("written");
    kept.sync().await.expect("durable");
    let id = fs.rados().instance_id().0;
    ceph(&["tell", "mds.0", "session", "evict", &format!("id={id}")]);
    let recovers = async {
        let mut tries = 0;
        while let Err(e) = fs.create_dir(format!("{dir}/after"), 0o755).await {
            assert_ne!(e.errno(), Errno::EEXIST);
            tries += 1;
            assert!(tries < 100, "{e}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), recovers).await.expect("it comes back");
    until("a new identity", || fs.rados().instance_id().0 != id).await;
    assert_eq!(kept.read_at(0, 100).await.expect("opened again"), "synced");
    kept.write_at(6, " and more").await.expect("written");
    kept.sync().await.expect("durable");
    assert_eq!(kept.read_at(0, 100).await.expect("read"), "synced and more");
    let _ = kept.close().await;
    fs.unmount().await.expect("unmounted");
}

/// Goal: a full pool fails writes as in a stock client, and takes them again when it is not full any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_full_pool_fails_writes_and_recovers() {
    let place = Place::new("full").await;
    let path = place.at("file");
    let file = place.fs.open(&path, OpenOptions::new().read().write().create()).await.expect("made");
    file.write_at(0, "fits").await.expect("written");
    file.sync().await.expect("durable");
    ceph(&["osd", "pool", "set-quota", "cephfs.fs.data", "max_objects", "1"]);
    until("the pool is full", || ceph(&["health", "detail"]).contains("POOL_FULL")).await;
    let direct = FileSystem::mount(&rados().await, MountOptions::new().cache(0)).await.expect("mounted");
    let theirs = direct.open(&path, OpenOptions::new().read().write()).await.expect("opened");
    let refused = tokio::time::timeout(Duration::from_secs(60), theirs.write_at(0, "does not")).await;
    let errno = failed(refused.expect("it does not wait"));
    assert!([Errno::EDQUOT, Errno::ENOSPC].contains(&errno), "{errno}");
    assert_eq!(theirs.read_at(0, 4).await.expect("reading goes on"), "fits");
    // Into the cache: told by fsync.
    let synced = async {
        file.write_at(0, "neither").await?;
        file.sync().await
    };
    let refused = tokio::time::timeout(Duration::from_secs(60), synced).await.expect("it does not wait");
    let errno = failed(refused);
    assert!([Errno::EDQUOT, Errno::ENOSPC].contains(&errno), "{errno}");
    ceph(&["osd", "pool", "set-quota", "cephfs.fs.data", "max_objects", "0"]);
    until("the pool is not full", || !ceph(&["health", "detail"]).contains("POOL_FULL")).await;
    let again = async {
        while theirs.write_at(0, "fits again").await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), again).await.expect("there is room");
    theirs.sync().await.expect("durable");
    let _ = file.close().await;
    theirs.close().await.expect("closed");
    direct.unmount().await.expect("unmounted");
    place.fs.unmount().await.unwrap_or_default();
}
