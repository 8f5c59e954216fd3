//! Reports of a client's waits.
//!
//! Goal: the client reports everything it waits for, in words that name what to look at. Method: a fake
//! monitor and fake OSDs (`fake/mod.rs`) withhold one thing after the other. No test depends on how long
//! anything takes.

mod fake;

use std::time::Duration;

use bytes::Bytes;
use loligo_maps::{MapFlags, OsdMap, PoolFlags};
use loligo_rados::{Builder, Conf, IoCtx, OsdId, PgId, Waits};
use loligo_wire::EntityName;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{BackoffOp, HObject, MOSDBackoff};
use tokio::net::TcpListener;

use fake::mgr::Mgr;
use fake::{Fake, POOL, Verdict, bytes, until};

/// Waits until a wait is reported whose text starts with `begins` and contains all `parts`. Ages are
/// left out.
async fn told(waits: &Waits, begins: &str, parts: &[&str]) -> String {
    let mut lines = Vec::new();
    let found = |lines: &mut Vec<String>| {
        *lines = waits.all(Duration::ZERO).iter().map(ToString::to_string).collect();
        lines
            .iter()
            .find(|line| line.starts_with(begins) && parts.iter().all(|part| line.contains(part)))
            .cloned()
    };
    let mut line = None;
    let wait = async {
        while line.is_none() {
            line = found(&mut lines);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(30), wait).await.is_ok(),
        "{begins} {parts:?}: {lines:?}"
    );
    line.expect("it was waited for")
}

/// Waits until no wait is reported.
async fn silent(waits: &Waits) {
    until("nothing waits", || waits.all(Duration::ZERO).is_empty()).await;
}

async fn pool_of(fake: &Fake, waits: &Waits) -> IoCtx {
    let rados = fake.builder().waits(waits).connect().await.expect("connects");
    rados.ioctx(POOL).await.expect("the pool")
}

fn at(mon: &str) -> Builder {
    let text = format!(
        "[global]\nmon host = v2:{mon}\nauth client required = none\nmon client hunt interval = 0.05\n"
    );
    let conf = Conf::parse(&text, EntityName::client("admin"), Default::default()).expect("a conf");
    Builder::new().conf(conf)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_that_does_not_answer_is_named() {
    let mute = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = mute.local_addr().expect("bound").to_string();
    let waits = Waits::default();
    let connecting = tokio::spawn(at(&addr).waits(&waits).connect());
    let parts = [&*format!("no session with a monitor of {addr};"), "no answer for 0.0"];
    told(&waits, "1 client has waited for ", &parts).await;
    connecting.abort();
    let _ = connecting.await;
    silent(&waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_that_is_not_there_is_named_with_the_error() {
    let gone =
        TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("bound").to_string();
    let waits = Waits::default();
    let connecting = tokio::spawn(at(&gone).waits(&waits).connect());
    told(&waits, "1 client has waited for ", &[&gone, "refused"]).await;
    connecting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_a_monitor_does_not_answer() {
    let fake = Fake::start(1, 1).await;
    let waits = Waits::default();
    let pool = pool_of(&fake, &waits).await;
    silent(&waits).await;
    let rados = pool.rados().clone();
    let asking =
        tokio::spawn(async move { rados.mon_command(r#"{"prefix": "status"}"#, Bytes::new()).await });
    let monitor = format!("the monitor at {} has not answered", fake.mon_addr());
    told(&waits, "1 question to the monitors has waited for ", &[&monitor]).await;
    asking.abort();
    let _ = asking.await;
    silent(&waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_primary_are_one_line_that_names_the_osd() {
    let fake = Fake::start(1, 1).await;
    let waits = Waits::default();
    let pool = pool_of(&fake, &waits).await;
    fake.osd_down(0);
    until("the map has come", || pool.rados().map_epoch() >= fake.epoch()).await;
    let writes: Vec<_> = (0..3)
        .map(|i| {
            let pool = pool.clone();
            tokio::spawn(async move { pool.write_full(format!("o{i}"), bytes("x")).await })
        })
        .collect();
    let pg = PgId { pool: fake.pool_id(), seed: 0 };
    let why = format!("pg {pg} has no primary (osd.0 is down)");
    told(&waits, "3 requests have waited for ", &["(one is writefull 0~1 on 'o", &why]).await;
    fake.osd_up(0);
    for write in writes {
        write.await.expect("no panic").expect("written");
    }
    silent(&waits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_placement_group_that_no_osd_should_serve() {
    let fake = Fake::start(1, 1).await;
    let waits = Waits::default();
    let pool = pool_of(&fake, &waits).await;
    fake.change(|_, inc| inc.osd_weight(OsdId(0), 0));
    until("the map has come", || pool.rados().map_epoch() >= fake.epoch()).await;
    let write = tokio::spawn({
        let pool = pool.clone();
        async move { pool.write_full("o", bytes("x")).await }
    });
    told(&waits, "1 request has waited for ", &["has no primary (its CRUSH rule finds no OSD that is in)"])
        .await;
    fake.change(|_, inc| inc.osd_weight(OsdId(0), OsdMap::WEIGHT_IN));
    write.await.expect("no panic").expect("written");
}

/// Removals wait too: only `--force-full` lets them through.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_pool_and_a_paused_cluster() {
    let fake = Fake::start(1, 1).await;
    let waits = Waits::default();
    let pool = pool_of(&fake, &waits).await;
    let set_pool = |flags: PoolFlags, set: bool| {
        fake.change(|map, inc| {
            let id = fake_pool(map);
            let mut changed = map.pool(id).expect("the pool").clone();
            changed.flags = if set { changed.flags.union(flags) } else { changed.flags.difference(flags) };
            inc.new_pools.insert(id, changed);
        });
    };
    let set_map = |flags: MapFlags, set: bool| {
        let changed = move |old: MapFlags| if set { old.union(flags) } else { old.difference(flags) };
        fake.change(|map, inc| inc.new_flags = Some(changed(map.flags)));
    };
    let write = || {
        let pool = pool.clone();
        tokio::spawn(async move { pool.write_full("o", bytes("x")).await })
    };
    let quota = PoolFlags::FULL.union(PoolFlags::FULL_QUOTA);
    for (pools, flags, why) in [
        (true, PoolFlags::FULL.bits(), "pool 'p' is full: remove objects with --force-full, or add space"),
        (
            true,
            quota.bits(),
            "pool 'p' is full, its quota is reached: remove objects with --force-full, or raise it with",
        ),
        (false, u64::from(MapFlags::FULL.bits()), "the cluster is full: remove objects with --force-full"),
        (
            false,
            u64::from(MapFlags::PAUSEWR.bits()),
            "the cluster has the flag pausewr; 'ceph osd unpause' ends that",
        ),
    ] {
        let set = |set: bool| match pools {
            true => set_pool(PoolFlags::from_bits_retain(flags), set),
            false => set_map(MapFlags::from_bits_retain(flags as u32), set),
        };
        set(true);
        until("the map has come", || pool.rados().map_epoch() >= fake.epoch()).await;
        let write = write();
        told(&waits, "1 request has waited for ", &["(writefull 0~1 on 'o')", why]).await;
        set(false);
        write.await.expect("no panic").expect("written");
    }
}

fn fake_pool(map: &OsdMap) -> loligo_rados::PoolId {
    map.pool_by_name(POOL.as_bytes()).expect("the pool")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_osd_that_does_not_answer_or_holds_back() {
    let fake = Fake::start(1, 1).await;
    let waits = Waits::default();
    let pool = pool_of(&fake, &waits).await;
    fake.set_rule(move |seen, request| match &*seen.oid {
        b"held" => {
            let place = HObject { pool: request.spgid.pgid.pool.0, ..HObject::min() };
            let end = HObject::max();
            let pgid = request.spgid;
            Verdict::Say(Msg::new(&MOSDBackoff {
                pgid,
                map_epoch: loligo_wire::Epoch(1),
                op: BackoffOp::Block,
                id: 5,
                begin: place,
                end,
            }))
        }
        _ => Verdict::Drop,
    });
    let pg = PgId { pool: fake.pool_id(), seed: 0 };
    let write = |object: &'static str| {
        let pool = pool.clone();
        tokio::spawn(async move { pool.write_full(object, bytes("x")).await })
    };
    let dropped = write("dropped");
    told(&waits, "1 request has waited", &[&format!("osd.0 has not answered for pg {pg}")]).await;
    dropped.abort();
    let _ = dropped.await;
    let held = write("held");
    told(&waits, "1 request has waited", &[&format!("osd.0 holds requests to pg {pg} back")]).await;
    held.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_to_managers_and_osds() {
    let fake = Fake::start(1, 1).await;
    let waits = Waits::default();
    let pool = pool_of(&fake, &waits).await;
    let rados = pool.rados().clone();
    let asked = tokio::spawn({
        let rados = rados.clone();
        async move { rados.mgr_command("{}", Bytes::new()).await }
    });
    told(&waits, "1 command has waited", &["no active manager"]).await;
    let x = Mgr::start("x", 1).await;
    x.keep_still(true);
    fake.set_active_mgr(Some(&x));
    told(&waits, "1 command has waited", &["manager x has not answered"]).await;
    asked.abort();
    let _ = asked.await;
    let named = tokio::spawn({
        let rados = rados.clone();
        async move { rados.tell_mgr(Some("y"), "{}", Bytes::new()).await }
    });
    told(&waits, "1 command has waited", &["manager y is not the active one; active: x"]).await;
    named.abort();
    let _ = named.await;
    let osd = tokio::spawn(async move { rados.osd_command(OsdId(0), "{}", Bytes::new()).await });
    told(&waits, "1 command has waited", &["osd.0 has not answered"]).await;
    osd.abort();
    let _ = osd.await;
    silent(&waits).await;
}
