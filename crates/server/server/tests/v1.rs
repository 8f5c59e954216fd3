//! Goal: version 1 of the messenger's protocol carries all that msgr2 carries. Method: an embedded server
//! that speaks version 1 alone, or both, with our client and with stock programs; and our client with a stock
//! cluster (`LOLIGO_STOCK_CONF`), by the addresses of version 1.

mod scratch;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use futures_util::future::try_join_all;
use loligo_rados::{Builder, Rados};
use loligo_server::{Auth, Handle, OsdCount, Server};
use loligo_wire::{AddrKind, EntityAddr, EntityType};

use scratch::Scratch;

const MIB: usize = 1 << 20;

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

fn server(auth: Auth) -> Handle {
    let loopback = LOOPBACK.into();
    let builder = Server::memory().mon_addr(loopback).msgr2(false).auth(auth).pool("p");
    builder.start().expect("the server starts")
}

/// `mon host` of a configuration.
fn mon_host(conf: &Path) -> String {
    let text = std::fs::read_to_string(conf).expect("the configuration can be read");
    let line = text.lines().find_map(|line| line.strip_prefix("mon host = "));
    line.expect("it names the monitors").to_owned()
}

async fn connect(conf: &Path, mon_host: &str) -> Rados {
    let conf = conf.to_str().expect("a path in UTF-8");
    let builder = Builder::new().conf_file(conf).set("mon_host", mon_host);
    builder.set("client_mount_timeout", "30").connect().await.expect("connects")
}

/// Objects of many sizes, written and read at the same time.
async fn use_a_pool(rados: &Rados) {
    let io = rados.ioctx("p").await.expect("the pool");
    let content =
        |i: usize| -> Bytes { (0..i * i * 997 % (3 * MIB)).map(|at| ((at * i) >> 3) as u8).collect() };
    let name = |i: usize| format!("v1-{i}");
    try_join_all((0..40).map(|i| {
        let (io, content) = (io.clone(), content(i));
        async move { io.write_full(name(i), content).await }
    }))
    .await
    .expect("written");
    let read = try_join_all((0..40).map(|i| {
        let io = io.clone();
        async move { io.read(name(i), 0, 4 * MIB as u64).await }
    }))
    .await
    .expect("read");
    for (i, read) in read.into_iter().enumerate() {
        assert!(read == content(i), "object {i}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn our_client_uses_version_1_where_there_is_nothing_else() {
    for auth in [Auth::Cephx, Auth::None] {
        let server = server(auth);
        let monitors = mon_host(server.conf());
        assert!(monitors.starts_with("[v1:127.0.0.1:") && !monitors.contains("v2:"), "{monitors}");
        let rados = connect(server.conf(), &monitors).await;
        use_a_pool(&rados).await;
        rados.shutdown().await;
        server.shutdown().await;
    }
}

/// A bare address is tried with both versions.
#[tokio::test(flavor = "multi_thread")]
async fn the_version_of_a_monitor_is_found() {
    let server = server(Auth::Cephx);
    let monitors = mon_host(server.conf());
    let bare = monitors.trim_matches(['[', ']']).trim_start_matches("v1:");
    let rados = connect(server.conf(), bare).await;
    use_a_pool(&rados).await;
    rados.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_other_version_is_told() {
    let server = server(Auth::Cephx);
    let monitors = mon_host(server.conf()).replace("v1:", "v2:");
    let conf = server.conf().to_str().expect("a path in UTF-8");
    let builder = Builder::new().conf_file(conf).set("mon_host", &monitors);
    let error = builder.set("client_mount_timeout", "1").connect().await.expect_err("it is not msgr2");
    assert!(error.to_string().contains("v1:HOST:PORT"), "{error}");
}

/// The addresses of monitor and OSDs, without the nonce, which OSDs choose at each start.
fn places(server: &Handle) -> Vec<EntityAddr> {
    let found = server.daemons().iter().filter(|daemon| daemon.name.kind != EntityType::MGR);
    found.flat_map(|daemon| daemon.addrs.0.iter().map(|addr| addr.with_nonce(0))).collect()
}

/// Running clients look for the daemons where they were.
#[tokio::test(flavor = "multi_thread")]
async fn ports_stay_the_same_over_a_restart() {
    let dir = Scratch::new("v1-ports");
    for (name, msgr2) in [("both", true), ("v1", false)] {
        let start = || {
            let builder = Server::memory().data_dir(dir.path().join(name)).msgr2(msgr2).pool("p");
            builder.mon_addr_v1(LOOPBACK.into()).start().expect("the server starts")
        };
        let first = start();
        let before = places(&first);
        assert_eq!(before.len(), if msgr2 { 4 } else { 2 }, "{before:?}");
        let rados = connect(first.conf(), &mon_host(first.conf())).await;
        use_a_pool(&rados).await;
        first.shutdown().await;
        let second = start();
        assert_eq!(places(&second), before);
        // The client finds the server again.
        use_a_pool(&rados).await;
        rados.shutdown().await;
        second.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn maps_and_ceph_conf_name_both_addresses() {
    let builder = Server::memory().mon_addr_v1(LOOPBACK.into()).osds(OsdCount::new(2).expect("few"));
    let server = builder.pool("p").start().expect("the server starts");
    let kinds = |daemon: &loligo_server::Listening| daemon.addrs.0.iter().map(|a| a.kind).collect::<Vec<_>>();
    for daemon in server.daemons() {
        assert_eq!(kinds(daemon), [AddrKind::Msgr2, AddrKind::Legacy], "{}", daemon.name);
    }
    let monitors = mon_host(server.conf());
    let [v2, v1] = monitors.trim_matches(['[', ']']).split(',').collect::<Vec<_>>()[..] else {
        panic!("{monitors}");
    };
    assert!(v2.starts_with("v2:127.0.0.1:") && v1.starts_with("v1:127.0.0.1:"), "{monitors}");
    // Each address alone leads to the same maps.
    for mon_host in [v2, v1, &monitors] {
        let rados = connect(server.conf(), mon_host).await;
        use_a_pool(&rados).await;
        let dump = |prefix: &str| {
            let command = serde_json::json!({"prefix": prefix, "format": "json"}).to_string();
            let rados = rados.clone();
            async move {
                let (dump, _) = rados.mon_command(&command, Bytes::new()).await.expect("answered");
                serde_json::from_slice::<serde_json::Value>(&dump).expect("JSON")
            }
        };
        let types = |addrs: &serde_json::Value| {
            let all = addrs["addrvec"].as_array().expect("a list").iter();
            all.map(|addr| addr["type"].as_str().expect("a word").to_owned()).collect::<Vec<_>>()
        };
        let (mon, osd) = (dump("mon dump").await, dump("osd dump").await);
        assert_eq!(types(&mon["mons"][0]["public_addrs"]), ["v2", "v1"], "{mon}");
        for i in 0..2 {
            assert_eq!(types(&osd["osds"][i]["public_addrs"]), ["v2", "v1"], "{osd}");
        }
        rados.shutdown().await;
    }
}

/// Without msgr2 the address for version 1 is the monitor's, and the other daemons listen at its host.
#[test]
fn all_daemons_are_at_the_host_that_is_served() {
    let elsewhere = SocketAddr::from(([127, 0, 0, 2], 0));
    let server = Server::memory().mon_addr_v1(elsewhere).msgr2(false).start().expect("the server starts");
    let hosts: Vec<_> = server.daemons().iter().map(|daemon| daemon.at.ip()).collect();
    assert!(!hosts.is_empty() && hosts.iter().all(|host| *host == elsewhere.ip()), "{hosts:?}");
}

/// Kernel clients speak version 1 by default; `rbd map` of stock Ceph finds no address of it in the map.
#[test]
fn rbd_map_is_told_what_is_served() {
    let read = |server: &Handle| std::fs::read_to_string(server.conf()).expect("the configuration");
    let line = "\nrbd default map options = ms_mode=prefer-crc\n";
    let v2 = Server::memory().start().expect("the server starts");
    assert!(read(&v2).contains(line), "{}", read(&v2));
    for server in
        [server(Auth::Cephx), Server::memory().mon_addr_v1(LOOPBACK.into()).start().expect("starts")]
    {
        assert!(!read(&server).contains("map options"), "{}", read(&server));
    }
}

/// Runs a stock program with the server's configuration; it must succeed.
fn stock(conf: &Path, program: &str, args: &[&str]) -> String {
    let run = Command::new("timeout").arg("60").arg(program).args(args).env("CEPH_CONF", conf).output();
    let run = run.unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(run.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_programs_use_version_1() {
    for auth in [Auth::Cephx, Auth::None] {
        let server = server(auth);
        let conf = server.conf();
        let dump = stock(conf, "ceph", &["mon", "dump"]);
        assert!(dump.contains("v1:127.0.0.1:") && !dump.contains("v2:"), "{dump}");
        stock(conf, "rados", &["-p", "p", "bench", "2", "write", "-b", "65536", "--no-cleanup"]);
        stock(conf, "rados", &["-p", "p", "bench", "2", "seq"]);
        stock(conf, "rbd", &["create", "p/image", "--size", "64M"]);
        stock(conf, "rbd", &["bench", "p/image", "--io-type", "write", "--io-total", "16M"]);
        assert!(stock(conf, "rbd", &["ls", "p"]).contains("image"));
    }
}

/// Stock programs choose by the addresses that they are given.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn stock_programs_use_either_of_two_addresses() {
    let builder = Server::memory().mon_addr_v1(LOOPBACK.into()).pool("p");
    let server = builder.start().expect("the server starts");
    let conf = server.conf();
    let monitors = mon_host(conf);
    let [v2, v1] = monitors.trim_matches(['[', ']']).split(',').collect::<Vec<_>>()[..] else {
        panic!("{monitors}");
    };
    for mon_host in [v2, v1, &monitors] {
        let dump = stock(conf, "ceph", &["-m", mon_host, "mon", "dump"]);
        assert!(dump.contains("[v2:127.0.0.1:") && dump.contains(",v1:127.0.0.1:"), "{dump}");
        let osds = stock(conf, "ceph", &["-m", mon_host, "osd", "dump"]);
        assert!(osds.contains("[v2:127.0.0.1:") && osds.contains(",v1:127.0.0.1:"), "{osds}");
        stock(conf, "rados", &["-m", mon_host, "-p", "p", "bench", "1", "write", "-b", "4096"]);
    }
}

/// The stock cluster's monitors and OSDs have both addresses; `LOLIGO_STOCK_CONF` may also name a cluster
/// without msgr2.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn our_client_reaches_stock_monitors_by_version_1() {
    let conf = std::env::var_os("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    let conf = Path::new(&conf);
    let monitors = mon_host(conf);
    let v1: Vec<_> = monitors.split(['[', ']', ',']).filter(|addr| addr.starts_with("v1:")).collect();
    let rados = connect(conf, &v1.join(",")).await;
    use_a_pool(&rados).await;
    rados.shutdown().await;
}
