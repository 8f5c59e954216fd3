//! Clients that claim another address or identity.

use bytes::{BufMut as _, Bytes, BytesMut};
use loligo_server::Handle;
use loligo_wire::message::osd::{OsdFlags, OsdOp};
use loligo_wire::{AddrKind, Errno, PoolId};
use serde_json::json;

use crate::attacker::{Attacker, builder, command, user};
use crate::versions::{both_versions, server_of};

const EPERM: i32 = Errno::EPERM.to_result();
const ENOENT: i32 = Errno::ENOENT.to_result();
const EBUSY: i32 = Errno::EBUSY.to_result();
const ESHUTDOWN: i32 = Errno::ESHUTDOWN.to_result();

/// A server with one pool, and its administrator.
async fn start(speaks: AddrKind) -> (Handle, loligo_rados::Rados, PoolId) {
    let server = server_of(speaks).pool("p").pg_num(1).start().expect("the server starts");
    let admin = builder(&server).connect().await.expect("connects");
    let pool = admin.pool_id("p").await.expect("the pool");
    (server, admin, pool)
}

both_versions!(the_network_of_a_capability_is_that_of_the_socket);
/// As in a stock OSD, which checks the socket's address (`get_peer_socket_addr`).
async fn the_network_of_a_capability_is_that_of_the_socket(speaks: AddrKind) {
    let (server, admin, pool) = start(speaks).await;
    let elsewhere = user(&server, &admin, "elsewhere", "allow rw pool=p network 10.0.0.0/8").await;
    let here = user(&server, &admin, "here", "allow rw pool=p network 127.0.0.0/8").await;
    for (claimed, nonce) in [("127.0.0.1:0", 5), ("10.1.2.3:0", 6), ("0.0.0.0:0", 7)] {
        let addr = (claimed.parse().expect("an address"), nonce);
        let mut attacker = Attacker::connect(&server, &admin, &elsewhere, addr, None).await;
        assert_eq!(attacker.write(pool).await, EPERM, "as {claimed}");
        // A client behind NAT, which claims its own view of its address, has the rights of its socket's
        // address.
        let mut honest = Attacker::connect(&server, &admin, &here, addr, None).await;
        assert_eq!(honest.write(pool).await, 0, "as {claimed}");
    }
}

both_versions!(a_blocklist_is_not_evaded_by_a_claim);
async fn a_blocklist_is_not_evaded_by_a_claim(speaks: AddrKind) {
    let (server, admin, pool) = start(speaks).await;
    let auth = user(&server, &admin, "a", "allow rw pool=p").await;
    let block = |op: &'static str, addr: &'static str| {
        command(&admin, json!({"prefix": "osd blocklist", "blocklistop": op, "addr": addr}))
    };
    // One client: its nonce is blocked at its host, whatever address it claims.
    block("add", "127.0.0.1:0/77").await;
    for (claimed, nonce, result) in [
        ("127.0.0.1:0", 77, ESHUTDOWN),
        ("10.9.9.9:0", 77, ESHUTDOWN),
        // A new instance of a client is a different client, as in a stock cluster.
        ("127.0.0.1:0", 78, 0),
    ] {
        let addr = (claimed.parse().expect("an address"), nonce);
        let mut client = Attacker::connect(&server, &admin, &auth, addr, None).await;
        assert_eq!(client.write(pool).await, result, "{claimed}/{nonce}");
    }
    // A whole host: no other nonce or address evades the block.
    let mut admins =
        Attacker::connect(&server, &admin, &auth, ("127.0.0.1:0".parse().expect("an address"), 80), None)
            .await;
    assert_eq!(admins.write(pool).await, 0);
    block("add", "127.0.0.1:0/0").await;
    for (claimed, nonce) in [("127.0.0.1:0", 79), ("10.9.9.9:0", 79), ("10.9.9.9:0", 4711)] {
        let addr = (claimed.parse().expect("an address"), nonce);
        let mut client = Attacker::connect(&server, &admin, &auth, addr, None).await;
        assert_eq!(client.write(pool).await, ESHUTDOWN, "{claimed}/{nonce}");
    }
    assert_eq!(admins.write(pool).await, ESHUTDOWN, "also the sessions that there are");
}

/// `lock.lock`: exclusive, with a fixed cookie, without expiry.
fn lock() -> OsdOp {
    let mut input = BytesMut::new();
    put_text(&mut input, "L");
    input.put_u8(1);
    put_text(&mut input, "cookie");
    put_text(&mut input, "");
    put_text(&mut input, "");
    input.put_slice(&[0; 8]);
    input.put_u8(0);
    call("lock", input)
}

/// `lock.unlock` of the same lock.
fn unlock() -> OsdOp {
    let mut input = BytesMut::new();
    put_text(&mut input, "L");
    put_text(&mut input, "cookie");
    call("unlock", input)
}

fn put_text(out: &mut BytesMut, text: &str) {
    out.put_u32_le(u32::try_from(text.len()).expect("short"));
    out.put_slice(text.as_bytes());
}

fn call(method: &str, fields: BytesMut) -> OsdOp {
    let mut input = BytesMut::from(&[1, 1][..]);
    input.put_u32_le(u32::try_from(fields.len()).expect("short"));
    input.extend_from_slice(&fields);
    OsdOp::call("lock", method, &Bytes::from(input))
}

both_versions!(locks_belong_to_the_global_id_of_the_ticket);
async fn locks_belong_to_the_global_id_of_the_ticket(speaks: AddrKind) {
    let (server, admin, pool) = start(speaks).await;
    let addr = |nonce| ("127.0.0.1:0".parse().expect("an address"), nonce);
    let auth = user(&server, &admin, "owner", "allow rwx pool=p").await;
    let mut owner = Attacker::connect(&server, &admin, &auth, addr(11), None).await;
    assert_eq!(owner.run(pool, "l", [lock()], OsdFlags::WRITE).await, 0);
    let info = admin.ioctx("p").await.expect("the pool").lock_info("l", "L").await.expect("a lock");
    let holder = u64::try_from(info.holders[0].client.num).expect("an id");
    let other = user(&server, &admin, "other", "allow rwx pool=p").await;
    for claimed in [None, Some(holder)] {
        let mut thief = Attacker::connect(&server, &admin, &other, addr(11), claimed).await;
        assert_eq!(thief.run(pool, "l", [lock()], OsdFlags::WRITE).await, EBUSY, "{claimed:?}");
        assert_eq!(thief.run(pool, "l", [unlock()], OsdFlags::WRITE).await, ENOENT, "{claimed:?}");
    }
    // The claims to the owner's address did not end its session.
    assert_eq!(owner.run(pool, "l", [unlock()], OsdFlags::WRITE).await, 0);
}
