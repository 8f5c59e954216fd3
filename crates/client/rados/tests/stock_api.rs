//! The remaining calls of this client against a stock cluster: omaps, conditions, snapshots, classes,
//! locks. LOLIGO_STOCK_CONF names the cluster's ceph.conf. Its pool `p` is used, and pools are created
//! for snapshots.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use loligo_rados::{
    Builder, Checksum, ChecksumKind, CmpOp, Errno, Error, IoCtx, LockMode, LockOptions, Rados, ReadOp,
    SnapId, WatchNews, WatcherId, WriteOp,
};

async fn rados() -> Rados {
    let conf = std::env::var("LOLIGO_STOCK_CONF").expect("LOLIGO_STOCK_CONF names a ceph.conf");
    Builder::new().conf_file(&conf).connect().await.expect("connects")
}

async fn pool() -> IoCtx {
    rados().await.ioctx("p").await.expect("the pool").with_namespace("api")
}

fn errno<T: std::fmt::Debug>(result: Result<T, Error>) -> i32 {
    match result.expect_err("it must fail") {
        Error::Os(errno) => errno.0,
        other => panic!("{other}"),
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn maps_are_set_read_in_parts_and_cleared() {
    let pool = pool().await;
    let o = "omap";
    let _ = pool.remove(o).await;
    let all: Vec<(String, Bytes)> =
        (0..2500).map(|n| (format!("k{n:04}"), bytes(&format!("v{n}")))).collect();
    pool.set_omap(o, all.iter().map(|(k, v)| (k, v.clone()))).await.expect("set");
    pool.set_omap(o, [("other", bytes("x"))]).await.expect("set");
    let found: Vec<(Bytes, Bytes)> = pool.omap(o, "k").try_collect().await.expect("a stream");
    assert_eq!(found.len(), 2500);
    assert!(found.iter().zip(&all).all(|(found, set)| found.0 == set.0.as_bytes() && found.1 == set.1));
    let page = pool.omap_page(o, "k0007", "k", 2).await.expect("a page");
    assert_eq!(page.pairs, [(bytes("k0008"), bytes("v8")), (bytes("k0009"), bytes("v9"))]);
    assert!(page.more);
    let keys = pool.omap_keys(o, "k2498", 10).await.expect("keys");
    assert_eq!((keys.keys, keys.more), (vec![bytes("k2499"), bytes("other")], false));
    let some = pool.omap_values(o, ["k0001", "none"]).await.expect("values");
    assert_eq!(some, BTreeMap::from([(bytes("k0001"), bytes("v1"))]));
    pool.set_omap_header(o, bytes("head")).await.expect("set");
    assert_eq!(pool.omap_header(o).await.expect("header"), "head");
    pool.remove_omap_keys(o, ["k0001", "none"]).await.expect("removed");
    pool.remove_omap_range(o, "k0000", "k2499").await.expect("removed");
    let left: Vec<(Bytes, Bytes)> = pool.omap(o, "").try_collect().await.expect("a stream");
    assert_eq!(left, [(bytes("k2499"), bytes("v2499")), (bytes("other"), bytes("x"))]);
    pool.clear_omap(o).await.expect("cleared");
    assert_eq!(pool.omap_header(o).await.expect("header"), "");
    assert!(pool.omap(o, "").try_collect::<Vec<_>>().await.expect("a stream").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn conditions_hold_a_request_back() {
    let pool = pool().await;
    let o = "conditions";
    let setup = WriteOp::new()
        .write_full(bytes("hello world"))
        .set_xattr("a", "5")
        .set_omap([("k", bytes("mm"))])
        .create(false);
    pool.operate(o, setup).await.expect("set up");
    let canceled = 125;
    let try_write = |op: WriteOp| pool.operate(o, op.append(bytes("!")));
    assert_eq!(errno(try_write(WriteOp::new().compare_xattr("a", CmpOp::Eq, "6")).await), canceled);
    assert_eq!(errno(try_write(WriteOp::new().compare_xattr_number("a", CmpOp::Lt, 6)).await), canceled);
    assert_eq!(errno(try_write(WriteOp::new().compare_omap("k", CmpOp::Lt, bytes("aa"))).await), canceled);
    assert_eq!(errno(try_write(WriteOp::new().compare_bytes(0, bytes("hellO"))).await), 4095 + 4);
    assert_eq!(errno(try_write(WriteOp::new().assert_version(1 << 60)).await), 75, "EOVERFLOW");
    let met = WriteOp::new()
        .assert_exists()
        .compare_xattr("a", CmpOp::Eq, "5")
        .compare_xattr_number("a", CmpOp::Gt, 6)
        .compare_omap("k", CmpOp::Lt, bytes("zz"))
        .compare_bytes(6, bytes("world"));
    try_write(met).await.expect("all hold");
    assert_eq!(pool.read(o, 0, 0).await.expect("read"), "hello world!");
    let allowed = WriteOp::new().compare_xattr("a", CmpOp::Eq, "6").may_fail().write_full(bytes("abcd"));
    let answers = pool.operate_returning(o, allowed).await.expect("it may fail");
    assert_eq!(answers.iter().map(|answer| answer.result).collect::<Vec<_>>(), [-canceled, 0]);
    pool.operate(o, WriteOp::new().write_same(4, 6, bytes("xyz"))).await.expect("written");
    let reads = ReadOp::new()
        .stat()
        .read(2, 4)
        .xattr("a")
        .xattr("none")
        .may_fail()
        .xattrs()
        .omap("", "", 10)
        .omap_keys("", 10)
        .omap_values(["k"])
        .omap_header()
        .sparse_read(0, 100)
        .checksum(Checksum { kind: ChecksumKind::Crc32c, seed: u64::MAX, offset: 0, len: 8, chunk: 4 });
    let answers = pool.operate_read(o, reads).await.expect("read");
    assert_eq!(answers[0].stat().expect("stat").size, 10);
    assert_eq!((&answers[1].data[..], &answers[2].data[..]), (&b"cdxy"[..], &b"5"[..]));
    assert_eq!(answers[3].result, -61, "ENODATA");
    assert_eq!(answers[4].map().expect("names"), BTreeMap::from([(bytes("a"), bytes("5"))]));
    assert_eq!(answers[5].omap().expect("pairs").pairs, [(bytes("k"), bytes("mm"))]);
    assert_eq!(answers[6].omap_keys().expect("keys").keys, [bytes("k")]);
    assert_eq!(answers[7].map().expect("pairs").len(), 1);
    assert!(answers[8].data.is_empty());
    assert_eq!(answers[9].sparse().expect("ranges"), [(0, bytes("abcdxyzxyz"))]);
    let sums = answers[10].checksums(ChecksumKind::Crc32c).expect("sums");
    let crc = |data: &[u8]| u64::from(loligo_wire::crc::crc32c(u32::MAX, data));
    assert_eq!(sums, [crc(b"abcd"), crc(b"xyzx")]);
    let copy = WriteOp::new().copy_from(&pool, o, 0);
    pool.operate("copy", copy).await.expect("copied");
    assert_eq!(pool.read("copy", 0, 0).await.expect("read"), "abcdxyzxyz");
    assert_eq!(pool.xattr("copy", "a").await.expect("read"), "5");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn snapshots_keep_what_was() {
    let rados = rados().await;
    let name = format!("snaps-{}", rados.instance_id().0);
    rados.create_pool(&name).await.expect("made");
    let pool = rados.ioctx(&name).await.expect("there");
    pool.write_full("o", bytes("one")).await.expect("written");
    pool.create_snapshot("first").await.expect("made");
    let first = pool.snapshot("first").expect("in the map").id;
    pool.write_full("o", bytes("two")).await.expect("written");
    assert_eq!(pool.at_snapshot(first).read("o", 0, 0).await.expect("read"), "one");
    assert_eq!(errno(pool.at_snapshot(first).write_full("o", bytes("x")).await), Errno::EROFS.0);
    let clones = pool.object_snapshots("o").await.expect("listed").clones;
    assert_eq!(clones.iter().map(|clone| clone.id).collect::<Vec<_>>(), [first, SnapId::HEAD]);
    pool.rollback("o", first).await.expect("rolled back");
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), "one");
    assert_eq!(
        errno(pool.create_managed_snapshot().await),
        Errno::EINVAL.0,
        "a pool has snapshots of one kind"
    );
    pool.remove_snapshot("first").await.expect("removed");
    assert_eq!(errno(pool.remove_snapshot("first").await), Errno::ENOENT.0);
    assert!(pool.snapshots().expect("the pool").is_empty());

    let name = format!("managed-{}", rados.instance_id().0);
    rados.create_pool(&name).await.expect("made");
    let pool = rados.ioctx(&name).await.expect("there");
    pool.write_full("o", bytes("one")).await.expect("written");
    let snap = pool.create_managed_snapshot().await.expect("an id");
    let writer = pool.with_snap_context(snap, &[snap]).expect("descends");
    writer.write_full("o", bytes("two")).await.expect("written");
    assert_eq!(pool.at_snapshot(snap).read("o", 0, 0).await.expect("read"), "one");
    writer.rollback("o", snap).await.expect("rolled back");
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), "one");
    assert!(pool.with_snap_context(snap, &[SnapId(1), SnapId(2)]).is_err(), "they must descend");
    pool.remove_managed_snapshot(snap).await.expect("removed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn methods_are_called_and_locks_held() {
    let pool = pool().await;
    let o = "locked";
    let _ = pool.remove(o).await;
    pool.create(o, false).await.expect("made");
    let said = pool.exec(o, "hello", "say_hello", b"you").await.expect("called");
    assert_eq!(said, "Hello, you!");
    assert_eq!(errno(pool.exec(o, "hello", "none", b"").await), Errno::EOPNOTSUPP.0);
    let options = LockOptions {
        cookie: "c".into(),
        description: "why".into(),
        duration: Some(Duration::from_secs(60)),
        ..LockOptions::default()
    };
    pool.lock(o, "l", LockMode::Exclusive, &options).await.expect("free");
    assert_eq!(errno(pool.lock(o, "l", LockMode::Exclusive, &options).await), Errno::EEXIST.0);
    let renew = LockOptions { renew: true, ..options.clone() };
    pool.lock(o, "l", LockMode::Exclusive, &renew).await.expect("renewed");
    let other = self::pool().await;
    let busy = 16;
    assert_eq!(errno(other.lock(o, "l", LockMode::Shared, &options).await), busy);
    let info = other.lock_info(o, "l").await.expect("known");
    assert_eq!((info.mode, info.holders.len()), (Some(LockMode::Exclusive), 1));
    let holder = &info.holders[0];
    assert_eq!((&holder.cookie[..], &holder.description[..]), (&b"c"[..], &b"why"[..]));
    assert_eq!(holder.client.num, pool.rados().instance_id().0 as i64);
    assert!(holder.expires.is_some());
    assert_eq!(other.locks(o).await.expect("listed"), ["l"]);
    other.break_lock(o, "l", holder.client, "c").await.expect("broken");
    assert_eq!(errno(pool.unlock(o, "l", "c").await), Errno::ENOENT.0);
    other.lock(o, "l", LockMode::Shared, &options).await.expect("free");
    pool.lock(o, "l", LockMode::Shared, &options).await.expect("shared");
    pool.unlock(o, "l", "c").await.expect("held");

    let second = Duration::from_secs(1);
    let options = LockOptions { cookie: "held".into(), ..LockOptions::default() };
    let hold = || pool.hold_lock(o, "g", LockMode::Exclusive, second, &options);
    let guard = hold().await.expect("free");
    // Longer than the lock lasts without a renewal.
    let lost = tokio::time::timeout(second * 3, guard.lost()).await;
    assert!(lost.is_err() && guard.is_held(), "{lost:?}");
    assert_eq!(errno(other.lock(o, "g", LockMode::Exclusive, &options).await), busy);
    guard.release().await.expect("given up");
    let guard = hold().await.expect("free again");
    let holder = other.lock_info(o, "g").await.expect("known").holders[0].client;
    other.break_lock(o, "g", holder, "held").await.expect("broken");
    assert_eq!(tokio::time::timeout(second * 20, guard.lost()).await.expect("it is lost"), Errno::ENOENT);
    assert!(!guard.is_held());
    assert_eq!(errno(guard.release().await), Errno::ENOENT.0);
    drop(hold().await.expect("free"));
    let free = async { while !other.lock_info(o, "g").await.expect("known").holders.is_empty() {} };
    tokio::time::timeout(second * 20, free).await.expect("a guard that is dropped gives the lock up");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn watchers_hear_and_answer() {
    let (pool, other) = (pool().await, self::pool().await);
    let o = "watched";
    let _ = pool.remove(o).await;
    assert_eq!(errno(pool.watch(o, Duration::ZERO).await), Errno::ENOENT.0);
    assert_eq!(errno(pool.notify(o, Bytes::new(), Duration::ZERO).await), Errno::ENOENT.0);
    pool.create(o, true).await.expect("made");
    assert_eq!(
        pool.notify(o, bytes("nobody"), Duration::ZERO).await.expect("heard by nobody"),
        Default::default()
    );
    let mut mute = pool.watch(o, Duration::from_secs(20)).await.expect("watched");
    let mut watch = pool.watch(o, Duration::ZERO).await.expect("watched");
    let watchers = other.watchers(o).await.expect("listed");
    let me = pool.rados().instance_id();
    assert!(watchers.iter().all(|w| w.name.num == me.0 as i64), "{watchers:?}");
    let mut timeouts: Vec<_> = watchers.iter().map(|w| (w.cookie, w.timeout_s)).collect();
    timeouts.sort_unstable();
    assert_eq!(timeouts, [(mute.cookie(), 20), (watch.cookie(), 30)]);
    let notify = other.notify(o, bytes("news"), Duration::from_secs(2));
    let answer = async {
        let WatchNews::Notified(heard) = watch.next().await.expect("heard") else { panic!("nothing missed") };
        assert_eq!((&heard.payload[..], heard.notifier), (&b"news"[..], other.rados().instance_id()));
        heard.answer(bytes("yes"));
        // This notification is kept, and not answered in time.
        mute.next().await.expect("heard")
    };
    let (notified, unanswered) = tokio::join!(notify, answer);
    let notified = notified.expect("notified");
    let id = |cookie| WatcherId { client: me, cookie };
    assert_eq!(notified.answers, BTreeMap::from([(id(watch.cookie()), bytes("yes"))]));
    assert_eq!(notified.missing, [id(mute.cookie())]);
    drop(unanswered);
    mute.unwatch().await.expect("told");
    assert_eq!(other.watchers(o).await.expect("listed").len(), 1);
    other.remove(o).await.expect("removed");
    assert_eq!(errno(watch.next().await), Errno::ENOENT.0);
}
