//! A disk that is full refuses what grows, serves what it has, and recovers by itself when something is removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::{Errno, Error, IoCtx};
use loligo_server::Server;

use crate::common::{Scratch, connect, soon};

const CAPACITY: u64 = 48 << 20;
const WRITERS: usize = 6;

fn contents(writer: usize, number: usize) -> Bytes {
    // Through the journal, and to their places at once.
    let len = [5000, 300_000, 1 << 20][(writer + number) % 3];
    Bytes::from(vec![(writer * 31 + number) as u8; len])
}

fn name(writer: usize, number: usize) -> String {
    format!("o{writer}.{number}")
}

fn is_full(error: &Error) -> bool {
    error.errno() == Errno::ENOSPC
}

/// Writes until there is no room, and says how many objects that were.
async fn fill(pool: IoCtx, writer: usize) -> usize {
    for number in 0.. {
        match soon("a write", pool.write_full(name(writer, number), contents(writer, number))).await {
            Ok(()) => {}
            Err(e) if is_full(&e) => return number,
            Err(e) => panic!("{e}"),
        }
    }
    unreachable!("the disk is small")
}

/// Writes one object again and again; how often that went well.
async fn go_on(pool: IoCtx, writer: usize, end: Arc<AtomicBool>) -> usize {
    let mut done = 0;
    while !end.load(Ordering::Relaxed) {
        match soon("a write", pool.write_full(format!("busy{writer}"), contents(writer, 0))).await {
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
async fn a_full_disk_recovers_by_itself_when_something_is_removed() {
    let scratch = Scratch::new("full");
    let start =
        || Server::disk(&scratch.0).capacity_bytes(CAPACITY).pool("data").start().expect("the server starts");
    let server = start();
    let (rados, pool) = connect(server.conf()).await;
    let written = join_all((0..WRITERS).map(|writer| fill(pool.clone(), writer))).await;
    assert!(written.iter().all(|count| *count > 0), "{written:?}");

    // While others go on writing, what is there is read and removed, all but the first object of each.
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
            soon("a removal", pool.remove(name(writer, number))).await.expect("removing needs no room");
        }
    }
    // Room comes back with a checkpoint, which whoever was refused has asked for.
    let again = async {
        loop {
            match pool.write_full("again", Bytes::from(vec![9; 8 << 20])).await {
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
            soon("a write", pool.append("o", data.clone()))
                .await
                .unwrap_or_else(|e| panic!("part {part}: {e}"));
        }
    };
    // Of 96: whole blocks, which go to their places at once.
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
    soon("a removal", pool.remove("o")).await.expect("removing needs no room");
    let recovers = async {
        while health().await.contains("full") {
            // A checkpoint gives the room back.
            tokio::task::yield_now().await;
        }
    };
    soon("room", recovers).await;
    server.shutdown().await;
}
