//! Goal: a reset returns to the server's first state, for clients that are connected as for new ones, and no
//! number repeats. Method: an embedded server and our client, which stays connected.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loligo_rados::{Builder, Errno, Error, IoCtx, Rados, WatchNews, WriteOp, WriteOptions};
use loligo_server::{Handle, Server, SnapshotError};

async fn connect(server: &Handle) -> Rados {
    let conf = server.conf().to_str().expect("a path in UTF-8");
    Builder::new().conf_file(conf).set("rados_osd_op_timeout", "60").connect().await.expect("connects")
}

fn is_missing<T>(found: &Result<T, Error>) -> bool {
    matches!(found, Err(Error::Os(Errno::ENOENT)))
}

async fn text(pool: &IoCtx, name: &str) -> Result<String, Error> {
    pool.read(name, 0, 0).await.map(|data| String::from_utf8_lossy(&data).into_owned())
}

/// A server with an object, which is marked.
async fn filled() -> (Handle, Rados, IoCtx) {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let rados = connect(&server).await;
    let pool = rados.ioctx("p").await.expect("there");
    pool.write_full("kept", "first".into()).await.expect("written");
    pool.set_xattr("kept", "a", "1").await.expect("set");
    server.mark().await.expect("in memory");
    (server, rados, pool)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connected_client_finds_the_first_state() {
    let (server, rados, pool) = filled().await;
    for round in 0..5 {
        pool.write_full("kept", "changed".into()).await.expect("written");
        pool.set_xattr("kept", "a", "2").await.expect("set");
        pool.write_full("new", "new".into()).await.expect("written");
        rados.create_pool("other").await.expect("made");
        server.reset().await.expect("in memory");
        assert_eq!(text(&pool, "kept").await.expect("there"), "first", "round {round}");
        assert_eq!(pool.xattr("kept", "a").await.expect("there"), "1");
        assert!(is_missing(&text(&pool, "new").await));
        assert!(rados.ioctx("other").await.is_err());
    }
    rados.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_mark_returns_to_its_start() {
    let server = Server::memory().pool("p").start().expect("the server starts");
    let rados = connect(&server).await;
    let pool = rados.ioctx("p").await.expect("there");
    pool.write_full("o", "o".into()).await.expect("written");
    server.reset().await.expect("in memory");
    assert!(is_missing(&text(&pool, "o").await));
    pool.write_full("o", "again".into()).await.expect("written");
    assert_eq!(text(&pool, "o").await.expect("there"), "again");
    rados.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_comes_back_from_a_file() {
    let (server, rados, pool) = filled().await;
    let file = scratch("reset-file");
    server.dump(&file).await.expect("written");
    pool.remove("kept").await.expect("removed");
    server.restore(&file).await.expect("it is whole");
    assert_eq!(text(&pool, "kept").await.expect("there"), "first");
    rados.shutdown().await;
    let other = Server::memory().snapshot(&file).start().expect("the server starts");
    assert_eq!(other.fsid(), server.fsid());
    let rados = connect(&other).await;
    let pool = rados.ioctx("p").await.expect("there");
    assert_eq!(text(&pool, "kept").await.expect("there"), "first");
    pool.write_full("kept", "changed".into()).await.expect("written");
    other.reset().await.expect("in memory");
    assert_eq!(text(&pool, "kept").await.expect("there"), "first");
    rados.shutdown().await;
    std::fs::remove_file(&file).expect("it is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_begins_a_store_on_disk_once() {
    let (server, rados, _pool) = filled().await;
    let (file, dir) = (scratch("reset-disk"), scratch("reset-dir"));
    server.dump(&file).await.expect("written");
    rados.shutdown().await;
    let on_disk = || Server::disk(&dir);
    let disk = on_disk().snapshot(&file).start().expect("a new directory");
    assert!(matches!(disk.reset().await, Err(SnapshotError::OnDisk)));
    assert!(matches!(disk.dump(&file).await, Err(SnapshotError::OnDisk)));
    disk.shutdown().await;
    let refused = on_disk().snapshot(&file).start().expect_err("a state is there");
    assert!(refused.to_string().contains("has a server's state already"), "{refused}");
    let disk = on_disk().start().expect("it starts again");
    let rados = connect(&disk).await;
    let pool = rados.ioctx("p").await.expect("there");
    assert_eq!(text(&pool, "kept").await.expect("there"), "first");
    rados.shutdown().await;
    disk.shutdown().await;
    std::fs::remove_file(&file).expect("it is there");
    std::fs::remove_dir_all(&dir).expect("it is there");
}

/// Versions grow over resets: a client that compares one finds that the object is another.
#[tokio::test(flavor = "multi_thread")]
async fn no_version_and_no_snapshot_repeats() {
    let (server, rados, pool) = filled().await;
    let mut newest = (0, 0);
    for _ in 0..3 {
        let write = WriteOp::new().write_full("x".into());
        let version = pool.execute("kept", write, WriteOptions::default()).await.expect("answered").version;
        let snap = pool.create_managed_snapshot().await.expect("an id");
        assert!(version > newest.0 && snap.0 > newest.1, "{version} {snap:?} after {newest:?}");
        newest = (version, snap.0);
        server.reset().await.expect("in memory");
    }
    rados.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_are_gone_and_clients_are_told() {
    let (server, rados, pool) = filled().await;
    let mut watch = pool.watch("kept", Duration::from_secs(30)).await.expect("watched");
    server.reset().await.expect("in memory");
    // The client watches again, and is told that it may have missed something.
    let news = watch.next().await;
    assert!(matches!(news, Ok(WatchNews::Missed)), "{news:?}");
    rados.shutdown().await;
}

/// Clients that write all the time lose nothing but the old state, and get no error.
#[tokio::test(flavor = "multi_thread")]
async fn operations_in_flight_are_answered() {
    let (server, rados, pool) = filled().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = |number: u32| {
        let (pool, is_over) = (pool.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut written = 0;
            while !is_over.load(Ordering::Relaxed) {
                let name = format!("w{number}-{}", written % 20);
                pool.write_full(name.as_str(), "x".into()).await.expect("written");
                written += 1;
            }
            written
        })
    };
    let writers: Vec<_> = (0..4).map(writer).collect();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        server.reset().await.expect("in memory");
    }
    is_over.store(true, Ordering::Relaxed);
    for writer in writers {
        assert!(writer.await.expect("no panic") > 0);
    }
    server.reset().await.expect("in memory");
    assert_eq!(text(&pool, "kept").await.expect("there"), "first");
    assert!(is_missing(&text(&pool, "w0-0").await));
    rados.shutdown().await;
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("loligo-{name}.{}", std::process::id()))
}
