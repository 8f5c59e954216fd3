//! A full disk serves its data, makes clients wait with writes that need space or refuses them, and
//! recovers by itself when objects are removed.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::{join_all, poll_immediate};
use loligo_rados::{Errno, Error, IoCtx, Rados, WaitsFor, WhenFull, WriteOp, WriteOptions};
use loligo_server::Server;

use crate::common::{Running, Scratch, connect, soon};

const CAPACITY: u64 = 48 << 20;
const WRITERS: usize = 6;

fn contents(writer: usize, number: usize) -> Bytes {
    // Some lengths go through the journal, others are written in place at once.
    let len = [5000, 300_000, 1 << 20][(writer + number) % 3];
    Bytes::from(vec![(writer * 31 + number) as u8; len])
}

fn name(writer: usize, number: usize) -> String {
    format!("o{writer}.{number}")
}

fn is_full(error: &Error) -> bool {
    error.errno() == Errno::ENOSPC
}

/// Runs an operation that is refused, instead of waiting, if there is no space.
async fn attempt(pool: &IoCtx, oid: impl Into<Vec<u8>>, op: WriteOp) -> Result<(), Error> {
    let options = WriteOptions { when_full: WhenFull::Try, ..WriteOptions::default() };
    match pool.execute(oid, op, options).await?.errno() {
        None => Ok(()),
        Some(errno) => Err(errno.into()),
    }
}

fn put(data: Bytes) -> WriteOp {
    WriteOp::new().write_full(data)
}

/// Writes until there is no space. Returns the number of objects written.
async fn fill(pool: IoCtx, writer: usize) -> usize {
    for number in 0.. {
        match soon("a write", attempt(&pool, name(writer, number), put(contents(writer, number)))).await {
            Ok(()) => {}
            Err(e) if is_full(&e) => return number,
            Err(e) => panic!("{e}"),
        }
    }
    unreachable!("the disk is small")
}

/// Overwrites one object repeatedly. Returns the number of successful writes.
async fn go_on(pool: IoCtx, writer: usize, end: Arc<AtomicBool>) -> usize {
    let mut done = 0;
    while !end.load(Ordering::Relaxed) {
        match soon("a write", attempt(&pool, format!("busy{writer}"), put(contents(writer, 0)))).await {
            Ok(()) => done += 1,
            Err(e) if is_full(&e) => {}
            Err(e) => panic!("{e}"),
        }
    }
    done
}

async fn check(pool: &IoCtx, writer: usize, number: usize) {
    let read =
        soon("a read", pool.read(name(writer, number), 0, 2 << 20)).await.expect("it was acknowledged");
    assert!(read == contents(writer, number), "{}", name(writer, number));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_forced_does_not_wait_for_room() {
    let scratch = Scratch::new("forced");
    let server = Server::memory().data_dir(&scratch.0).pool("data").start().expect("the server starts");
    let (rados, pool) = connect(server.conf()).await;
    pool.write_full("o", "x".into()).await.expect("written");
    let set = r#"{"prefix":"osd set","key":"full"}"#;
    rados.mon_command(set, Bytes::new()).await.expect("set");
    soon("the map", rados.wait_for_latest_osdmap()).await.expect("the map");
    let mut removal = Box::pin(pool.remove("o"));
    assert!(poll_immediate(&mut removal).await.is_none(), "it waits");
    let waiting: Vec<_> = rados.requests().into_iter().map(|request| request.waits_for).collect();
    assert_eq!(waiting, [WaitsFor::Unpause]);
    drop(removal);
    let forced = pool.with_when_full(WhenFull::Force);
    soon("a removal", forced.remove("o")).await.expect("removed");
    soon("a write", forced.write_full("o", "y".into())).await.expect("written");
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_recovers_by_itself_when_something_is_removed() {
    let scratch = Scratch::new("full");
    let start =
        || Server::disk(&scratch.0).capacity_bytes(CAPACITY).pool("data").start().expect("the server starts");
    let server = start();
    let (rados, pool) = connect(server.conf()).await;
    let written = join_all((0..WRITERS).map(|writer| fill(pool.clone(), writer))).await;
    assert!(written.iter().all(|count| *count > 0), "{written:?}");

    // While other clients keep writing, existing objects are read and removed, all but the first of each
    // writer.
    let end = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> =
        (0..WRITERS).map(|writer| tokio::spawn(go_on(pool.clone(), writer, Arc::clone(&end)))).collect();
    for (writer, count) in written.iter().enumerate() {
        for number in 0..*count {
            check(&pool, writer, number).await;
        }
    }
    for (writer, count) in written.iter().enumerate() {
        for number in 1..*count {
            let removal = attempt(&pool, name(writer, number), WriteOp::new().remove());
            soon("a removal", removal).await.expect("removing needs no room");
        }
    }
    // A checkpoint frees the space; refused writes have requested one.
    let again = async {
        loop {
            match attempt(&pool, "again", put(vec![9; 8 << 20].into())).await {
                Ok(()) => return,
                Err(e) if is_full(&e) => tokio::task::yield_now().await,
                Err(e) => panic!("{e}"),
            }
        }
    };
    soon("room", again).await;
    end.store(true, Ordering::Relaxed);
    for task in busy {
        assert!(task.await.expect("no panic") > 0, "they recover as well");
    }
    server.shutdown().await;
    drop((rados, pool));

    let server = start();
    let (_rados, pool) = connect(server.conf()).await;
    for writer in 0..WRITERS {
        check(&pool, writer, 0).await;
    }
    let read = soon("a read", pool.read("again", 0, 9 << 20)).await.expect("it was acknowledged");
    assert!(read == vec![9; 8 << 20]);
    assert!(soon("a read", pool.read(name(0, 1), 0, 0)).await.is_err(), "what was removed stays so");
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_says_that_a_disk_is_nearly_full() {
    let scratch = Scratch::new("nearfull");
    let server =
        Server::disk(&scratch.0).capacity_bytes(CAPACITY).pool("data").start().expect("the server starts");
    let (rados, pool) = connect(server.conf()).await;
    let command = r#"{"prefix": "health", "detail": "detail"}"#;
    let health = async || {
        let (text, _) = soon("health", rados.mon_command(command, Bytes::new())).await.expect("an answer");
        String::from_utf8(text.to_vec()).expect("text")
    };
    let grow = async |parts: u64| {
        let data = Bytes::from(vec![3; (CAPACITY / 96) as usize]);
        for part in 0..parts {
            soon("a write", attempt(&pool, "o", WriteOp::new().append(data.clone())))
                .await
                .unwrap_or_else(|e| panic!("part {part}: {e}"));
        }
    };
    // In 96ths of the capacity: whole blocks, which are written in place at once.
    grow(76).await;
    assert!(!health().await.contains("full"), "{}", health().await);
    grow(7).await;
    let near = health().await;
    assert!(near.starts_with("HEALTH_WARN 1 nearfull osd(s); 1 pool(s) nearfull"), "{near}");
    assert!(near.contains("[WRN] OSD_NEARFULL: 1 nearfull osd(s)\n    osd.0 is near full\n"), "{near}");
    assert!(near.contains("[WRN] POOL_NEARFULL: 1 pool(s) nearfull\n    pool 'data' is nearfull"), "{near}");
    grow(9).await;
    let full = health().await;
    assert!(full.starts_with("HEALTH_ERR 1 full osd(s); 1 pool(s) full"), "{full}");
    soon("a removal", attempt(&pool, "o", WriteOp::new().remove())).await.expect("removing needs no room");
    let recovers = async {
        while health().await.contains("full") {
            // A checkpoint frees the space.
            tokio::task::yield_now().await;
        }
    };
    soon("room", recovers).await;
    server.shutdown().await;
}

async fn command(rados: &Rados, command: &str) -> String {
    let (text, status) =
        soon("a command", rados.mon_command(command, Bytes::new())).await.expect("an answer");
    format!("{}{status}", String::from_utf8_lossy(&text))
}

/// Waits until the fullness flags of a pool in the osdmap, and the OSD's state, are as wanted.
async fn wait_for_flags(rados: &Rados, pool: &str, wanted: &str) {
    let pool = format!(" '{pool}' ");
    let says = async || {
        let dump = command(rados, r#"{"prefix": "osd dump"}"#).await;
        let line = |is_it: &dyn Fn(&str) -> bool| dump.lines().find(|l| is_it(l)).expect("a line").to_owned();
        let (pool, osd) = (line(&|l| l.contains(&pool)), line(&|l| l.starts_with("osd.0 ")));
        ["nearfull", "backfillfull", "full"]
            .into_iter()
            .find(|word| [&pool, &osd].iter().all(|line| line.split([' ', ',']).any(|w| w == *word)))
            .unwrap_or_default()
    };
    let wait = async {
        while says().await != wanted {
            tokio::task::yield_now().await;
        }
    };
    soon(wanted, wait).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_wait_while_the_map_says_that_there_is_no_room() {
    let scratch = Scratch::new("waiting");
    let server =
        Server::disk(&scratch.0).capacity_bytes(CAPACITY).pool("data").start().expect("the server starts");
    let (rados, pool) = connect(server.conf()).await;
    let data = Bytes::from(vec![3; (CAPACITY / 8) as usize]);
    pool.write_full("large", data).await.expect("there is room");
    for (which, flags) in [("nearfull", "nearfull"), ("backfillfull", "backfillfull"), ("full", "full")] {
        let set = format!(r#"{{"prefix": "osd set-{which}-ratio", "ratio": 0.1}}"#);
        assert_eq!(command(&rados, &set).await, format!("osd set-{which}-ratio 0.1"));
        wait_for_flags(&rados, "data", flags).await;
    }
    let log = command(&rados, r#"{"prefix": "log last", "num": 20}"#).await;
    assert!(log.contains("[ERR] Health check failed: 1 full osd(s) (OSD_FULL)"), "{log}");

    let refused = soon("a refusal", attempt(&pool, "small", put("x".into()))).await;
    assert!(refused.as_ref().is_err_and(is_full), "{refused:?}");
    let waiting = pool.clone();
    let waiting = tokio::spawn(async move { waiting.write_full("small", Bytes::from("x")).await });
    assert_eq!(soon("a read", pool.read("large", 0, 3)).await.expect("there"), vec![3; 3]);
    assert!(!waiting.is_finished());
    soon("a removal", attempt(&pool, "large", WriteOp::new().remove()))
        .await
        .expect("removing needs no room");
    soon("room", waiting).await.expect("no panic").expect("written when there was room");
    wait_for_flags(&rados, "data", "").await;
    server.shutdown().await;
}

/// Records the behaviour of stock's client while a cluster is full, and after that.
async fn without_room(conf: &Path, scratch: &Scratch) -> Vec<String> {
    let rados = crate::common::builder(conf).connect().await.expect("connects");
    rados.create_pool("room").await.expect("a pool");
    let pool = rados.ioctx("room").await.expect("the pool");
    pool.write_full("large", Bytes::from(vec![3; 16 << 20])).await.expect("there is room");
    let from = scratch.file("from");
    std::fs::write(&from, b"some").expect("written");
    let set = async |ratios: [&str; 3]| {
        let mut answers = String::new();
        for (which, ratio) in ["nearfull", "backfillfull", "full"].into_iter().zip(ratios) {
            let set = format!(r#"{{"prefix": "osd set-{which}-ratio", "ratio": {ratio}}}"#);
            answers += &command(&rados, &set).await;
        }
        answers
    };
    // The object is 16 MiB of 8 GiB. All ratios are set: a single one below the previous ratio would be
    // raised to it.
    let mut seen = vec![set(["0.0015"; 3]).await];
    wait_for_flags(&rados, "room", "full").await;

    let start = |words: &[&str]| Running::start("rados", &[&["-p", "room"], words].concat(), conf);
    let mut put = start(&["put", "small", &from]);
    let mut remove = start(&["rm", "large"]);
    // During the read the other programs have time to fail if they do not wait.
    seen.push(format!("read: {}", start(&["get", "large", "/dev/null"]).status()));
    for waiting in [&mut put, &mut remove] {
        seen.push(format!("{:?}", waiting.0.try_wait().expect("it was started")));
    }
    seen.push(format!("by force: {}", start(&["--force-full", "rm", "large"]).status()));
    seen.push(set(["0.85", "0.9", "0.95"]).await);
    seen.push(format!("put: {}", put.status()));
    seen.push(format!("remove: {}", remove.status()));
    wait_for_flags(&rados, "room", "").await;
    seen.push(format!("{:?}", soon("a read", pool.read("small", 0, 0)).await.expect("it was written")));
    soon("a removal", pool.remove("small")).await.expect("there is room");
    seen
}

/// Goal: stock's client waits and continues as it does with a stock cluster, to whose results ours are
/// compared.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_stock_client_waits_for_room() {
    let scratch = Scratch::new("stockfull");
    let server = Server::disk(&scratch.0).capacity_bytes(8 << 30).start().expect("the server starts");
    let ours = without_room(server.conf(), &scratch).await;
    let stock = std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a stock cluster's");
    assert_eq!(ours, without_room(Path::new(&stock), &scratch).await);
    assert_eq!(ours[1..4], ["read: exit status: 0", "None", "None"], "{ours:?}");
    server.shutdown().await;
}
