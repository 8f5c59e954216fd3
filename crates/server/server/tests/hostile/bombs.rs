//! Compressed messages that are very much longer after decompression.

use std::sync::Arc;

use bytes::Bytes;
use loligo_msgr::ConnectAuth as _;
use loligo_server::{Compression, Method, Server};
use loligo_wire::EntityType;
use loligo_wire::message::osd::{OsdFlags, OsdOp};
use tokio::io::AsyncWriteExt as _;

use crate::attacker::{Attacker, builder, osd_addr, soon, user};
use crate::counting::Peak;
use crate::wire::{Wire, request};

/// The decompressed length of each message, and the number of messages in one write to the socket.
const LEN: usize = 64 << 20;
const COUNT: usize = 40;
/// The server may hold one message in transfer for each connection, its decoder's copy, and the messages
/// that wait for execution.
const MEMORY_MAX: usize = 1 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_compressed_takes_no_memory_that_is_not_charged() {
    let methods = Method::ALL.to_vec();
    let server = Server::memory()
        .pool("p")
        .pg_num(1)
        .compression(Compression { methods, frame_len_min: 1, secure: false })
        .start()
        .expect("the server starts");
    let admin = builder(&server).connect().await.expect("connects");
    let pool = admin.pool_id("p").await.expect("the pool");
    let auth = user(&server, &admin, "bomber", "allow rw pool=p").await;
    let addr = ("127.0.0.1:0".parse().expect("an address"), 3);
    // Fetches the tickets.
    let mut first = Attacker::connect(&server, &admin, &auth, addr, None).await;
    assert_eq!(first.write(pool).await, 0);
    let osd = osd_addr(&admin, &server).await;
    let zeros = Bytes::from(vec![0; LEN]);
    let honest = admin.ioctx("p").await.expect("the pool");
    // Snappy is left out: it compresses the message to 3 MiB only. LZ4 compresses it to 256 KiB.
    for method in [Method::Zstd, Method::Zlib, Method::Lz4] {
        let connector = Arc::clone(&auth).connector(EntityType::OSD);
        let wanted = Compression { methods: vec![method], frame_len_min: 1, secure: false };
        let mut wire = Wire::open(osd, connector, wanted).await.expect("a session");
        // Beyond the maximum size of an object: refused once received.
        let write = OsdOp::write(u64::MAX / 2, zeros.clone());
        let bomb = wire.sealed(&request(pool, admin.map_epoch(), write, OsdFlags::WRITE), 1);
        assert!(bomb.len() < LEN / 200, "{method:?}: {} bytes", bomb.len());
        let mut all = bomb.repeat(COUNT);
        let probe = request(pool, admin.map_epoch(), OsdOp::read(0, 1), OsdFlags::READ);
        all.extend_from_slice(&wire.sealed(&probe, 2));
        let peak = Peak::from_now();
        soon("the attack", wire.stream.write_all(&all)).await.expect("it takes it");
        soon("a write", honest.write_full("honest", "x".into())).await.expect("written");
        assert_eq!(soon("the last answer", wire.answer(2)).await.expect("it answers"), 0);
        let bytes = peak.bytes();
        assert!(bytes < MEMORY_MAX, "{method:?}: {COUNT} messages took {} MiB", bytes >> 20);
        println!("{method:?}: {} bytes that become {} took {bytes}", all.len(), COUNT * LEN);
    }
    assert_eq!(honest.read("honest", 0, 0).await.expect("read"), "x");
}
