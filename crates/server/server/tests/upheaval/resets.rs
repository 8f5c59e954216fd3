//! Connections to both ports of the server are reset at random bytes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_msgr::testing::FaultProxy;
use loligo_rados::IoCtx;
use loligo_server::Server;
use loligo_wire::EntityType;
use tokio::runtime::Handle as Runtime;

use crate::common::{PYTHON_HEAD, Running, builder, connect, soon};

const OBJECTS: usize = 12;
/// Appends in flight on each object.
const WINDOW: usize = 4;
/// The most bytes that a connection carries: a handshake and some tens of appends of up to 900 bytes.
const LIFE_MAX: u64 = 20_000;

/// The data of the `i`th append to an object: its number, padded to a length of up to `scale` times 900
/// bytes.
fn token(i: usize, scale: usize) -> Vec<u8> {
    let mut bytes = format!("{i:07}|").into_bytes();
    bytes.resize(8 + i * 37 % 900 * scale, b'.');
    bytes
}

/// Appends to one object while `go_on` is set, [`WINDOW`] at once, in order. Returns the number of
/// appends.
async fn append(pool: IoCtx, name: String, scale: usize, go_on: Arc<AtomicBool>) -> (String, usize) {
    let mut count = 0;
    while go_on.load(Ordering::Relaxed) {
        let window =
            (count..count + WINDOW).map(|i| pool.append(name.as_str(), Bytes::from(token(i, scale))));
        for appended in soon("appends", join_all(window)).await {
            appended.expect("appended");
        }
        count += WINDOW;
    }
    (name, count)
}

/// Checks that an object consists of all appends: once, in order, complete.
async fn check(pool: &IoCtx, name: &str, count: usize, scale: usize, seed: u64) {
    let got = soon("a read", pool.read(name, 0, 0)).await.expect("read");
    let expected: Vec<u8> = (0..count).flat_map(|i| token(i, scale)).collect();
    let differ = got.iter().zip(&expected).position(|(a, b)| a != b);
    assert!(
        got == expected,
        "seed {seed}: {name} has {} bytes, expected {} of {count} appends; differs at {differ:?}",
        got.len(),
        expected.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn our_appends_happen_once_and_in_order() {
    for (seed, scale) in [(11, 1), (12, 1), (13, 80)] {
        let server = Server::memory().pool("data").start().expect("the server starts");
        let mon = FaultProxy::start(server.mon_addr(), seed, LIFE_MAX, 5).expect("a proxy");
        let osd =
            FaultProxy::start(server.osd_addr(), seed + 100, LIFE_MAX * scale as u64, 15).expect("a proxy");
        let (to_mon, to_osd) = (mon.addr(), osd.addr());
        let through = move |kind, _: SocketAddr| if kind == EntityType::MON { to_mon } else { to_osd };
        let rados = builder(server.conf()).reroute(through).connect().await.expect("connects");
        let pool = rados.ioctx("data").await.expect("the pool");
        let go_on = Arc::new(AtomicBool::new(true));
        let writers: Vec<_> = (0..OBJECTS)
            .map(|i| tokio::spawn(append(pool.clone(), format!("o{i}"), scale, Arc::clone(&go_on))))
            .collect();
        // The monitor must be kept busy too, otherwise its connection would not carry many bytes.
        while osd.faults() < 15 || mon.faults() < 2 {
            let command = r#"{"prefix": "osd dump", "format": "json"}"#;
            soon("a command", rados.mon_command(command, Bytes::new())).await.expect("answered");
        }
        go_on.store(false, Ordering::Relaxed);
        let (_direct, direct) = connect(server.conf()).await;
        for writer in writers {
            let (name, count) = soon("a writer", writer).await.expect("no panic");
            check(&direct, &name, count, scale, seed).await;
        }
    }
}

/// The number of the stock client's appends to each object.
const STOCK_APPENDS: usize = 160;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_stock_clients_appends_happen_once_and_in_order() {
    for seed in [21, 22] {
        let (runtime, (started, proxies)) = (Runtime::current(), std::sync::mpsc::channel());
        // The server announces the proxies' addresses, since stock clients connect to the addresses in
        // the maps.
        let announce = move |kind, addr: SocketAddr| {
            let (bytes_max, faults_max) = if kind == EntityType::MON { (20_000, 2) } else { (LIFE_MAX, 20) };
            let _ours = runtime.enter();
            let proxy = FaultProxy::start(addr, seed, bytes_max, faults_max).expect("a proxy");
            let told = proxy.addr();
            started.send((kind, proxy)).expect("the test waits");
            told
        };
        let server = Server::memory().pool("data").announce(announce).start().expect("the server starts");
        let proxies: Vec<(EntityType, FaultProxy)> = proxies.try_iter().collect();
        let script = format!(
            "{PYTHON_HEAD}\
             def token(i): return (b'%07d|' % i).ljust(8 + i * 37 % 900, b'.')\n\
             for first in range(0, {STOCK_APPENDS}, {WINDOW}):\n\
             \x20   done = [io.aio_append('o%d' % o, token(first + w)) for w in range({WINDOW}) for o in range({OBJECTS})]\n\
             \x20   for d in done: d.wait_for_complete()\n\
             \x20   assert all(d.get_return_value() == 0 for d in done)\n"
        );
        let conf = server.conf().to_str().expect("a path in UTF-8");
        let python = Running::start("/usr/bin/python3", &["-c", &script, conf], server.conf());
        let python = tokio::task::spawn_blocking(move || python.succeed("python"));
        soon("python's appends", python).await.expect("no panic");
        let faults: Vec<_> = proxies.iter().map(|(kind, proxy)| (*kind, proxy.faults())).collect();
        assert!(faults.iter().any(|(kind, n)| *kind == EntityType::OSD && *n > 8), "seed {seed}: {faults:?}");
        let (_rados, pool) = connect(server.conf()).await;
        for i in 0..OBJECTS {
            check(&pool, &format!("o{i}"), STOCK_APPENDS, 1, seed).await;
        }
    }
}
