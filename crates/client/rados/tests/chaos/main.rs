//! A client on a stock cluster with several monitors and OSDs that keep failing.
//!
//! Goal: whatever happens to the cluster and the network, each operation of a client is executed exactly
//! once, and the operations on one object in the order of submission. Method: on pools of two and three
//! copies and on an erasure-coded pool, writers append to logs. They also count in attributes and omaps,
//! under the condition that the count is unchanged. One client connects directly. Another one is behind
//! proxies, which reset connections at any byte, stall and delay. Meanwhile primary affinity, upmaps and
//! the number of placement groups change, OSDs and monitors are killed, marked out and down, and come
//! back, one pool is renamed, one is removed, the daemons close their own sockets at random, and the network
//! is cut.
//!
//! LOLIGO_STOCK3_DIR names the directory of a cluster with three OSDs that keep acknowledged data (not
//! memstore) and several monitors. Its daemons are killed. The test repeats for LOLIGO_CHAOS_SECONDS
//! (default: once). LOLIGO_CHAOS_SEED is the seed of the connection resets. With LOLIGO_CHAOS_QUICK a round
//! has the daemons close sockets and kills each OSD, and no more: half a minute.

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

/// The same in a quick round: writers make progress in a few hundred kilobytes.
const QUICK_LIFE_MAX: u64 = 512 << 10;

/// One in so many reads and writes of a socket by an OSD fails, while they fail.
const SOCKET_FAILS: u32 = 500;

/// So many of them fail before the test goes on.
const SOCKETS_FAILED: usize = 30;

/// What a daemon writes into its log when it has closed a socket itself.
const SOCKET_FAILED: &str = "injecting socket failure";

/// The timeout of waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(180);

/// The resets by proxies that a round has at least.
const RESETS_MIN: u64 = 4;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn operations_happen_once_and_in_order_in_chaos() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    let end = Instant::now() + Duration::from_secs(number("LOLIGO_CHAOS_SECONDS").unwrap_or(0));
    let first = number("LOLIGO_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let is_quick = std::env::var_os("LOLIGO_CHAOS_QUICK").is_some();
    let daemons = Daemons::of("LOLIGO_STOCK3_DIR");
    for seed in first.. {
        println!("LOLIGO_CHAOS_SEED={seed}");
        if is_quick {
            Chaos::new(&daemons, seed, QUICK_LIFE_MAX).await.run_quickly().await;
        } else {
            Chaos::new(&daemons, seed, LIFE_MAX).await.run().await;
        }
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
    async fn new(daemons: &'d Daemons, seed: u64, life_max: u64) -> Self {
        let proxies = Arc::new(FaultProxies::new(seed, life_max, u64::MAX));
        let through = Arc::clone(&proxies);
        let builder = || Builder::new().conf_file(&daemons.conf());
        let near = builder().connect().await.expect("connects");
        let far = builder().reroute(move |_, to| through.route(to)).connect().await.expect("connects");
        Self { daemons, near, far, proxies, load: Load::default() }
    }

    async fn run(self) {
        let [two, three, coded, doomed] = self.make_pools(self.near.instance_id().0);
        self.start_writers([&two, &three, &coded]).await;
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
        self.have_sockets_fail().await;
        self.break_network().await;
        self.kill_daemons().await;

        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.await.expect("no panic") > 20, "it got on");
        }
        self.finish([format!("{two}-renamed"), three, coded]).await;
        mourner.await.expect("no panic");
    }

    /// A round of half a minute.
    async fn run_quickly(self) {
        let [two, three, coded, doomed] = self.make_pools(self.near.instance_id().0);
        self.start_writers([&two, &three, &coded]).await;
        self.load.progress("from the start").await;
        self.have_sockets_fail().await;
        for osd in self.daemons.of_kind("osd") {
            // It comes back at once: no placement group has to wait for copies before the next one is killed.
            self.daemons.kill(&osd).await;
            self.daemons.start(&osd);
            self.load.progress(&format!("after {osd} was killed and came back")).await;
        }
        self.until("connections are reset", || self.proxies.sum(FaultProxy::faults) >= RESETS_MIN).await;
        self.finish([two, three, coded, doomed]).await;
    }

    /// Starts writers of both clients on pools of two and three copies and on an erasure-coded one.
    async fn start_writers(&self, [two, three, coded]: [&str; 3]) {
        for (pool, kind) in [(two, PLAIN), (three, PLAIN), (coded, CODED)] {
            for (who, client) in [("near", &self.near), ("far", &self.far)] {
                self.load.start(who, &client.ioctx(pool).await.expect("opened"), kind);
            }
        }
    }

    /// Ends the writers, compares what they have written, and deletes the pools.
    async fn finish<const N: usize>(&self, pools: [String; N]) {
        let resets = self.proxies.sum(FaultProxy::faults);
        assert!(resets >= RESETS_MIN, "{resets} connections were reset");
        // Reading everything over breaking connections would take long.
        self.proxies.for_each(FaultProxy::calm_down);
        let ended = Instant::now();
        self.load.finish().await;
        println!("  all was read and compared in {} s", ended.elapsed().as_secs());
        for pool in pools {
            self.ceph(&format!("osd pool delete {pool} {pool} --yes-i-really-really-mean-it"));
        }
        for client in [&self.near, &self.far] {
            assert_eq!(client.in_flight(), (0, 0));
        }
    }

    /// Has OSDs close their sockets at random, between them and to clients.
    async fn have_sockets_fail(&self) {
        let before = self.sockets_failed();
        self.ceph(&format!("config set osd ms_inject_socket_failures {SOCKET_FAILS}"));
        self.load.progress("while OSDs close their sockets").await;
        self.until("sockets fail", || self.sockets_failed() >= before + SOCKETS_FAILED).await;
        self.ceph("config rm osd ms_inject_socket_failures");
        self.load.progress("after OSDs have closed their sockets").await;
        println!("  OSDs closed {} sockets", self.sockets_failed() - before);
    }

    /// The number of sockets that OSDs have closed themselves, by their logs.
    fn sockets_failed(&self) -> usize {
        let osds = self.daemons.of_kind("osd");
        osds.iter().map(|osd| self.daemons.log(osd).matches(SOCKET_FAILED).count()).sum()
    }

    /// Waits until a condition is met.
    async fn until(&self, what: &str, met: impl Fn() -> bool) {
        let wait = async {
            while !met() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(
            tokio::time::timeout(PATIENCE, wait).await.is_ok(),
            "{what}: not in {} s",
            PATIENCE.as_secs()
        );
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

    /// Waits until all placement groups are clean, as their OSDs say after this call: older reports may be of
    /// the time before an OSD was killed.
    async fn until_clean(&self) {
        let clean = async {
            while !(self.have_all_reported().await && self.are_all_clean()) {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        };
        let began = Instant::now();
        let in_time = tokio::time::timeout(PATIENCE, clean).await;
        assert!(in_time.is_ok(), "not clean: {}", self.ceph("pg stat"));
        println!("  clean after {} s", began.elapsed().as_secs());
    }

    /// Has each OSD report what it knows now, and waits until the managers have it. Returns `false` if one is
    /// not up.
    async fn have_all_reported(&self) -> bool {
        let osds = self.daemons.of_kind("osd");
        if !self.ceph("osd stat").contains(&format!("{} up", osds.len())) {
            return false;
        }
        let number = |text: &str| text.trim().parse::<u64>().ok();
        for osd in osds {
            let asked = self.daemons.try_run(&format!("ceph tell {osd} flush_pg_stats"));
            let Some(report) = asked.as_deref().and_then(number) else { return false };
            let id = osd.trim_start_matches("osd.");
            while number(&self.ceph(&format!("osd last-stat-seq {id}"))).is_none_or(|seen| seen < report) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        true
    }

    fn are_all_clean(&self) -> bool {
        let stat = self.ceph("pg stat");
        let pgs = stat.split_whitespace().next().unwrap_or_default();
        stat.contains(&format!("{pgs} active+clean"))
    }
}
