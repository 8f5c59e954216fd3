//! Goal: a server that shows several OSDs serves replicated and erasure-coded pools as a cluster does.
//! Method: our client, on an embedded server; Ceph's own tests (`cargo xtask test suites`) do the same
//! with stock clients.

mod scratch;

use std::path::Path;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{Builder, Errno, Error, IoCtx, Rados, ReadFrom};
use loligo_server::{Handle, OsdCount, Server};

use scratch::Scratch;

const OBJECTS: u32 = 64;
const STRIPE: usize = 8192;

fn server() -> Handle {
    Server::memory()
        .osds(OsdCount::new(3).expect("a number"))
        .pool("copies")
        .start()
        .expect("the server starts")
}

async fn connect(conf: &Path) -> Rados {
    let conf = conf.to_str().expect("a path in UTF-8");
    Builder::new().conf_file(conf).set("rados_osd_op_timeout", "60").connect().await.expect("connects")
}

async fn tell_mon(rados: &Rados, command: &str) -> String {
    let (output, _) =
        rados.mon_command(&format!("{{{command}}}"), Bytes::new()).await.expect("it is carried out");
    String::from_utf8_lossy(&output).into_owned()
}

async fn erasure_pool(rados: &Rados, name: &str) -> IoCtx {
    let profile = r#""prefix":"osd erasure-code-profile set","name":"t","profile":["k=2","m=1"]"#;
    tell_mon(rados, profile).await;
    let pool = r#""prefix":"osd pool create","pg_num":8,"pool_type":"erasure","erasure_code_profile":"t""#;
    tell_mon(rados, &format!(r#"{pool},"pool":"{name}""#)).await;
    rados.ioctx(name).await.expect("just made")
}

fn errno(result: Result<(), Error>) -> Option<Errno> {
    result.err().map(|e| e.errno())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_found_through_the_doors_of_all_osds() {
    let server = server();
    assert_eq!(server.osd_addrs().len(), 3);
    let rados = connect(server.conf()).await;
    let io = rados.ioctx("copies").await.expect("it is there");
    for i in 0..OBJECTS {
        io.write_full(format!("o{i}"), Bytes::from(format!("data {i}"))).await.expect("written");
    }
    // Any copy may be read if the client allows it.
    for io in [io.clone(), io.reading_from(ReadFrom::Balanced)] {
        for i in 0..OBJECTS {
            assert_eq!(io.read(format!("o{i}"), 0, 100).await.expect("read"), format!("data {i}"));
        }
    }
    let listed: Vec<_> =
        rados.ioctx("copies").await.expect("it is there").objects().try_collect().await.expect("listed");
    assert_eq!(listed.len(), OBJECTS as usize);
    let size = tell_mon(&rados, r#""prefix":"osd pool get","pool":"copies","var":"size""#).await;
    assert_eq!(size, "size: 3\n");
    rados.shutdown().await;
}

/// The expected replies are those of OSDs of 16.2.15.
#[tokio::test(flavor = "multi_thread")]
async fn erasure_coded_pools_take_whole_stripes_and_no_omaps() {
    let server = server();
    let rados = connect(server.conf()).await;
    let io = erasure_pool(&rados, "ec").await;
    let stripe = || Bytes::from(vec![7; STRIPE]);
    let refused = Some(Errno::EOPNOTSUPP);
    io.write("o", 0, stripe()).await.expect("a stripe");
    io.append("o", stripe()).await.expect("another stripe");
    assert_eq!(errno(io.write("o", 0, stripe()).await), refused, "an overwrite");
    assert_eq!(errno(io.truncate("o", 0).await), refused);
    assert_eq!(errno(io.zero("o", 0, 10).await), refused);
    io.append("o", Bytes::from_static(b"the end")).await.expect("the last piece may be short");
    assert_eq!(errno(io.append("o", stripe()).await), refused, "behind a piece that is short");
    assert_eq!(io.stat("o").await.expect("it is there").size, 2 * STRIPE as u64 + 7);
    io.set_xattr("o", "a", Bytes::from_static(b"b")).await.expect("attributes are allowed");
    let omap = [(b"k".to_vec(), Bytes::from_static(b"v"))];
    assert_eq!(errno(io.set_omap("o", omap.clone()).await), refused);
    io.write_full("o", Bytes::from_static(b"anew")).await.expect("a whole object");
    let allow = r#""prefix":"osd pool set","pool":"ec","var":"allow_ec_overwrites","val":"true""#;
    tell_mon(&rados, allow).await;
    io.write("o", 1, Bytes::from_static(b"N")).await.expect("overwrites are allowed by now");
    assert_eq!(io.read("o", 0, 10).await.expect("read"), "aNew");
    assert_eq!(errno(io.set_omap("o", omap).await), refused);
    rados.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn osds_are_added_at_a_restart_and_none_is_taken_away() {
    let dir = Scratch::new("osds");

    let start = |osds: Option<usize>| {
        let server = Server::memory().data_dir(dir.file("data"));
        match osds.and_then(OsdCount::new) {
            Some(count) => server.osds(count).start(),
            None => server.start(),
        }
    };
    drop(start(None).expect("with one OSD"));
    drop(start(Some(3)).expect("with two more"));
    let kept = start(None).expect("with as many as before").osd_addrs().len();
    assert_eq!(kept, 3);
    let refused = start(Some(2)).expect_err("pools may need them").to_string();
    assert!(refused.contains("--osds 3"), "{refused}");
}
