//! Clients that make the server read data for them that they may not read.

use bytes::Bytes;
use loligo_server::Server;
use loligo_wire::message::osd::{CopyFrom, ObjectLocator, OpCode, OsdFlags, OsdOp};
use loligo_wire::{Errno, SnapId};

use crate::attacker::{Attacker, builder, user};

const EPERM: i32 = Errno::EPERM.to_result();

/// Stock OSDs check only the pool of the copy.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_allowed_to_whoever_may_read_its_source() {
    let server = Server::memory().pool("p").pool("q").pg_num(1).start().expect("the server starts");
    let admin = builder(&server).connect().await.expect("connects");
    let (p, q) = (admin.pool_id("p").await.expect("a pool"), admin.pool_id("q").await.expect("a pool"));
    for (pool, nspace, object) in
        [("p", "", "mine"), ("p", "", "theirs"), ("q", "", "mine"), ("q", "a", "x"), ("q", "b", "x")]
    {
        let io = admin.ioctx(pool).await.expect("the pool").with_namespace(nspace);
        io.write_full(object, Bytes::from_static(b"secret")).await.expect("written");
    }
    let caps = "allow rw pool=p object_prefix mine, allow r pool=q namespace=a";
    let auth = user(&server, &admin, "copier", caps).await;
    let addr = ("127.0.0.1:0".parse().expect("an address"), 5);
    let mut copier = Attacker::connect(&server, &admin, &auth, addr, None).await;
    let in_q = |nspace: &str| ObjectLocator { nspace: nspace.into(), ..ObjectLocator::in_pool(q) };
    let in_p = || ObjectLocator::in_pool(p);
    let by_key = |key: &str| ObjectLocator { key: key.into(), ..in_p() };
    for (locator, name, result) in [
        (in_p(), "mine", 0),
        (in_p(), "theirs", EPERM),
        (in_q(""), "mine", EPERM),
        (in_q("a"), "x", 0),
        (in_q("b"), "x", EPERM),
        // A locator key replaces the name in the check, as in all other operations; the object does not
        // exist.
        (by_key("mine"), "theirs", -2),
        (by_key("theirs"), "mine", EPERM),
        // A client without read permission does not learn whether the object exists.
        (in_q("b"), "nothing", EPERM),
    ] {
        for code in [OpCode::COPY_FROM, OpCode::COPY_FROM2] {
            let head = CopyFrom { snapid: SnapId::HEAD, ..CopyFrom::default() };
            let mut copy = OsdOp::copy_from(name.as_bytes(), &locator, head);
            copy.code = code;
            let done = copier.run(p, "mine.copy", [copy], OsdFlags::WRITE).await;
            assert_eq!(done, result, "{code:?} of {name} at {locator:?}");
        }
    }
}
