//! Data that a server on disk has acknowledged exists after a restart, and requests for an object whose
//! metadata must be loaded first are executed in order.

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_server::{Handle, Server};

use crate::common::{Scratch, connect, soon};

fn start(scratch: &Scratch) -> Handle {
    Server::disk(&scratch.0).capacity_bytes(1 << 30).pool("data").start().expect("the server starts")
}

fn contents(len: usize) -> Bytes {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

const SIZES: [usize; 6] = [0, 10, 4096, 70_000, 200_001, 5 << 20];

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_disk_keeps_what_it_acknowledged() {
    let scratch = Scratch::new("kept");
    let server = start(&scratch);
    let (rados, pool) = connect(server.conf()).await;
    for size in SIZES {
        soon("a write", pool.write_full(format!("o{size}"), contents(size))).await.expect("written");
    }
    soon("a removal", pool.remove("o10")).await.expect("removed");
    server.shutdown().await;
    drop((rados, pool));
    for life in 0..2 {
        let server = start(&scratch);
        let (_rados, pool) = connect(server.conf()).await;
        assert!(soon("a read", pool.read("o10", 0, 0)).await.is_err(), "what was removed stays so");
        for size in SIZES.into_iter().filter(|size| *size != 10) {
            let name = format!("o{size}");
            let appends = (0..30u8).map(|i| pool.append(name.clone(), Bytes::from(vec![i; 7])));
            let all = soon("appends", join_all(appends)).await;
            all.into_iter().for_each(|done| done.expect("appended"));
            let added = (0..30u8).flat_map(|i| [i; 7]);
            let expected: Vec<u8> =
                contents(size).into_iter().chain((0..=life).flat_map(|_| added.clone())).collect();
            let read = soon("a read", pool.read(name, 0, 6 << 20)).await.expect("read");
            assert!(read[..] == expected[..], "{size} bytes, life {life}: {} read", read.len());
        }
        server.shutdown().await;
    }
}
