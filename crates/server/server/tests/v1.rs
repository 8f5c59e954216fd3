//! Goal: version 1 of the messenger's protocol carries all that msgr2 carries. Method: an embedded server
//! that tells clients its addresses of version 1 alone, with our client and with stock programs; and our
//! client with the addresses of version 1 of a stock cluster (`LOLIGO_STOCK_CONF`).

use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use futures_util::future::try_join_all;
use loligo_rados::{Builder, Rados};
use loligo_server::{Auth, Handle, Server};

const MIB: usize = 1 << 20;

fn server(auth: Auth) -> Handle {
    let loopback = ([127, 0, 0, 1], 0).into();
    let builder = Server::memory().mon_addr_v1(loopback).announces_v1_alone().auth(auth).pool("p");
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
