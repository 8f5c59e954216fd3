//! `loligo serve --memory`.
//!
//! Goal: a store in memory takes no more than it may, and a client learns that it is full. Method: a client
//! writes until it is refused, asks for the cluster's health, and reads what is stored.

mod server_process;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_rados::{Builder, Errno, IoCtx, Rados, WhenFull, WriteOp, WriteOptions};
use server_process::{Scratch, ServerProcess};

const MEMORY: usize = 24 << 20;
const OBJECT: usize = 1 << 20;

fn serve(scratch: &Scratch, options: &[&str]) -> Command {
    let mut serve = Command::new(env!("CARGO_BIN_EXE_loligo"));
    serve.args(["--no-config-file", "serve", "--mon-addr", "127.0.0.1:0", "--pool", "p", "--data"]);
    serve.arg(scratch.0.join("data")).args(options).stdin(Stdio::null());
    serve.env_remove("CEPH_CONF").env_remove("CEPH_ARGS").env_remove("LOLIGO_CAPACITY");
    serve
}

/// Writes an object, or is refused.
async fn put(pool: &IoCtx, name: &str) -> Result<(), Errno> {
    let options = WriteOptions { when_full: WhenFull::Try, ..WriteOptions::default() };
    let op = WriteOp::new().write_full(Bytes::from(vec![7; OBJECT]));
    let reply = pool.execute(name, op, options).await.map_err(|e| e.errno())?;
    reply.errno().map_or(Ok(()), Err)
}

async fn health(rados: &Rados) -> String {
    let command = r#"{"prefix": "health", "detail": "detail"}"#;
    let (said, _) = rados.mon_command(command, Bytes::new()).await.expect("health");
    String::from_utf8_lossy(&said).into_owned()
}

#[tokio::test]
async fn memory_is_bounded_and_a_full_store_says_so() {
    let scratch = Scratch::new("memory");
    let bound = MEMORY.to_string();
    let dir = scratch.0.join("data");
    let _server =
        ServerProcess::ready(&mut serve(&scratch, &["--store", "memory", "--memory", &bound]), &dir);
    let conf = dir.join("ceph.conf");
    let rados = Builder::new().conf_file(&conf.display().to_string()).connect().await.expect("a client");
    let pool = rados.ioctx("p").await.expect("the pool");
    let mut stored = 0;
    let refused = loop {
        match put(&pool, &format!("o{stored}")).await {
            Ok(()) => stored += 1,
            Err(errno) => break errno,
        }
        assert!(stored * OBJECT <= MEMORY, "{stored} objects are more than fit");
    };
    assert_eq!(refused, Errno::ENOSPC);
    assert!(stored * OBJECT > MEMORY / 2, "{stored} objects are too few");
    // The monitor hears of it within a second or two.
    let began = Instant::now();
    loop {
        let health = health(&rados).await;
        if health.contains("OSD_FULL") {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{health}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(pool.read("o0", 0, OBJECT as u64).await.expect("a full store serves").len(), OBJECT);
    rados.shutdown().await;
}

#[test]
fn a_bound_of_memory_is_for_a_store_in_memory() {
    let scratch = Scratch::new("memory-disk");
    let refused = serve(&scratch, &["--memory", "64M"]).output().expect("it ends");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{why}");
    assert!(why.contains("serve --memory") && why.contains("--capacity"), "{why}");
    let both = serve(&scratch, &["--memory", "64M", "--capacity", "64M"]).output().expect("it ends");
    assert!(!both.status.success());
}
