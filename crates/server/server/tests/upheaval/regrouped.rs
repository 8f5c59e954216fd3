//! A pool's placement groups are split and merged while clients write and list. Each append exists once
//! and in order, a listing names each object once, and written data is found after restarts and after a
//! kill of the server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::{IoCtx, Rados};
use loligo_server::Server;
use tokio::task::JoinHandle;

use crate::common::{PYTHON_HEAD, Running, Scratch, connect, loligo, soon};

const WRITERS: usize = 12;
/// The number of objects that are not changed.
const STILL: usize = 300;
/// Numbers of placement groups, beginning with the pool's initial one: splits, merges, powers of two and
/// others.
const NUMBERS: [u32; 7] = [8, 32, 5, 12, 1, 64, 7];

async fn set_pg_num(rados: &Rados, number: u32) {
    let command =
        format!(r#"{{"prefix": "osd pool set", "pool": "data", "var": "pg_num", "val": "{number}"}}"#);
    soon("a command", rados.mon_command(&command, Bytes::new())).await.expect("pg_num is set");
    soon("the map", rados.wait_for_latest_osdmap()).await.expect("the map");
}

/// Appends numbers to an object, several at the same time. Returns how many.
fn append(pool: &IoCtx, writer: usize, stop: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let (pool, stop) = (pool.clone(), Arc::clone(stop));
    tokio::spawn(async move {
        let mut next = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            let tokens = (next..next + 4).map(|n| Bytes::copy_from_slice(&n.to_le_bytes()));
            let appends = tokens.map(|token| pool.append(format!("w{writer}"), token));
            soon("appends", join_all(appends)).await.into_iter().for_each(|done| done.expect("appended"));
            next += 4;
        }
        next
    })
}

async fn check_appended(pool: &IoCtx, counts: &[u64]) {
    for (writer, count) in counts.iter().enumerate() {
        let read = soon("a read", pool.read(format!("w{writer}"), 0, 0)).await.expect("read");
        let expected: Vec<u8> = (0..*count).flat_map(u64::to_le_bytes).collect();
        assert!(read[..] == expected[..], "w{writer}: {} bytes, {} appended", read.len(), expected.len());
    }
}

/// Lists the objects that are not changed, and checks that each is named. The number of placement groups
/// changes after a few of them.
async fn list(rados: &Rados, pool: &IoCtx, then: u32) {
    let mut objects = pool.objects();
    let mut listed = Vec::new();
    for _ in 0..STILL / 4 {
        listed.extend(soon("an object", objects.next()).await.expect("listed"));
    }
    set_pg_num(rados, then).await;
    while let Some(object) = soon("an object", objects.next()).await.expect("listed") {
        listed.push(object);
    }
    let names: Vec<_> = listed.into_iter().map(|object| object.oid).filter(|oid| oid[0] == b's').collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!((names.len(), distinct.len()), (STILL, STILL), "then {then} placement groups");
}

async fn change_under_writers(rados: &Rados, pool: &IoCtx) -> Vec<u64> {
    let still = (0..STILL).map(|i| pool.write_full(format!("s{i}"), "still".into()));
    soon("writes", join_all(still)).await.into_iter().for_each(|done| done.expect("written"));
    let stop = Arc::default();
    let writers: Vec<_> = (0..WRITERS).map(|writer| append(pool, writer, &stop)).collect();
    for number in NUMBERS {
        list(rados, pool, number).await;
    }
    stop.store(true, Ordering::Relaxed);
    join_all(writers).await.into_iter().map(|ended| ended.expect("no panic")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn placement_groups_are_split_and_merged_under_writers() {
    let scratch = Scratch::new("regrouped");
    let server = Server::memory().data_dir(&scratch.0).pool("data").pg_num(8).start().expect("it starts");
    let (rados, pool) = connect(server.conf()).await;
    let counts = change_under_writers(&rados, &pool).await;
    check_appended(&pool, &counts).await;
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_on_disk_finds_its_objects_whatever_pg_num_is() {
    let scratch = Scratch::new("regrouped-disk");
    let start = || {
        let builder = Server::disk(&scratch.0).capacity_bytes(1 << 30).pool("data").pg_num(8);
        builder.start().expect("it starts")
    };
    let server = start();
    let (rados, pool) = connect(server.conf()).await;
    let counts = change_under_writers(&rados, &pool).await;
    server.shutdown().await;
    drop((rados, pool));
    // A different number in each run of the server; in the last one the initial number.
    for then in [100, 3, 8, 8] {
        let server = start();
        let (rados, pool) = connect(server.conf()).await;
        check_appended(&pool, &counts).await;
        list(&rados, &pool, then).await;
        check_appended(&pool, &counts).await;
        server.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_clients_run_on_when_placement_groups_change_and_the_server_is_killed() {
    let scratch = Scratch::new("regrouped-stock");
    let dir = scratch.0.to_str().expect("a path in UTF-8").to_owned();
    let conf = scratch.0.join("ceph.conf");
    let serve = || {
        let args = ["serve", "--data", &dir, "--store", "disk", "--mon-addr", "127.0.0.1:0", "-p", "data"];
        let mut server = Running::start(loligo(), &args, &conf);
        let ready = server.lines().next().expect("a line");
        assert!(ready.starts_with("ready conf="), "{ready}");
        server
    };
    let mut server = serve();
    // The watch persists, appends exist once and in order, and each listing names all objects once.
    let script = format!(
        "{PYTHON_HEAD}\
         import threading\n\
         heard = threading.Event()\n\
         io.write_full('watched', b''); watch = io.watch('watched', lambda *told: heard.set())\n\
         for i in range(200): io.write_full('s%d' % i, b'x')\n\
         for n in range(10**9):\n\
         \x20   done = [io.aio_append('w%d' % (i % 16), b'%d.%d ' % (n, i // 16)) for i in range(64)]\n\
         \x20   for d in done: d.wait_for_complete()\n\
         \x20   assert all(d.get_return_value() == 0 for d in done)\n\
         \x20   names = [o.key for o in io.list_objects()]\n\
         \x20   assert len(names) == len(set(names)) == 217, len(names)\n\
         \x20   if n % 10 == 0:\n\
         \x20       heard.clear(); io.notify('watched', 'x', 20000); assert heard.wait(20)\n\
         \x20       want = b''.join(b'%d.%d ' % (m, i) for m in range(n + 1) for i in range(4))\n\
         \x20       assert all(io.read('w%d' % i, len(want) + 1) == want for i in range(16)), n\n\
         \x20   print('round', n, flush=True)\n"
    );
    let conf_arg = conf.to_str().expect("a path in UTF-8");
    let mut python = Running::start("/usr/bin/python3", &["-c", &script, conf_arg], &conf);
    let mut lines = python.lines();
    for number in ["8", "32", "5", "128", "1", "200"] {
        let mut progress = tokio::task::spawn_blocking(move || {
            let seen = lines.by_ref().take(5).count();
            (seen, lines)
        });
        let (seen, rest) = soon("python", &mut progress).await.expect("no panic");
        assert_eq!(seen, 5, "before {number}: python has ended");
        lines = rest;
        let args = ["osd", "pool", "set", "data", "pg_num", number];
        let set = Running::start("ceph", &args, &conf);
        tokio::task::spawn_blocking(move || set.succeed("ceph")).await.expect("no panic");
        if number == "5" || number == "1" {
            server.kill();
            server = serve();
        }
    }
    let last = tokio::task::spawn_blocking(move || lines.take(12).count());
    assert_eq!(soon("python at the end", last).await.expect("no panic"), 12, "python has ended");
}
