//! Clients that send many requests and read the replies late, or never.

use bytes::Bytes;
use loligo_msgr::{Policy, Throttle};
use loligo_wire::message::osd::{OsdFlags, OsdOp};
use loligo_wire::{AddrKind, Tid};

use crate::attacker::{Attacker, builder, soon, user};
use crate::versions::{both_versions, server_of};

/// Replies to this many requests exceed the memory that the server has for all clients.
const REQUESTS: u64 = 300;
const LEN: usize = 2 << 20;

both_versions!(who_reads_late_gets_every_answer_and_keeps_nobody_waiting);
async fn who_reads_late_gets_every_answer_and_keeps_nobody_waiting(speaks: AddrKind) {
    let server = server_of(speaks).pool("p").pg_num(1).start().expect("the server starts");
    let admin = builder(&server).connect().await.expect("connects");
    let io = admin.ioctx("p").await.expect("the pool");
    let pool = admin.pool_id("p").await.expect("the pool");
    io.write_full("o", Bytes::from(vec![7; LEN])).await.expect("written");
    let auth = user(&server, &admin, "late", "allow rw pool=p").await;
    let addr = ("127.0.0.1:0".parse().expect("an address"), 5);
    let throttle = Throttle::new(1, u64::MAX);
    let policy = Policy::lossy_client().with_throttle(throttle.clone());
    let mut late = Attacker::connect_by(&server, &admin, &auth, addr, None, policy).await;
    assert_eq!(late.write(pool).await, 0);
    let deaf = throttle.hold(1);
    for _ in 0..REQUESTS {
        late.send(pool, "o", [OsdOp::read(0, 0)], OsdFlags::READ);
    }
    // Reads of the same object, while the server holds as many replies as it keeps for one connection.
    for _ in 0..REQUESTS {
        let read = soon("another client's read", io.read("o", 0, 1)).await.expect("read");
        assert_eq!(read.len(), 1);
    }
    drop(deaf);
    for tid in 2..2 + REQUESTS {
        assert_eq!(late.answer().await, (Tid(tid), 0), "all answers, in order");
    }
}
