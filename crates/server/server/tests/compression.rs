//! Our client and our server compress their traffic. Goal: data arrives complete, much less is
//! transferred, and clients that do not want compression are served as before. Method: proxies that
//! count bytes, and compressible data. Compression by stock OSDs is tested in `releases.rs`.

use std::sync::Arc;

use bytes::Bytes;
use loligo_msgr::testing::{FaultProxies, FaultProxy};
use loligo_rados::{Builder, Rados};
use loligo_server::{Compression, Handle, Method, Server};
use loligo_wire::EntityType;

const LEN: usize = 4 << 20;

fn text() -> Bytes {
    let line = |n: usize| format!("{n:08} what is said again and again\n");
    let text: Vec<u8> = (0..).flat_map(|n| line(n).into_bytes()).take(LEN).collect();
    text.into()
}

fn server(methods: &[Method], secure: bool) -> Handle {
    let compression = Compression { methods: methods.to_vec(), frame_len_min: 1024, secure };
    Server::memory().pool("p").compression(compression).start().expect("it starts")
}

async fn client(server: &Handle, proxies: &Arc<FaultProxies>, settings: &[(&str, &str)]) -> Rados {
    let mut builder = Builder::new().conf_file(server.conf().to_str().expect("UTF-8"));
    for (option, value) in settings {
        builder = builder.set(option, value);
    }
    let proxies = Arc::clone(proxies);
    builder
        .reroute(move |kind, to| if kind == EntityType::OSD { proxies.route(to) } else { to })
        .connect()
        .await
        .expect("connects")
}

/// Writes and reads. Returns the number of bytes that the OSD's connection carried in both directions.
async fn carried(server: &Handle, settings: &[(&str, &str)]) -> u64 {
    let proxies = Arc::new(FaultProxies::new(1, u64::MAX, 0));
    let pool = client(server, &proxies, settings).await.ioctx("p").await.expect("the pool");
    let text = text();
    pool.write_full("o", text.clone()).await.expect("written");
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), text);
    pool.append("o", Bytes::from_static(b"short")).await.expect("appended");
    assert_eq!(pool.read("o", text.len() as u64, 0).await.expect("read"), "short");
    proxies.sum(FaultProxy::carried)
}

#[tokio::test(flavor = "multi_thread")]
async fn less_travels_with_each_method() {
    for method in Method::ALL {
        let server = server(&Method::ALL, true);
        for mode in ["crc", "secure"] {
            let settings = [
                ("ms_client_mode", mode),
                ("ms_osd_compress_mode", "force"),
                ("ms_osd_compression_algorithm", method.name()),
                ("ms_compress_secure", "true"),
            ];
            let carried = carried(&server, &settings).await;
            assert!(carried < LEN as u64, "{method:?}, {mode}: {carried}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_want_it_is_served_as_before() {
    let compressing = server(&[Method::Lz4], false);
    assert!(carried(&compressing, &[]).await > 2 * LEN as u64);
    let force = ("ms_osd_compress_mode", "force");
    assert!(carried(&compressing, &[force]).await > 2 * LEN as u64, "snappy is not what the server takes");
    let lz4 = ("ms_osd_compression_algorithm", "lz4");
    assert!(carried(&compressing, &[force, lz4, ("ms_client_mode", "secure")]).await > 2 * LEN as u64);
    assert!(carried(&compressing, &[force, lz4]).await < LEN as u64);
    let plain = Server::memory().pool("p").start().expect("it starts");
    assert!(carried(&plain, &[force, lz4]).await > 2 * LEN as u64);
}
