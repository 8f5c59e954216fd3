//! Goal: scrubs, on request and scheduled, find damage on disk and report it in a stock cluster's words.
//! Method: flips bits in the files of a closed store, starts a server on it, and asks it through the
//! monitor as `ceph` does.

mod scratch;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_rados::{Builder, DamagedObject, Errno, IoCtx, Rados, shard_error};
use loligo_server::{Handle, Server};
use loligo_wire::Decode as _;
use loligo_wire::message::osd::{PgMap, pg_state};
use serde_json::Value;

use scratch::Scratch;

/// Data that begins with a pattern no other object has, at a block of the data file.
fn data(n: u8) -> Bytes {
    let text = format!("object {n} ");
    text.bytes().cycle().take(100_000 + usize::from(n)).collect()
}

struct Client(Rados);

impl Client {
    async fn of(server: &Handle) -> Self {
        let conf = server.conf().to_str().expect("a path in UTF-8");
        Self(
            Builder::new()
                .conf_file(conf)
                .set("rados_osd_op_timeout", "60")
                .connect()
                .await
                .expect("connects"),
        )
    }

    async fn pool(&self) -> IoCtx {
        self.0.ioctx("p").await.expect("the pool is there")
    }

    /// Runs a command. Returns its output and its status text.
    async fn ask(&self, command: &str) -> (String, String) {
        let answer = self.0.mon_command(&format!("{{{command}}}"), Bytes::new()).await;
        let (output, status) = answer.unwrap_or_else(|e| panic!("{command}: {e}"));
        (String::from_utf8_lossy(&output).into_owned(), status)
    }

    async fn json(&self, command: &str) -> Value {
        let (output, _) = self.ask(&format!("{command},\"format\":\"json\"")).await;
        serde_json::from_str(&output).unwrap_or_else(|e| panic!("{command}: {e}: {output}"))
    }

    async fn pgs(&self) -> Vec<Value> {
        let dump = self.json(r#""prefix":"pg dump","dumpcontents":["pgs"]"#).await;
        dump["pg_stats"].as_array().expect("an array").clone()
    }

    /// Waits until a condition holds for the placement groups.
    async fn until(&self, what: &str, is_so: impl Fn(&[Value]) -> bool) {
        let began = Instant::now();
        while !is_so(&self.pgs().await) {
            assert!(began.elapsed() < Duration::from_secs(60), "not in time: {what}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Scrubs the whole pool, and waits for it.
    async fn scrub(&self, how: &str) {
        let before = self.pgs().await;
        let field = if how == "scrub" { "last_scrub_stamp" } else { "last_deep_scrub_stamp" };
        self.ask(&format!(r#""prefix":"osd pool {how}","who":["p"]"#)).await;
        self.until(how, |now| now.iter().zip(&before).all(|(now, before)| now[field] != before[field])).await;
        self.until("rests", |now| now.iter().all(|pg| !text(&pg["state"]).contains("scrubbing"))).await;
    }

    /// The damaged objects of the listing, with the seeds of their placement groups.
    async fn damaged(&self) -> Vec<(u32, DamagedObject)> {
        let (pool, mut all) = (self.pool().await, Vec::new());
        for seed in 0..4 {
            let listed = pool.inconsistent_objects(seed).await.expect("listed");
            all.extend(listed.found.into_iter().map(|object| (seed, object)));
            let snaps = pool.inconsistent_snapsets(seed).await.expect("listed");
            assert!(snaps.found.is_empty(), "{snaps:?}");
        }
        all
    }

    /// Checks that the encoded map equals the output of `pg dump`.
    async fn check_map(&self) {
        let answer = self.0.mon_command(r#"{"prefix":"pg getmap"}"#, Bytes::new()).await.expect("got");
        let map = PgMap::from_bytes(&answer.0).expect("a map");
        let (dump, osds) =
            (self.pgs().await, self.json(r#""prefix":"pg dump","dumpcontents":["osds"]"#).await);
        assert_eq!(map.pgs.len(), dump.len());
        for ((pg, stat), shown) in map.pgs.iter().zip(&dump) {
            let inconsistent = stat.state & pg_state::INCONSISTENT != 0;
            let state = if inconsistent { "active+clean+inconsistent" } else { "active+clean" };
            let facts = [
                ("pgid", pg.to_string().into()),
                ("state", state.into()),
                ("version", stat.version.to_string().into()),
                ("last_deep_scrub_stamp", shown["last_deep_scrub_stamp"].clone()),
                ("log_size", stat.log_size.into()),
                ("acting_primary", stat.acting_primary.into()),
            ];
            facts.into_iter().for_each(|(name, value)| assert_eq!(shown[name], value, "{name}"));
            assert_eq!(shown["stat_sum"]["num_bytes"], stat.sum.num_bytes);
            assert!(stat.last_deep_scrub_stamp.sec > 0 && stat.up == [0]);
        }
        let [(0, osd)] = &map.osds[..] else { panic!("one OSD: {:?}", map.osds) };
        assert_eq!(osds["osd_stats"][0]["statfs"]["total"], osd.statfs.total);
        assert_eq!(osds["osd_stats"][0]["num_pgs"], osd.num_pgs);
    }

    async fn health(&self) -> String {
        self.ask(r#""prefix":"health","detail":"detail""#).await.0
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn server(dir: &Path) -> Handle {
    Server::disk(dir).pool("p").pg_num(4).capacity_bytes(64 << 20).start().expect("the server starts")
}

/// Flips one bit of an object's data in the store's file.
fn flip(dir: &Path, n: u8) {
    let path = dir.join("store/data");
    let contents = fs::read(&path).expect("a store's");
    let pattern = format!("object {n} object {n} ");
    let at =
        contents.windows(pattern.len()).position(|part| part == pattern.as_bytes()).expect("it is there");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("a store's");
    file.write_all_at(&[contents[at] ^ 0x10], at as u64).expect("written");
}

async fn written(dir: &Path) {
    let server = server(dir);
    let client = Client::of(&server).await;
    let pool = client.pool().await;
    for n in 0..8 {
        pool.write_full(format!("o{n}"), data(n)).await.expect("written");
    }
    drop((pool, client));
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_on_disk_is_found_on_demand() {
    let scratch = Scratch::new("scrub-asked");
    written(scratch.path()).await;
    flip(scratch.path(), 3);
    let server = server(scratch.path());
    let client = Client::of(&server).await;
    let early = client.pool().await.inconsistent_objects(0).await.expect_err("nothing was scrubbed yet");
    assert_eq!(early.errno(), Errno::ENOENT);
    client.scrub("scrub").await;
    assert_eq!(client.health().await, "HEALTH_OK\n", "a shallow scrub reads no data");
    assert!(client.damaged().await.is_empty());
    client.scrub("deep-scrub").await;
    let pgs = client.pgs().await;
    let damaged: Vec<_> = pgs.iter().filter(|pg| pg["state"] == "active+clean+inconsistent").collect();
    let [pg] = damaged[..] else { panic!("{pgs:#?}") };
    let sum = &pg["stat_sum"];
    assert_eq!((&sum["num_scrub_errors"], &sum["num_deep_scrub_errors"]), (&1.into(), &1.into()));
    assert_eq!(pg["last_deep_scrub"], pg["version"]);
    let pgid = text(&pg["pgid"]);
    let expected = format!(
        "HEALTH_ERR 1 scrub errors; Possible data damage: 1 pg inconsistent\n\
         [ERR] OSD_SCRUB_ERRORS: 1 scrub errors\n\
         [ERR] PG_DAMAGED: Possible data damage: 1 pg inconsistent\n    \
         pg {pgid} is active+clean+inconsistent, acting [0]\n"
    );
    assert_eq!(client.health().await, expected);
    let (listed, _) = client.ask(r#""prefix":"pg ls","states":["inconsistent"]"#).await;
    assert!(
        listed.contains(pgid) && listed.lines().filter(|line| line.contains("inconsistent")).count() == 1
    );
    let [(seed, object)] = &client.damaged().await[..] else { panic!("one object is damaged") };
    assert_eq!(format!("1.{seed:x}"), pgid);
    let (name, shard) = (&object.object.name[..], &object.shards[&(0, -1)]);
    assert_eq!((name, shard.errors.0, shard.size), (&b"o3"[..], shard_error::READ, 100_003));
    assert!(object.version > 0 && shard.primary && object.shard_errors == shard.errors);
    client.check_map().await;
    let (stat, _) = client.ask(r#""prefix":"pg stat""#).await;
    assert!(stat.starts_with("4 pgs: 3 active+clean, 1 active+clean+inconsistent; "), "{stat}");

    // There is no other copy: the repair reports that, and the error remains, also after a restart.
    client.scrub("repair").await;
    let (log, _) = client.ask(r#""prefix":"log last","num":200,"level":"error","channel":"cluster""#).await;
    assert!(log.contains(&format!("{pgid} repair 1 errors, 0 fixed")), "{log}");
    assert!(log.contains(":::o3:head : candidate had a read error"), "{log}");
    assert_eq!(client.health().await, expected);
    drop(client);
    server.shutdown().await;
    let server = self::server(scratch.path());
    let client = Client::of(&server).await;
    assert_eq!(client.health().await, expected);

    // A new write of the object clears the error.
    client.pool().await.write_full("o3", data(3)).await.expect("written");
    client.scrub("deep-scrub").await;
    assert_eq!(client.health().await, "HEALTH_OK\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_on_disk_is_found_without_demand_unless_a_flag_forbids_it() {
    let scratch = Scratch::new("scrub-due");
    written(scratch.path()).await;
    flip(scratch.path(), 5);
    let server = server(scratch.path());
    let client = Client::of(&server).await;
    client.ask(r#""prefix":"osd set","key":"nodeep-scrub""#).await;
    client.ask(r#""prefix":"osd pool set","pool":"p","var":"deep_scrub_interval","val":"1""#).await;
    client.ask(r#""prefix":"osd pool set","pool":"p","var":"scrub_min_interval","val":"1""#).await;
    let begun = client.pgs().await;
    let scrubbed =
        |now: &[Value]| now.iter().zip(&begun).all(|(n, b)| n["last_scrub_stamp"] != b["last_scrub_stamp"]);
    client.until("shallow scrubs are allowed", scrubbed).await;
    let (now, stamp) = (client.pgs().await, "last_deep_scrub_stamp");
    assert!(now.iter().zip(&begun).all(|(now, begun)| now[stamp] == begun[stamp]), "{now:#?}");
    client.ask(r#""prefix":"osd unset","key":"nodeep-scrub""#).await;
    client.until("found", |now| now.iter().any(|pg| pg["stat_sum"]["num_deep_scrub_errors"] == 1)).await;
    assert!(client.health().await.contains("OSD_SCRUB_ERRORS: 1 scrub errors"));
}

/// A memory store has no medium to check; the data's checksum, sent with the data, is compared.
#[tokio::test(flavor = "multi_thread")]
async fn all_is_in_order_in_memory_and_in_placement_groups_that_were_split_and_merged() {
    let server = Server::memory().pool("p").pg_num(4).start().expect("the server starts");
    let client = Client::of(&server).await;
    let pool = client.pool().await;
    for n in 0..20 {
        pool.write_full(format!("o{n}"), data(n)).await.expect("written");
    }
    client.scrub("deep-scrub").await;
    for number in [16, 2] {
        client.ask(&format!(r#""prefix":"osd pool set","pool":"p","var":"pg_num","val":"{number}""#)).await;
        client.until("changed", |now| now.len() == number).await;
        client.scrub("deep-scrub").await;
    }
    assert_eq!(client.health().await, "HEALTH_OK\n");
}
