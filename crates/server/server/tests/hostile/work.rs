//! Small requests that cause much work, or many messages.

use std::array;

use bytes::{BufMut as _, Bytes, BytesMut};
use loligo_server::Handle;
use loligo_wire::message::osd::{ChecksumArgs, OpCode, OpFlags, OsdFlags, OsdOp, WatchArgs};
use loligo_wire::{AddrKind, Errno, PoolId};

use crate::attacker::{Attacker, builder, user};
use crate::versions::{both_versions, server_of};

const EMSGSIZE: i32 = Errno::EMSGSIZE.to_result();

async fn start(speaks: AddrKind) -> (Handle, Attacker, PoolId) {
    let server = server_of(speaks).pool("p").pg_num(1).start().expect("the server starts");
    let admin = builder(&server).connect().await.expect("connects");
    let pool = admin.pool_id("p").await.expect("the pool");
    let auth = user(&server, &admin, "a", "allow rw pool=p").await;
    let addr = ("127.0.0.1:0".parse().expect("an address"), 5);
    let mut attacker = Attacker::connect(&server, &admin, &auth, addr, None).await;
    assert_eq!(attacker.write(pool).await, 0);
    (server, attacker, pool)
}

fn failok(op: OsdOp) -> OsdOp {
    op.with_flags(OpFlags::FAILOK)
}

/// Operations flagged FAILOK count against the work limit of a request, as all others do.
#[tokio::test(flavor = "multi_thread")]
async fn what_may_fail_costs_as_much_as_what_may_not() {
    let (_server, mut attacker, pool) = start(AddrKind::Msgr2).await;
    let value = vec![b'v'; 1 << 20];
    for number in 0..8 {
        let name = format!("a{number}");
        let set = OsdOp::xattr(OpCode::SETXATTR, name.as_bytes(), &value, 0, 0);
        assert_eq!(attacker.run(pool, "o", [set], OsdFlags::WRITE).await, 0);
    }
    let get = || failok(OsdOp::new(OpCode::GETXATTRS));
    let few: [OsdOp; 4] = array::from_fn(|_| get());
    assert_eq!(attacker.run(pool, "o", few, OsdFlags::READ).await, 0, "what an honest client asks for");
    let many: [OsdOp; 100] = array::from_fn(|_| get());
    assert_eq!(attacker.run(pool, "o", many, OsdFlags::READ).await, EMSGSIZE);
    let one = || failok(OsdOp::xattr(OpCode::GETXATTR, b"a1", b"", 0, 0));
    let many: [OsdOp; 1000] = array::from_fn(|_| one());
    assert_eq!(attacker.run(pool, "o", many, OsdFlags::READ).await, EMSGSIZE);
}

#[tokio::test(flavor = "multi_thread")]
async fn heavy_requests_are_executed_all_the_same() {
    let (_server, mut attacker, pool) = start(AddrKind::Msgr2).await;
    let size = 100 << 20;
    assert_eq!(attacker.run(pool, "o", [OsdOp::truncate(size)], OsdFlags::WRITE).await, 0);
    let sum = |chunk_size| {
        let args = ChecksumArgs { kind: ChecksumArgs::CRC32C, chunk_size, offset: 0, length: size };
        OsdOp::checksum(args, Bytes::from_static(&[0; 4]))
    };
    assert_eq!(attacker.run(pool, "o", [sum(4 << 20), sum(0)], OsdFlags::READ).await, 0);
    assert_eq!(attacker.run(pool, "o", [sum(0), sum(0), sum(0)], OsdFlags::READ).await, EMSGSIZE);
    assert_eq!(attacker.run(pool, "o", [sum(1)], OsdFlags::READ).await, EMSGSIZE, "a sum of each byte");
    let same = || OsdOp::write_same(0, 64 << 20, Bytes::from_static(&[7; 4096]));
    assert_eq!(attacker.run(pool, "o", [same(), same()], OsdFlags::WRITE).await, 0);
    let more: [OsdOp; 5] = array::from_fn(|_| failok(same()));
    assert_eq!(attacker.run(pool, "o", more, OsdFlags::WRITE).await, EMSGSIZE);
}

fn watch(cookie: u64) -> OsdOp {
    OsdOp::watch(WatchArgs { cookie, op: WatchArgs::WATCH, ..WatchArgs::default() })
}

fn notify() -> OsdOp {
    let mut data = BytesMut::new();
    data.put_u32_le(1);
    data.put_u32_le(30);
    data.put_u32_le(4);
    data.put_slice(b"news");
    OsdOp::notify(1, data.freeze())
}

both_versions!(one_request_causes_so_many_messages_and_no_more);
async fn one_request_causes_so_many_messages_and_no_more(speaks: AddrKind) {
    const WATCHERS: usize = 1000;
    let (_server, mut attacker, pool) = start(speaks).await;
    for first in (0..WATCHERS as u64).step_by(100) {
        let watches: [OsdOp; 100] = array::from_fn(|i| watch(1 + first + i as u64));
        assert_eq!(attacker.run(pool, "o", watches, OsdFlags::WRITE).await, 0);
    }
    let many: [OsdOp; 66] = array::from_fn(|_| notify());
    assert_eq!(attacker.run(pool, "o", many, OsdFlags::READ).await, EMSGSIZE);
    assert_eq!(attacker.told, 0, "nobody is told of what was refused");
    assert_eq!(attacker.run(pool, "o", [notify(), notify()], OsdFlags::READ).await, 0);
    attacker.until_told(2 * WATCHERS).await;
    // Each watch ends once, even if its object is removed and created repeatedly.
    let ops: [OsdOp; 64] = array::from_fn(|i| match i % 2 {
        0 => OsdOp::new(OpCode::DELETE),
        _ => OsdOp::create(false),
    });
    assert_eq!(attacker.run(pool, "o", ops, OsdFlags::WRITE).await, 0);
    // The two notifications end with the watches.
    attacker.until_told(3 * WATCHERS + 2).await;
    for _ in 0..10 {
        assert_eq!(attacker.write(pool).await, 0);
    }
    assert_eq!(attacker.told, 3 * WATCHERS + 2);
}
