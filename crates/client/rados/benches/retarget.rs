//! Measures how fast operations are resent when an OSD dies. Three modelled OSDs on loopback never
//! reply; one of them dies with all operations in flight to it, and the map marks it down.
//!
//! ```text
//! cargo bench -p loligo-rados --bench retarget -- [OPERATIONS] [BYTES]
//! ```

#[path = "../tests/fake/mod.rs"]
mod fake;

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::Rados;
use loligo_wire::OsdId;

use fake::{Fake, POOL, Verdict};

const ROUNDS: usize = 9;

#[tokio::main]
async fn main() {
    let mut args =
        std::env::args().skip(1).filter(|arg| arg != "--bench").map(|arg| arg.parse().expect("a number"));
    let (ops, bytes) = (args.next().unwrap_or(10_000), args.next().unwrap_or(4096));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(round(ops, bytes).await);
    }
    rounds.sort_unstable();
    let us = |round: &(Duration, Duration)| (round.0.as_micros(), round.1.as_micros());
    let (queued_us, received_us) = us(&rounds[ROUNDS / 2]);
    let (best_us, worst_us) = (us(&rounds[0]).0, us(&rounds[ROUNDS - 1]).0);
    println!("{ops} operations of {bytes} bytes, medians of {ROUNDS} rounds:");
    println!(
        "in the queues again after {queued_us} us ({best_us} to {worst_us}), all received after {received_us} us"
    );
}

/// Returns the time from the arrival of the map until all operations were queued again, and until the
/// other OSDs had received them.
async fn round(ops: usize, bytes: usize) -> (Duration, Duration) {
    let fake = Fake::start(3, 64).await;
    fake.set_rule(|_, _| Verdict::Drop);
    let builder =
        fake.builder().set("objecter_inflight_ops", "100000").set("objecter_inflight_op_bytes", "4G");
    let rados = builder.connect().await.expect("connects");
    let doomed = fake.primary(b"o0");
    let names: Vec<String> = (0..)
        .map(|i| format!("o{i}"))
        .filter(|name| fake.primary(name.as_bytes()) == doomed)
        .take(ops)
        .collect();
    let load = tokio::spawn(load(rados.clone(), names, Bytes::from(vec![7; bytes])));
    until(|| fake.seen_count() >= ops).await;
    let died_at = Instant::now();
    // Also marked out: the pool has one copy.
    fake.change(|_, inc| {
        inc.osd_down(OsdId(doomed));
        inc.new_weight.insert(OsdId(doomed), 0);
    });
    until(|| fake.seen_count() >= 2 * ops).await;
    let received = died_at.elapsed();
    let resent = rados.resent();
    assert_eq!(resent.ops, ops as u64, "all were sent again");
    load.abort();
    rados.shutdown().await;
    (resent.took, received)
}

async fn load(rados: Rados, names: Vec<String>, data: Bytes) {
    let pool = rados.ioctx(POOL).await.expect("the pool");
    join_all(names.into_iter().map(|name| pool.write_full(name, data.clone()))).await;
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
}
