//! `ceph tell osd.N …`: the commands of an OSD.

use std::sync::{Arc, Weak};

use loligo_admin::{Admin, Command, Failure, Request};
use loligo_maps::OsdMap;
use loligo_mon::output::json::Node;
use loligo_mon::output::units::stamp;
use loligo_mon::state::State;
use loligo_mon::state::log::Severity;
use loligo_mon::{MonService, command, object};
use loligo_osd::{Bench, Osd};
use loligo_wire::{EntityAddr, Errno, OsdId, UTime};
use tokio::runtime::Handle;

use super::render::{Shape, add, add_text, shaped};

/// The limits of a bench, from the defaults of `osd_bench_small_size_max_iops` and its kin: requests per
/// second of less than 1 MiB, bytes per second of larger ones, and the duration in seconds.
const BENCH_SMALL_IOPS: u64 = 100;
const BENCH_LARGE_BYTES: u64 = 100 << 20;
const BENCH_SECONDS: u64 = 30;
/// The largest request (`osd_bench_max_block_size`).
const BENCH_SIZE_MAX: u64 = 64 << 20;

/// Adds the commands of one OSD. Several OSDs can share a store.
pub(super) fn register(admin: &Admin, osd: &Arc<Osd>, mon: &Arc<MonService>, id: OsdId) {
    let asker = Asker { osd: Arc::clone(osd), mon: Arc::downgrade(mon), runtime: Handle::current(), id };
    let asker = Arc::new(asker);
    register_state(admin, &asker);
    register_work(admin, &asker);
    register_lists(admin, &asker);
    register_idle(admin);
}

struct Asker {
    osd: Arc<Osd>,
    mon: Weak<MonService>,
    runtime: Handle,
    id: OsdId,
}

impl Asker {
    fn ask<R: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut State, UTime) -> R + Send + 'static,
    ) -> Result<R, Failure> {
        let stopped = || Failure::new("the monitor has stopped");
        let mon = self.mon.upgrade().ok_or_else(stopped)?;
        self.runtime.block_on(mon.call(ask)).map_err(|_| stopped())
    }

    /// The number of placement groups that the map assigns to this OSD.
    fn pgs(&self, map: &OsdMap) -> usize {
        let all = map.pools.iter().flat_map(|(pool, facts)| {
            (0..facts.pg_num()).map(|seed| loligo_wire::PgId { pool: *pool, seed })
        });
        all.filter(|pg| map.pg_to_up_acting(*pg).acting.contains(&self.id)).count()
    }

    fn status(&self) -> Result<Node, Failure> {
        let map = self.osd.map();
        let oldest = self.ask(|state, _| state.maps().oldest().0)?;
        let uuid = map.osd(self.id).map(|osd| osd.uuid).unwrap_or_default();
        Ok(object! {
            "cluster_fsid": map.fsid.to_string(), "osd_fsid": uuid.to_string(), "whoami": self.id.0,
            "state": "active", "oldest_map": oldest, "cluster_osdmap_trim_lower_bound": oldest,
            "newest_map": map.epoch.0, "num_pgs": self.pgs(&map),
        })
    }

    fn bench(&self, request: &Request) -> Result<Node, Failure> {
        let number = |name: &str, default: u64| {
            request.arg(name).and_then(|text| text.parse().ok()).filter(|n| *n > 0).unwrap_or(default)
        };
        let (count, size) = (number("count", 1 << 30), number("size", 4 << 20));
        check_bench(count, size)?;
        let object_size = number("object_size", 0).max(size);
        let bench = Bench { bytes: count, size, object_size, objects: number("object_num", 0) };
        let took =
            self.osd.bench(&bench).map_err(|e| Failure { errno: Errno::EIO, why: format!("bench: {e}") })?;
        let busy = || Failure { errno: Errno::EBUSY, why: "another bench is under way".to_owned() };
        let seconds = took.ok_or_else(busy)?;
        let seconds = seconds.as_secs_f64().max(1e-9);
        let rate = count as f64 / seconds;
        Ok(object! {
            "bytes_written": count, "blocksize": size, "elapsed_sec": seconds, "bytes_per_sec": rate,
            "iops": rate / size as f64,
        })
    }
}

/// Refuses a bench that would keep the OSD busy for too long, as a stock OSD does.
fn check_bench(count: u64, size: u64) -> Result<(), Failure> {
    if size > BENCH_SIZE_MAX {
        let most = loligo_mon::output::units::bytes(BENCH_SIZE_MAX);
        return Err(Failure::new(format!(
            "block 'size' values are capped at {most}. If you wish to use a higher value, please adjust \
             'osd_bench_max_block_size'"
        )));
    }
    let shown = loligo_mon::output::units::bytes(size);
    let (most, assumed, option) = if size < 1 << 20 {
        let most = size.saturating_mul(BENCH_SMALL_IOPS * BENCH_SECONDS);
        (most, format!("{BENCH_SMALL_IOPS} IOPS"), "osd_bench_small_size_max_iops")
    } else {
        let speed = loligo_mon::output::units::bytes(BENCH_LARGE_BYTES);
        (BENCH_LARGE_BYTES * BENCH_SECONDS, format!("{speed}/s"), "osd_bench_large_size_max_throughput")
    };
    if count <= most {
        return Ok(());
    }
    Err(Failure::new(format!(
        "'count' values greater than {most} for a block size of {shown}, assuming {assumed}, for {BENCH_SECONDS} seconds, \
         can cause ill effects on osd.  Please adjust '{option}' with a higher value if you wish to use a higher 'count'."
    )))
}

fn register_state(admin: &Admin, asker: &Arc<Asker>) {
    let of = Arc::clone(asker);
    let status = move |_: &Request| of.status();
    admin.command(shaped("status", "What the OSD is doing.", Shape::of("status"), status));
    let of = Arc::clone(asker);
    let flush = move |_: &Request| Ok(command::stat_seq(&of.osd.map(), of.id).to_string());
    admin.command(Command::new(
        "flush_pg_stats",
        "Report what placement groups hold; it is known at once.",
        flush,
    ));
    let of = Arc::clone(asker);
    let mapped = move || Node::array(of.osd.map().pools.keys().map(|pool| pool.0));
    add(
        admin,
        "get_mapped_pools",
        "The pools whose placement groups are here.",
        Shape::list("mapped_pools", "pool_id"),
        mapped,
    );
}

fn register_work(admin: &Admin, asker: &Arc<Asker>) {
    let of = Arc::clone(asker);
    let bench = move |request: &Request| of.bench(request);
    let bench = shaped(
        "bench",
        "Write to the store for a while, and tell how fast.",
        Shape::of("osd_bench_results"),
        bench,
    );
    let bench = ["count", "size", "object_size", "object_num"].into_iter().fold(bench, Command::optional_int);
    admin.command(bench);
    let of = Arc::clone(asker);
    let say = move |request: &Request| {
        let severity = match request.arg("level").unwrap_or_default() {
            "error" => Severity::Error,
            "warning" => Severity::Warn,
            "debug" => Severity::Debug,
            _ => Severity::Info,
        };
        let line = request.arg("message").unwrap_or_default().to_owned();
        of.ask(move |state, now| state.log_mut().say(now, severity, "cluster", line))?;
        Ok(String::new())
    };
    let say = Command::new("cluster_log", "Write a line to the cluster's log.", say);
    admin.command(say.required("level", &["error", "warning", "info", "debug"]).rest("message"));
    let compacted = || object! { "elapsed_time": 0 };
    add(
        admin,
        "compact",
        "Give back room in the store, which does so by itself.",
        Shape::of("compact_result"),
        compacted,
    );
}

fn register_lists(admin: &Admin, asker: &Arc<Asker>) {
    let of = Arc::clone(asker);
    let shape = Shape::list("watchers", "watch");
    add(admin, "dump_watchers", "Clients that watch objects.", shape, move || watchers(&of.osd));
    let of = Arc::clone(asker);
    let blocklist = move |request: &Request| Ok(blocklist(&of.osd.map(), request));
    admin.command(Command::new("dump_blocklist", "Clients that are shut out, and until when.", blocklist));
    let cache = || object! { "object_ctx": 0 };
    add(
        admin,
        "cache status",
        "How many objects' states are kept in memory beside the store.",
        Shape::of("cache_status"),
        cache,
    );
    let scrubs = || object! { "scrubs_local": 0, "scrubs_remote": 0, "osd_max_scrubs": 1 };
    add(
        admin,
        "dump_scrub_reservations",
        "Scrubs that wait for other OSDs.",
        Shape::of("scrub_reservations"),
        scrubs,
    );
    let reservations = || {
        let none = || object! { "max_allowed": 1, "min_priority": 0, "queues": Vec::new(), "in_progress": Vec::new() };
        object! { "local_reservations": none(), "remote_reservations": none() }
    };
    add(
        admin,
        "dump_recovery_reservations",
        "Recoveries that wait.",
        Shape::of("reservations"),
        reservations,
    );
    let network = |request: &Request| {
        let threshold = request.arg("value").and_then(|value| value.parse::<i64>().ok()).unwrap_or(1000);
        Ok(object! { "threshold": threshold, "entries": Vec::new() })
    };
    let network =
        shaped("dump_osd_network", "Slow ways between OSDs.", Shape::of("network_ping_times"), network);
    admin.command(network.optional_int("value"));
    let requests = || {
        let kinds = ["ops", "linger_ops", "pool_ops", "pool_stat_ops", "statfs_ops", "command_ops"];
        Node::map(kinds.map(|kind| (kind, Vec::new())))
    };
    add(admin, "objecter_requests", "Requests of this OSD to others.", Shape::of("requests"), requests);
    let empty = || Node::Array(Vec::new());
    for (prefix, help, root) in [
        ("list_devices", "Devices in use, as far as they are known.", "list_devices"),
        ("dump_scrubs", "Scrubs that are planned: one is chosen when the last one ends.", "scrubs"),
        ("dump_pg_recovery_stats", "How long recoveries took.", "recovery"),
    ] {
        add(admin, prefix, help, Shape::of(root), empty);
    }
}

/// Adds the commands of stock OSDs that have no work to do here. They succeed at once.
fn register_idle(admin: &Admin) {
    add_text(admin, "smart", "What devices say of their health: no device is known.", Ok("{\n}"));
    for (prefix, help) in [
        ("flush_journal", "Write what is in the journal to the store, which is done all the time."),
        ("flush_store_cache", "Forget what is cached of the store."),
        ("get_latest_osdmap", "Ask for the newest osdmap, which comes by itself."),
        ("send_beacon", "Tell the monitor that the OSD lives."),
        ("scrub_purged_snaps", "Look for snapshots that should be gone."),
        ("reset_purged_snaps_last", "Look at all snapshots anew."),
        ("reset_pg_recovery_stats", "Forget how long recoveries took."),
        ("dump_objectstore_kv_stats", "Figures of a RocksDB, which is not in use."),
        ("calc_objectstore_db_histogram", "A histogram of a RocksDB, which is not in use."),
    ] {
        add_text(admin, prefix, help, Ok(""));
    }
    let refused = Failure {
        errno: Errno::EPERM,
        why: "Error flushing objectstore cache: (1) Operation not permitted".to_owned(),
    };
    add_text(admin, "cache drop", "Forget what is cached; refused, as by an OSD in memory.", Err(refused));
    for (prefix, with_value) in [("get_heap_property", true), ("set_heap_property", false)] {
        let answer = move |_: &Request| {
            let mut node = object! { "error": "invalid property", "success": false };
            if with_value {
                node.push("value", 0);
            }
            Ok(node)
        };
        let command =
            shaped(prefix, "A property of tcmalloc, which is not in use.", Shape::of("result"), answer);
        let command = command.required("property", &[]);
        admin.command(if with_value { command } else { command.required_int("value") });
    }
    let profiler = Command::new("cpu_profiler", "Profile; not built in.", |_| {
        Ok("cpu_profiler support not linked in".to_owned())
    });
    admin.command(profiler.required("arg", &["status", "flush"]));
}

fn watchers(osd: &Osd) -> Node {
    let watch = |watch: loligo_osd::WatchFacts| {
        let oid = watch.object.as_ref();
        object! {
            "namespace": String::from_utf8_lossy(oid.nspace).into_owned(),
            "object": String::from_utf8_lossy(oid.name).into_owned(),
            "entity_name": object! { "type": "client", "num": watch.client },
            "cookie": watch.cookie, "timeout": watch.timeout_s, "entity_addr_t": addr(&watch.addr),
        }
    };
    Node::array(osd.watches().into_iter().map(watch))
}

fn addr(addr: &EntityAddr) -> Node {
    loligo_mon::output::one_addr(addr)
}

/// Two arrays, one after the other, as a stock OSD writes them.
fn blocklist(map: &OsdMap, request: &Request) -> String {
    let print = |root: &'static str, entries: &loligo_maps::AddrTimes| {
        let entry = |(at, until): (&EntityAddr, &UTime)| {
            object! { "entity_addr_t": addr(at), "expire_time": stamp(*until) }
        };
        Shape::list(root, "entry").print(request, &Node::array(entries.iter().map(entry)))
    };
    print("blocklist", &map.blocklist.addrs) + &print("range_blocklist", &map.blocklist.ranges)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusals have the words of a stock OSD.
    #[test]
    fn a_bench_that_would_last_is_refused() {
        let why = |count, size| check_bench(count, size).map_err(|failure| failure.why);
        assert_eq!(why(12_288_000, 4096), Ok(()));
        assert_eq!(
            why(12_288_001, 4096).expect_err("too many"),
            "'count' values greater than 12288000 for a block size of 4 KiB, assuming 100 IOPS, for 30 seconds, can cause \
             ill effects on osd.  Please adjust 'osd_bench_small_size_max_iops' with a higher value if you wish to use a \
             higher 'count'."
        );
        let why = why(1, (64 << 20) + 1).expect_err("too large");
        assert!(why.starts_with("block 'size' values are capped at 64 MiB."), "{why}");
    }
}
