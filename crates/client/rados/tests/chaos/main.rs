//! A client on a stock cluster with several monitors and OSDs that keep failing.
//!
//! Goal: whatever happens to the cluster and the network, each operation of a client is executed exactly
//! once, and the operations on one object in the order of submission. Method: on pools of two and three
//! copies and on an erasure-coded pool, writers append to logs. They also count in attributes and omaps,
//! under the condition that the count is unchanged. One client connects directly. Another one is behind
//! proxies, which reset connections at any byte, stall and delay. Meanwhile primary affinity, upmaps and
//! the number of placement groups change, OSDs and monitors are killed, marked out and down, and come
//! back, one pool is renamed, one is removed, and the network is cut.
//!
//! LOLIGO_STOCK3_DIR names the directory of a cluster with three OSDs that keep acknowledged data (not
//! memstore) and several monitors. Its daemons are killed. The test repeats for LOLIGO_CHAOS_SECONDS
//! (default: once). LOLIGO_CHAOS_SEED is the seed of the connection resets.

#[path = "../daemons/mod.rs"]
mod daemons;
mod load;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loligo_msgr::testing::{FaultProxies, FaultProxy};
use loligo_rados::{Builder, Rados};

use daemons::Daemons;
use load::{CODED, Load, PLAIN, all_copies_are_read, mourn, read_anywhere};

/// Maximum life of a connection through a proxy, in bytes.
const LIFE_MAX: u64 = 2 << 20;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn operations_happen_once_and_in_order_in_chaos() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    let end = Instant::now() + Duration::from_secs(number("LOLIGO_CHAOS_SECONDS").unwrap_or(0));
    let first = number("LOLIGO_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let daemons = Daemons::of("LOLIGO_STOCK3_DIR");
    for seed in first.. {
        println!("LOLIGO_CHAOS_SEED={seed}");
        Chaos::new(&daemons, seed).await.run().await;
        if Instant::now() >= end {
            break;
        }
    }
}

/// One round.
struct Chaos<'d> {
    daemons: &'d Daemons,
    near: Rados,
    /// A client behind proxies.
    far: Rados,
    proxies: Arc<FaultProxies>,
    load: Load,
}

impl<'d> Chaos<'d> {
    async fn new(daemons: &'d Daemons, seed: u64) -> Self {
        let proxies = Arc::new(FaultProxies::new(seed, LIFE_MAX, u64::MAX));
        let through = Arc::clone(&proxies);
        let builder = || Builder::new().conf_file(&daemons.conf());
        let near = builder().connect().await.expect("connects");
        let far = builder().reroute(move |_, to| through.route(to)).connect().await.expect("connects");
        Self { daemons, near, far, proxies, load: Load::default() }
    }

    async fn run(self) {
        let [two, three, coded, doomed] = self.make_pools(self.near.instance_id().0);
        for (pool, kind) in [(&two, PLAIN), (&three, PLAIN), (&coded, CODED)] {
            for (who, client) in [("near", &self.near), ("far", &self.far)] {
                self.load.start(who, &client.ioctx(pool).await.expect("opened"), kind);
            }
        }
        all_copies_are_read(&self.near, &self.near.ioctx(&three).await.expect("opened")).await;
        let stop = Arc::new(AtomicBool::new(false));
        let mut readers = Vec::new();
        for (client, pool) in [(&self.near, &two), (&self.far, &three)] {
            let pool = client.ioctx(pool).await.expect("opened");
            readers.push(tokio::spawn(read_anywhere(pool, Arc::clone(&stop))));
        }
        let mourner = tokio::spawn(mourn(self.near.ioctx(&doomed).await.expect("opened")));

        self.load.progress("from the start").await;
        self.move_primaries(&two, &coded).await;
        self.take_osds_out(&two, &doomed).await;
        self.restart_daemons().await;
        self.break_network().await;
        self.kill_daemons().await;

        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.await.expect("no panic") > 20, "it got on");
        }
        // Reading everything over breaking connections would take long.
        self.proxies.for_each(FaultProxy::calm_down);
        let ended = Instant::now();
        self.load.finish().await;
        println!("  all was read and compared in {} s", ended.elapsed().as_secs());
        mourner.await.expect("no panic");
        for pool in [format!("{two}-renamed"), three, coded] {
            self.ceph(&format!("osd pool delete {pool} {pool} --yes-i-really-really-mean-it"));
        }
        for client in [&self.near, &self.far] {
            assert_eq!(client.in_flight(), (0, 0));
        }
        let resets = self.proxies.sum(FaultProxy::faults);
        assert!(resets > 3, "{resets} connections were reset");
    }

    fn ceph(&self, words: &str) -> String {
        self.daemons.run(&format!("ceph {words}"))
    }

    fn make_pools(&self, id: u64) -> [String; 4] {
        let [two, three, coded, doomed] = ["two", "three", "coded", "doomed"].map(|p| format!("{p}-{id}"));
        self.ceph("osd erasure-code-profile set two-and-one k=2 m=1 crush-failure-domain=osd --force");
        self.ceph(&format!("osd pool create {coded} 16 16 erasure two-and-one"));
        for (pool, size) in [(&two, 2), (&three, 3), (&doomed, 2)] {
            self.ceph(&format!("osd pool create {pool} 16"));
            self.ceph(&format!("osd pool set {pool} size {size}"));
        }
        self.ceph(&format!("osd pool set {two} min_size 1"));
        self.ceph(&format!("osd pool set {three} min_size 2"));
        self.ceph(&format!("osd pool set {coded} min_size 2"));
        [two, three, coded, doomed]
    }

    async fn move_primaries(&self, two: &str, coded: &str) {
        self.ceph("osd primary-affinity osd.0 0");
        self.load.progress("without osd.0 as a primary").await;
        self.ceph("osd set-require-min-compat-client luminous");
        self.upmap(two);
        self.load.progress("after an upmap").await;
        self.ceph("osd primary-affinity osd.0 1");
        self.ceph(&format!("osd pool set {two} pg_num 64"));
        self.ceph(&format!("osd pool set {coded} pg_num 32"));
        self.load.progress("after splits").await;
    }

    /// Maps some placement groups of a pool of two copies to another OSD than CRUSH does.
    fn upmap(&self, pool: &str) {
        let listed = self.ceph("osd lspools");
        let id = listed.lines().find_map(|line| line.strip_suffix(pool)).expect("the pool").trim().to_owned();
        for seed in 0..6 {
            let shown = self.ceph(&format!("pg map {id}.{seed:x}"));
            let up = shown.split("up [").nth(1).and_then(|rest| rest.split(']').next()).expect("a set");
            let up: Vec<&str> = up.split(',').collect();
            let other = ["0", "1", "2"].into_iter().find(|osd| !up.contains(osd)).expect("there are three");
            self.ceph(&format!("osd pg-upmap-items {id}.{seed:x} {} {other}", up[0]));
        }
    }

    async fn take_osds_out(&self, two: &str, doomed: &str) {
        self.ceph("osd down osd.1");
        self.load.progress("after osd.1 was marked down").await;
        self.ceph("osd out osd.2");
        self.load.progress("with osd.2 out").await;
        self.ceph("osd in osd.2");
        self.ceph(&format!("osd pool set {two} pg_num 16"));
        self.load.progress("while placement groups merge").await;
        self.ceph(&format!("osd pool delete {doomed} {doomed} --yes-i-really-really-mean-it"));
        self.ceph(&format!("osd pool rename {two} {two}-renamed"));
        self.load.progress("after a pool got another name and one was removed").await;
        self.ceph("osd pause");
        self.ceph("osd unpause");
        self.ceph("osd down osd.0 osd.2");
        self.load.progress("after two were marked down").await;
    }

    async fn restart_daemons(&self) {
        self.daemons.restart("osd.1").await;
        self.load.progress("after osd.1 was restarted").await;
        self.daemons.restart("mon.a").await;
        self.load.progress("after mon.a was restarted").await;
    }

    async fn break_network(&self) {
        self.proxies.for_each(|proxy| proxy.delay(Duration::from_millis(5)));
        self.load.progress("over a slow network").await;
        self.proxies.for_each(|proxy| proxy.delay(Duration::ZERO));
        self.proxies.for_each(FaultProxy::stall);
        tokio::time::sleep(Duration::from_secs(3)).await;
        self.proxies.for_each(FaultProxy::go_on);
        self.load.progress("after everything was held up").await;
        self.proxies.for_each(FaultProxy::stall);
        self.ceph("osd down osd.1");
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.proxies.for_each(FaultProxy::go_on);
        self.proxies.for_each(FaultProxy::reset_all);
        self.load.progress("after connections that were held up were reset").await;
        if !self.daemons.cut(true) {
            println!("left out: the network cannot be cut, since the cluster does not run apart");
            return;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.ceph("osd down osd.2");
        self.daemons.cut(false);
        self.load.progress("after the network was cut").await;
    }

    /// Kills daemons one after the other, as failing machines would. The maps change while a monitor is down.
    async fn kill_daemons(&self) {
        for (mon, osd) in self.daemons.of_kind("mon").into_iter().zip(self.daemons.of_kind("osd")) {
            self.daemons.kill(&mon).await;
            self.ceph(&format!("osd down {osd}"));
            self.load.progress(&format!("without {mon}")).await;
            self.daemons.start(&mon);
            self.load.progress(&format!("with {mon} again")).await;
        }
        for osd in self.daemons.of_kind("osd") {
            // With two or more copies, a pool that accepts one missing copy loses no data while one OSD is
            // down.
            self.until_clean().await;
            self.daemons.kill(&osd).await;
            self.load.progress(&format!("without {osd}")).await;
            self.daemons.start(&osd);
            self.load.progress(&format!("with {osd} again")).await;
        }
    }

    async fn until_clean(&self) {
        // The output shows the OSDs' last reports, which they send every five seconds (`mgr_stats_period`).
        tokio::time::sleep(Duration::from_secs(6)).await;
        let clean = async {
            loop {
                let stat = self.ceph("pg stat");
                let pgs = stat.split_whitespace().next().unwrap_or_default();
                if stat.contains(&format!("{pgs} active+clean")) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        let began = Instant::now();
        let in_time = tokio::time::timeout(Duration::from_secs(180), clean).await;
        assert!(in_time.is_ok(), "not clean: {}", self.ceph("pg stat"));
        println!("  clean after {} s", began.elapsed().as_secs());
    }
}
