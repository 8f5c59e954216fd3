//! The client against a scripted misbehaving cluster.
//!
//! Goal: in every case an operation is executed once, answered once, and in the order of submission.
//! Method: a fake monitor and fake OSDs (`fake/mod.rs`) over loopback.

mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use loligo_maps::{MapFlags, OsdMap};
use loligo_msgr::testing::{FaultProxy, Random};
use loligo_rados::{Errno, Error, IoCtx, ReadOp, WriteOp};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{BackoffOp, HObject, MOSDBackoff, ObjectLocator, OsdFlags, RequestRedirect};
use loligo_wire::{EntityType, Epoch, OsdId};

use fake::{Fake, POOL, Verdict, bytes, until};

async fn pool_of(fake: &Fake) -> IoCtx {
    let rados = fake.builder().connect().await.expect("connects");
    rados.ioctx(POOL).await.expect("the pool")
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_written_and_read() {
    let fake = Fake::start(3, 16).await;
    let pool = pool_of(&fake).await;
    for i in 0..50 {
        pool.write_full(format!("o{i}"), bytes(&format!("value {i}"))).await.expect("written");
    }
    for i in 0..50 {
        let got = pool.read(format!("o{i}"), 0, 0).await.expect("read");
        assert_eq!(got, format!("value {i}"));
    }
    assert_eq!(pool.read("none", 0, 0).await.expect_err("absent").errno(), Errno::ENOENT);
    assert_eq!(pool.rados().in_flight(), (0, 0));
}

/// The protocol counts operations in 16 bits.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_more_operations_than_the_wire_counts_is_refused() {
    let fake = Fake::start(1, 8).await;
    let pool = pool_of(&fake).await;
    let writes = (0..=u16::MAX).fold(WriteOp::new(), |op, _| op.truncate(0));
    let refused = pool.operate("o", writes).await.expect_err("65,536 operations");
    assert_eq!(refused.errno(), Errno::EMSGSIZE);
    let reads = (0..=u16::MAX).fold(ReadOp::new(), |op, _| op.stat());
    assert_eq!(pool.operate_read("o", reads).await.expect_err("as many").errno(), Errno::EMSGSIZE);
    assert!(fake.seen().is_empty());
    pool.write_full("o", bytes("value")).await.expect("the client goes on");
    assert_eq!(pool.rados().in_flight(), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_osd_that_says_again_is_asked_again_under_the_same_number() {
    let fake = Fake::start(1, 8).await;
    let pool = pool_of(&fake).await;
    fake.set_rule(|seen, _| if seen.attempt == 0 { Verdict::Refuse(-11) } else { Verdict::Execute });
    pool.append("o", bytes("once")).await.expect("appended");
    let seen = fake.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].tid, seen[1].tid);
    assert_ne!(seen[1].flags & OsdFlags::RETRY.bits(), 0);
    assert_eq!(fake.object(b"o").as_deref(), Some(&b"once"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_followed() {
    let fake = Fake::start(2, 8).await;
    let pool = pool_of(&fake).await;
    let locator = ObjectLocator::in_pool(fake.pool_id());
    fake.set_rule(move |seen, _| match seen.oid.as_slice() {
        b"here" => Verdict::Redirect(RequestRedirect { locator: locator.clone(), object: b"there".to_vec() }),
        _ => Verdict::Execute,
    });
    pool.write_full("here", bytes("moved")).await.expect("written");
    assert_eq!(fake.object(b"there").as_deref(), Some(&b"moved"[..]));
    let last = fake.seen().pop().expect("a request");
    assert_ne!(last.flags & OsdFlags::REDIRECTED.bits(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backoff_holds_back_its_object_and_no_other_and_keeps_the_order() {
    let fake = Fake::start(1, 1).await;
    let pool = pool_of(&fake).await;
    let blocked = Arc::new(AtomicBool::new(true));
    let backoff = |op, place: HObject, pgid| MOSDBackoff {
        pgid,
        map_epoch: Epoch(1),
        op,
        id: 5,
        begin: place.clone(),
        end: place,
    };
    let is_blocked = Arc::clone(&blocked);
    let (told, mut place) = tokio::sync::mpsc::unbounded_channel();
    fake.set_rule(move |seen, request| {
        if seen.oid == b"held" && is_blocked.load(Ordering::Relaxed) {
            let _ = told.send((request.hobject(), request.spgid));
            return Verdict::Say(Msg::new(&backoff(BackoffOp::Block, request.hobject(), request.spgid)));
        }
        Verdict::Execute
    });
    let writes = tokio::spawn({
        let pool = pool.clone();
        async move {
            let first = pool.append("held", bytes("1"));
            let rest = ["2", "3", "4"].map(|n| pool.append("held", bytes(n)));
            join_all([first].into_iter().chain(rest))
                .await
                .into_iter()
                .for_each(|done| done.expect("appended"));
        }
    });
    let (object, pgid) = place.recv().await.expect("a request");
    until("the backoff is acknowledged", || !fake.backoff_acks().is_empty()).await;
    assert_eq!(fake.backoff_acks()[0].op, BackoffOp::AckBlock);
    pool.append("free", bytes("passes")).await.expect("appended");
    let held_so_far = fake.seen().iter().filter(|seen| seen.oid == b"held").count();
    let late = tokio::spawn({
        let pool = pool.clone();
        async move { pool.append("held", bytes("5")).await }
    });
    pool.append("free", bytes(" again")).await.expect("appended");
    let held_now = fake.seen().iter().filter(|seen| seen.oid == b"held").count();
    assert_eq!(held_so_far, held_now, "something was sent into a backoff");

    blocked.store(false, Ordering::Relaxed);
    fake.tell_clients(&Msg::new(&backoff(BackoffOp::Unblock, object, pgid)));
    writes.await.expect("no panic");
    late.await.expect("no panic").expect("appended");
    assert_eq!(fake.object(b"held").as_deref(), Some(&b"12345"[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_follow_their_object_to_another_osd() {
    let fake = Fake::start(3, 16).await;
    let pool = pool_of(&fake).await;
    let first = fake.primary(b"o");
    fake.set_rule(move |seen, _| if seen.osd == first { Verdict::Drop } else { Verdict::Execute });
    let write = tokio::spawn({
        let pool = pool.clone();
        async move { pool.append("o", bytes("moved")).await }
    });
    until("the first OSD is asked", || !fake.seen().is_empty()).await;
    fake.change(|_, inc| {
        inc.osd_down(OsdId(first));
        inc.osd_weight(OsdId(first), 0);
    });
    write.await.expect("no panic").expect("appended");
    let seen = fake.seen();
    assert_eq!((seen[0].osd, seen[0].tid, seen[0].attempt), (first, seen[1].tid, 0));
    assert_eq!(seen[1].attempt, 1);
    assert_ne!(seen[1].osd, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_osd_operations_wait_for_one() {
    let fake = Fake::start(1, 4).await;
    let pool = pool_of(&fake).await;
    fake.osd_down(0);
    pool.rados().wait_for_latest_osdmap().await.expect("the map");
    let write = tokio::spawn({
        let pool = pool.clone();
        async move { pool.write_full("o", bytes("late")).await }
    });
    until("the operation waits", || pool.rados().in_flight().0 == 1).await;
    fake.osd_up(0);
    write.await.expect("no panic").expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_writes_lets_reads_pass() {
    let fake = Fake::start(1, 4).await;
    let pool = pool_of(&fake).await;
    pool.write_full("o", bytes("before")).await.expect("written");
    fake.change(|map, inc| inc.new_flags = Some(map.flags.union(MapFlags::PAUSEWR)));
    pool.rados().wait_for_latest_osdmap().await.expect("the map");
    let write = tokio::spawn({
        let pool = pool.clone();
        async move { pool.write_full("o", bytes("after")).await }
    });
    until("the write waits", || pool.rados().in_flight().0 == 1).await;
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), "before");
    fake.change(|map, inc| inc.new_flags = Some(map.flags.difference(MapFlags::PAUSEWR)));
    write.await.expect("no panic").expect("written");
    assert_eq!(pool.read("o", 0, 0).await.expect("read"), "after");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_on_a_pool_that_goes_end_with_enoent() {
    let fake = Fake::start(1, 4).await;
    let pool = pool_of(&fake).await;
    fake.set_rule(|_, _| Verdict::Drop);
    let write = tokio::spawn({
        let pool = pool.clone();
        async move { pool.write_full("o", bytes("lost")).await }
    });
    until("the OSD is asked", || !fake.seen().is_empty()).await;
    let id = fake.pool_id();
    fake.change(|map, inc| inc.remove_pool(map, id));
    assert_eq!(write.await.expect("no panic").expect_err("gone").errno(), Errno::ENOENT);
    assert_eq!(pool.write_full("o", bytes("lost")).await.expect_err("gone").errno(), Errno::ENOENT);
    assert!(matches!(pool.rados().ioctx(POOL).await, Err(Error::NoPool(_))));
    assert_eq!(pool.rados().in_flight(), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_is_given_up_and_leaves_nothing_behind() {
    let fake = Fake::start(1, 4).await;
    let mut conf = fake.builder().load().expect("a conf");
    conf.set("rados_osd_op_timeout", "1");
    conf.set("rados_mon_op_timeout", "1");
    let rados = fake.builder().conf(conf).connect().await.expect("connects");
    let pool = rados.ioctx(POOL).await.expect("the pool");
    fake.set_rule(|_, _| Verdict::Drop);
    assert!(matches!(pool.write_full("o", bytes("x")).await, Err(Error::Timeout(_))));
    assert_eq!(rados.in_flight(), (0, 0));
    // The fake monitor does not implement commands.
    let answer = rados.mon_command(r#"{"prefix": "status"}"#, bytes("")).await;
    assert!(matches!(answer, Err(Error::Timeout(_))));
    // A request that timed out is not resent.
    let asked = fake.seen().len();
    fake.set_rule(|_, _| Verdict::Execute);
    fake.reset_osd_connections();
    pool.write_full("o", bytes("y")).await.expect("written");
    assert_eq!(fake.seen().len(), asked + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_in_flight_than_allowed() {
    let fake = Fake::start(1, 4).await;
    let mut conf = fake.builder().load().expect("a conf");
    conf.set("objecter_inflight_ops", "5");
    let rados = fake.builder().conf(conf).connect().await.expect("connects");
    let pool = rados.ioctx(POOL).await.expect("the pool");
    let most = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&most);
    let watched = rados.clone();
    fake.set_rule(move |_, _| {
        counted.fetch_max(watched.in_flight().0 as u32, Ordering::Relaxed);
        Verdict::Execute
    });
    let writes = (0..200).map(|i| pool.write_full(format!("o{i}"), bytes("x")));
    join_all(writes).await.into_iter().for_each(|done| done.expect("written"));
    assert!((1..=5).contains(&most.load(Ordering::Relaxed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_that_wait_for_their_turn_keep_their_order() {
    const APPENDS: usize = 400;
    let fake = Fake::start(1, 4).await;
    let mut conf = fake.builder().load().expect("a conf");
    conf.set("objecter_inflight_ops", "3");
    let rados = fake.builder().conf(conf).connect().await.expect("connects");
    let pool = rados.ioctx(POOL).await.expect("the pool");
    let appends = (0..APPENDS).map(|n| pool.append("o", bytes(&format!("{n:04}|"))));
    join_all(appends).await.into_iter().for_each(|done| done.expect("appended"));
    let expected: String = (0..APPENDS).map(|n| format!("{n:04}|")).collect();
    assert_eq!(String::from_utf8_lossy(&fake.object(b"o").unwrap_or_default()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_client_ends_what_is_in_flight() {
    let fake = Fake::start(1, 4).await;
    let pool = pool_of(&fake).await;
    fake.set_rule(|_, _| Verdict::Drop);
    let write = tokio::spawn({
        let pool = pool.clone();
        async move { pool.write_full("o", bytes("x")).await }
    });
    until("the OSD is asked", || !fake.seen().is_empty()).await;
    pool.rados().shutdown().await;
    assert!(matches!(write.await.expect("no panic"), Err(Error::Shutdown)));
    assert!(matches!(pool.write_full("o", bytes("x")).await, Err(Error::Shutdown)));
    assert!(matches!(pool.rados().wait_for_latest_osdmap().await, Err(Error::Shutdown)));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_monitor_is_an_error_in_time() {
    let fake = Fake::start(1, 4).await;
    let mut conf = fake.builder().load().expect("a conf");
    conf.set("mon_host", "v2:127.0.0.1:1");
    conf.set("client_mount_timeout", "0.3");
    let error = fake.builder().conf(conf).connect().await.expect_err("nobody listens there");
    assert!(matches!(error, Error::NoMonitor { .. }), "{error}");
    assert_eq!(error.errno(), Errno::ETIMEDOUT);
}

/// Bit 52 is not a known feature. CRUSH_MSR is required where a CRUSH rule of release 19 is used, and
/// clients have it.
#[tokio::test(flavor = "multi_thread")]
async fn features_that_a_peer_misses_are_an_error_that_names_them() {
    use loligo_wire::features::CRUSH_MSR;
    let fake = Fake::start_requiring(1, 4, [CRUSH_MSR; 2]).await;
    pool_of(&fake).await.write_full("o", "x".into()).await.expect("clients have it");
    let unknown = CRUSH_MSR | 1 << 52;
    let fake = Fake::start_requiring(1, 4, [unknown, 0]).await;
    let error = fake.builder().connect().await.expect_err("the monitor wants more");
    assert!(matches!(error, Error::MissingFeatures(_)) && error.to_string().contains("bit 52"), "{error}");
    let fake = Fake::start_requiring(1, 4, [0, unknown]).await;
    let error = pool_of(&fake).await.write_full("o", "x".into()).await.expect_err("the OSD wants more");
    assert!(matches!(error, Error::MissingFeatures(_)) && error.to_string().contains("bit 52"), "{error}");
    assert_eq!(error.errno(), Errno::EOPNOTSUPP);
}

/// Maps change, OSDs go down and come up, connections break. Writers keep several appends in flight on
/// each of several objects.
#[tokio::test(flavor = "multi_thread")]
async fn appends_happen_once_and_in_order_in_an_upheaval() {
    const OBJECTS: usize = 16;
    const APPENDS: usize = 120;
    const WINDOW: usize = 4;
    let seed = u64::from(std::process::id());
    let fake = Arc::new(Fake::start(3, 16).await);
    let pool = pool_of(&fake).await;
    let over = Arc::new(AtomicBool::new(false));
    let chaos = tokio::spawn(upheaval(Arc::clone(&fake), Random(seed), Arc::clone(&over)));
    let writers: Vec<_> = (0..OBJECTS)
        .map(|i| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for batch in 0..APPENDS / WINDOW {
                    let numbers = batch * WINDOW..(batch + 1) * WINDOW;
                    let appends = numbers.map(|n| pool.append(format!("o{i}"), bytes(&format!("{n:04}|"))));
                    join_all(appends).await.into_iter().for_each(|done| done.expect("appended"));
                }
            })
        })
        .collect();
    for writer in writers {
        let limit = tokio::time::timeout(Duration::from_secs(100), writer).await;
        limit.unwrap_or_else(|_| panic!("seed {seed}: a writer is stuck")).expect("no panic");
    }
    over.store(true, Ordering::Relaxed);
    chaos.await.expect("no panic");
    let expected: String = (0..APPENDS).map(|n| format!("{n:04}|")).collect();
    for i in 0..OBJECTS {
        let got = fake.object(format!("o{i}").as_bytes()).unwrap_or_default();
        assert_eq!(String::from_utf8_lossy(&got), expected, "seed {seed}, object {i}");
    }
    assert_eq!(pool.rados().in_flight(), (0, 0));
}

/// An OSD that goes down has dropped the operations sent to it, even if the next map has it up again at
/// the same address.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_osd_forgot_while_it_was_down_for_a_moment_is_sent_again() {
    for skip in [false, true] {
        let fake = Fake::start(1, 16).await;
        let pool = pool_of(&fake).await;
        pool.append("o", bytes("a")).await.expect("appended");
        // Operations sent now are lost in the OSD's fall; the connection stays open.
        fake.set_rule(|seen, _| if seen.attempt == 0 { Verdict::Drop } else { Verdict::Execute });
        let append = tokio::spawn({
            let pool = pool.clone();
            async move { pool.append("o", bytes("b")).await }
        });
        until("the append is there", || fake.seen().len() == 2).await;
        fake.osd_blinks(0, skip);
        let done = tokio::time::timeout(Duration::from_secs(20), append).await;
        done.expect("it is sent again").expect("no panic").expect("appended");
        assert_eq!(fake.object(b"o").as_deref(), Some(&b"ab"[..]), "skip: {skip}");
    }
}

/// Maps arrive as fast as possible, and nothing else happens, while each writer has several appends in
/// flight.
#[tokio::test(flavor = "multi_thread")]
async fn appends_keep_their_order_while_maps_come_fast() {
    const OBJECTS: usize = 8;
    const APPENDS: usize = 4_000;
    const WINDOW: usize = 4;
    let fake = Arc::new(Fake::start(2, 16).await);
    let pool = pool_of(&fake).await;
    let over = Arc::new(AtomicBool::new(false));
    let (maps, end) = (Arc::clone(&fake), Arc::clone(&over));
    let maps = tokio::spawn(async move {
        while !end.load(Ordering::Relaxed) {
            maps.change(|_, _| {});
            tokio::task::yield_now().await;
        }
    });
    let write = |i: usize| {
        let pool = pool.clone();
        async move {
            for batch in 0..APPENDS / WINDOW {
                let numbers = batch * WINDOW..(batch + 1) * WINDOW;
                let appends = numbers.map(|n| pool.append(format!("o{i}"), bytes(&format!("{n:04}|"))));
                join_all(appends).await.into_iter().for_each(|done| done.expect("appended"));
            }
        }
    };
    join_all((0..OBJECTS).map(|i| tokio::spawn(write(i))))
        .await
        .into_iter()
        .for_each(|done| done.expect("no panic"));
    over.store(true, Ordering::Relaxed);
    maps.await.expect("no panic");
    let expected: String = (0..APPENDS).map(|n| format!("{n:04}|")).collect();
    for i in 0..OBJECTS {
        let got = fake.object(format!("o{i}").as_bytes()).unwrap_or_default();
        let at = got.chunks(5).zip(expected.as_bytes().chunks(5)).position(|(got, wanted)| got != wanted);
        assert!(got == expected.as_bytes(), "object {i} differs at append {at:?}");
    }
}

async fn upheaval(fake: Arc<Fake>, mut random: Random, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        match random.next() % 6 {
            0 => fake.reset_osd_connections(),
            1 => fake.reset_mon_connections(),
            2 => fake.change(|_, _| {}),
            _ => {
                let osd = (random.next() % 3) as i32;
                if fake.is_up(osd) {
                    fake.osd_down(osd);
                } else {
                    // Now and then the OSD's weight becomes zero or is restored: objects move.
                    let weight = if random.next().is_multiple_of(2) { 0 } else { OsdMap::WEIGHT_IN };
                    fake.change(|_, inc| inc.osd_weight(OsdId(osd), weight));
                    fake.osd_up(osd);
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(random.next() % 20)).await;
    }
    for osd in (0..3).map(OsdId) {
        fake.change(|_, inc| inc.osd_weight(osd, OsdMap::WEIGHT_IN));
        if !fake.is_up(osd.0) {
            fake.osd_up(osd.0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_happen_once_over_broken_connections() {
    let fake = Fake::start(1, 8).await;
    let seed = u64::from(std::process::id());
    let osd = FaultProxy::start(fake.osd_addr(0), seed, 6_000, 30).expect("a proxy");
    let mon = FaultProxy::start(fake.mon_addr(), seed + 1, 20_000, 3).expect("a proxy");
    let (osd_proxy, mon_proxy) = (osd.addr(), mon.addr());
    let reroute = move |kind, _| if kind == EntityType::OSD { osd_proxy } else { mon_proxy };
    let rados = fake.builder().reroute(reroute).connect().await.expect("connects");
    let pool = rados.ioctx(POOL).await.expect("the pool");
    for batch in 0..30 {
        let appends = (batch * 4..batch * 4 + 4).map(|n| pool.append("o", bytes(&format!("{n:04}|"))));
        join_all(appends).await.into_iter().for_each(|done| done.expect("appended"));
    }
    let expected: String = (0..120).map(|n| format!("{n:04}|")).collect();
    let got = fake.object(b"o").unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&got), expected, "seed {seed}");
    assert!(osd.faults() > 0, "nothing broke");
}
