//! Goal: a server under all known attacks at once loses no data, still serves its honest clients, and
//! uses no more memory than its bounds allow. Method: `loligo serve --store disk` runs in a process of
//! its own. Writers verify their data, and a client times small reads, at first alone and then beside
//! the attackers. At the end the server is killed, and the content of the next one is compared.
//!
//! `LOLIGO_SIEGE_SECONDS` is the duration (6), `LOLIGO_SIEGE_SEED` the seed (1). `LOLIGO_SIEGE_RATIO`
//! limits the 99th percentile of the small reads to this multiple of its value without attackers.
//! `cargo xtask torture` runs it for a long time and with that limit.

#[path = "../../../../server/server/tests/addresses/mod.rs"]
mod addresses;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../../../server/server/tests/hostile/attacker.rs"]
mod attacker;
mod attacks;
mod frames;
mod probe;
#[path = "../server_process/mod.rs"]
mod server_process;
mod victim;
#[path = "../../../../server/server/tests/hostile/wire.rs"]
mod wire;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../writers/mod.rs"]
mod writers;

use std::env;
use std::process::Stdio;
use std::time::Duration;

use attacks::Attacks;
use fastrand::Rng;
use probe::Probe;
use server_process::{Scratch, ServerProcess};
use victim::Victim;
use writers::{Writers, connect};

/// The server's bounds in total (`docs/book/security.md`), and its memory without clients.
const MEMORY_MAX: u64 = 2 << 30;

/// The server accepts compressed messages, with any method.
const COMPRESSION: &[&str] = &[
    "--ms-osd-compress-mode=force",
    "--ms-osd-compression-algorithm=snappy,zlib,zstd,lz4",
    "--ms-osd-compress-min-size=1",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_attacks_at_once_cost_no_data_and_no_more_memory_than_allowed() {
    let (seconds, seed) = (setting("LOLIGO_SIEGE_SECONDS", 6), setting("LOLIGO_SIEGE_SEED", 1));
    let mut rng = Rng::with_seed(seed);
    let scratch = Scratch::new("siege");
    // Its many messages about attackers are in its log as well.
    let mut server = ServerProcess::start_telling(&scratch.0, Stdio::null(), COMPRESSION);
    let (honest, pool) = connect(&scratch.0, "honest").await;
    let victim = Victim::new(&scratch.0, &server, &honest).await;
    let mut writers = Writers::new();
    writers.start(&pool, &mut rng);
    let probe = Probe::new(&pool).await;

    let quiet = probe.run(Duration::from_secs(seconds) / 3).await;
    let attacks = Attacks::begin(&victim, &honest, seed).await;
    let besieged = probe.run(Duration::from_secs(seconds)).await;
    let report = attacks.end().await;
    let most_bytes = victim.peak_bytes();

    writers.stop();
    writers.finish().await;
    writers.verify(&pool, 0).await;
    server.kill();
    let server = ServerProcess::start(&scratch.0);
    writers.verify(&pool, 1).await;
    println!(
        "seed {seed}, {seconds} s: {} operations; small reads: alone {quiet}; besieged {besieged}; the server had {} MiB at most",
        writers.totals().0,
        most_bytes >> 20
    );
    print!("{report}");
    assert!(report.is_everything_tried(), "{report}");
    assert!(most_bytes < MEMORY_MAX, "the server had {} MiB", most_bytes >> 20);
    if let Ok(ratio) = env::var("LOLIGO_SIEGE_RATIO") {
        let ratio: f64 = ratio.parse().expect("a number");
        assert!(besieged.p99_us <= quiet.p99_us * ratio, "alone {quiet}; besieged {besieged}");
    }
    honest.shutdown().await;
    drop(server);
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
